"""The loop of a local run: clear, grant, watch, until every job has ended.

The market is cleared again whenever a job ends or arrives, the documents change, or an epoch is
over. What it gives is said to the host, which brings everybody there; a job starts once the CPUs
that it was granted are its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from walras.clearing import clear
from walras.market import snapshot as core
from walras_agent.cpuset import CpuSet
from walras_agent.local.placement import PlacementError
from walras_agent.node_plan import EnforcedGrant
from walras_agent.topology import Topology
from walras_api.job_inputs import has_own_cpus
from walras_cli.documents import InputError
from walras_cli.local.documents import NODE, load
from walras_cli.local.others import Others
from walras_cli.local.outlook import outlook
from walras_cli.local.profiling import BackgroundProfiling
from walras_cli.local.state import FractionSource, JobState, Phase, RunTotals
from walras_profiler.launch import LaunchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.market.plan import DeadlineOutcome, Plan
    from walras.market.plan import Grant as PlannedGrant
    from walras_agent.local.placement import PlacedJob as Place
    from walras_agent.status import PodStatus
    from walras_cli.local.documents import FileWatch, LocalJob, LocalMarket
    from walras_cli.local.host import Host, Pin, SoldCpus

TICK_SECONDS = 0.1
HOLD_SECONDS = 1.0


class JobFailedError(Exception):
    """A job ended with an error; one line that names it."""


class View(Protocol):
    """Receives the events of a run."""

    def event(self, now: float, text: str) -> None:
        """Receive an event."""

    def refresh(self, now: float, jobs: Mapping[str, JobState]) -> None:
        """Time has passed."""


@dataclass(slots=True)
class Loop:
    """One run of all jobs under one policy.

    Attributes:
        market: Market of the documents.
        host: Host that starts jobs and enforces their grants.
        view: Receives all events.
        pin: How jobs that arrive during the run are held to CPUs while they are profiled.
        watch: Files whose changes are followed; None to follow none.
        keep_going: Whether the other jobs continue when one fails.
        jobs: States of all jobs by key, those that have ended included.
        totals: Sums of what users got.
        others: What other programs take of the CPUs for sale; None before the run begins.
    """

    market: LocalMarket
    host: Host
    view: View
    pin: Pin = "auto"
    watch: FileWatch | None = None
    keep_going: bool = False
    jobs: dict[str, JobState] = field(default_factory=dict)
    totals: RunTotals = field(default_factory=RunTotals)
    others: Others | None = None
    _plan: Plan | None = None
    _began: float = field(default_factory=time.monotonic)
    _began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _deadlines: tuple[DeadlineOutcome, ...] = ()
    _deadline_states: dict[str, str] = field(default_factory=dict)
    _accounted: float = 0.0
    _held: float = 0.0
    _cleared: float = 0.0
    _profiling: dict[str, BackgroundProfiling] = field(default_factory=dict)

    def run(self) -> None:
        """Run every job to its end.

        Raises:
            JobFailedError: one failed, and the others were not to go on.
        """
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        self.others = Others.from_now(self.sold.topology.cpuset, self._own_seconds())
        try:
            self._decide("all jobs start")
            while any(state.takes_part for state in self.jobs.values()):
                self._step()
                time.sleep(TICK_SECONDS)
            self._count_others()
        finally:
            for state in self.jobs.values():
                self._close(state)

    @property
    def plan(self) -> Plan | None:
        """The plan in force; None before the first."""
        return self._plan

    @property
    def sold(self) -> SoldCpus:
        """The part of the machine that is for sale."""
        return self.host.sold

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def _step(self) -> None:
        """Look at everything once, and decide again if anything calls for it."""
        reasons = [*self._ended(), *self._documents(), *self._profiled()]
        if not reasons and self.now - self._cleared >= self.market.rules.epoch_seconds:
            reasons = ["the epoch is over"]
        self._account()
        if reasons:
            self._decide(", ".join(reasons))
        elif self.now - self._held >= HOLD_SECONDS:
            self._hold()
        self.view.refresh(self.now, self.jobs)

    # What may have happened.

    def _ended(self) -> list[str]:
        reasons = []
        for state in self.jobs.values():
            if state.running is None or (outcome := state.running.process.poll()) is None:
                continue
            self._account()
            state.ended = state.started + outcome.seconds
            state.pass_time(state.ended - self._accounted)  # it was noticed a little late
            state.cpu_seconds = outcome.user_seconds + outcome.system_seconds
            failure = state.running.failure()
            state.phase = Phase.DONE if failure is None else Phase.FAILED
            self._close(state)
            if (result := state.deadline_result(self._began_at)) is not None:
                self.view.event(self.now, f"{state.job.title} {result}")
            reasons.append(f"{state.job.title} {'ended' if failure is None else 'failed'}")
            if failure is not None:
                self._report_failure(f"{state.job.origin}: spec.command: {failure}")
        return reasons

    def _documents(self) -> list[str]:
        if self.watch is None or not self.watch.changed():
            return []
        try:
            market = load(self.watch.files)
        except InputError as error:
            for problem in error.problems:
                self.view.event(self.now, f"{problem} (the previous version stays in force)")
            return []
        return self._follow(market)

    def _follow(self, market: LocalMarket) -> list[str]:
        """Take over changed documents; the market then says what they change."""
        wanted = {job.key: job for job in market.jobs}
        reasons = []
        for key, state in self.jobs.items():
            if not state.takes_part:
                continue
            if key not in wanted:
                state.phase = Phase.REMOVED
                state.ended = self.now
                if key not in self._profiling:  # else it is still on its CPUs
                    self._close(state)
                reasons.append(f"{state.job.title} was removed")
            else:
                self._adopt(state, wanted[key])
        for key, job in wanted.items():
            before = self.jobs.get(key)
            if before is None or (
                before.phase is Phase.REMOVED and key not in self._profiling
            ):  # one that comes back starts anew
                self.jobs[key] = JobState.of(job)
                reasons.append(f"{job.title} arrived")
        if market.rules.cores.unit != self.market.rules.cores.unit or (
            market.rules.cores.reserved_cores != self.market.rules.cores.reserved_cores
        ):
            self.view.event(
                self.now,
                "Market default: new spec.cores.unit and reservedCores apply to the next run",
            )
        self.market = market
        return reasons or ["the documents changed"]

    def _adopt(self, state: JobState, job: LocalJob) -> None:
        if (job.spec.command, job.spec.env, job.spec.data, job.cwd) != (
            state.job.spec.command,
            state.job.spec.env,
            state.job.spec.data,
            state.job.cwd,
        ):
            self.view.event(self.now, f"{job.title}: a changed command applies to the next run")
        state.job = job
        if job.fraction is not None:
            state.take_given(job.fraction, job.fit)

    def _profiled(self) -> list[str]:
        reasons = []
        for key, profiling in list(self._profiling.items()):
            alive = profiling.thread.is_alive()  # asked first, so that no sentence is missed
            while not profiling.messages.empty():
                self.view.event(self.now, profiling.messages.get())
            if alive:
                continue
            del self._profiling[key]
            state = self.jobs[key]
            if state.phase is not Phase.PROFILING:
                self._close(state)
                reasons.append(f"{state.job.title} was removed")
                continue
            state.phase = Phase.WAITING
            if profiling.result is None:
                state.take_failure(profiling.problem)
                self.view.event(
                    self.now,
                    f"{state.job.title}: its measurement failed, and its parallel fraction stays "
                    f"{state.fraction:g} ({state.source}): {profiling.problem}",
                )
            else:
                state.take_measured(profiling.result)
            reasons.append(f"{state.job.title} was profiled")
        return reasons

    # What to do about it.

    def _decide(self, why: str) -> None:
        """Clear the market and hand out what it gives."""
        self._cleared = self.now
        states = {k: state for k, state in self.jobs.items() if state.takes_part}
        if not states:
            return
        snapshot = core.Snapshot(
            self.market.entitlements,
            (core.Node(NODE, len(self.sold.units)),),
            tuple(self._as_job(state) for state in states.values()),
            held={} if self._plan is None else self._plan.holdings(),
        )
        plan = clear(snapshot, self.market.policy)
        if plan != self._plan:
            self._announce(plan, why)
        self._deadlines = plan.deadlines
        self._tell_of_deadlines(plan)
        for state in states.values():
            state.grant = None
        for grant in plan.grants:
            state = states[f"{grant.namespace}.{grant.name}"]
            state.grant = grant
            state.first_grant = state.first_grant or grant
            state.held = grant.held
            state.shares_cores = state.shares_cores or grant.shared > 0
        self._grant({k: state for k, state in states.items() if state.grant is not None})

    def _as_job(self, state: JobState) -> core.Job:
        """Return a job with its deadline, and the cores that were reserved for it."""
        job = state.job
        last = self._deadlines
        reserved_before = (each.reserved for each in last if (each.namespace, each.name) == job.id)
        return state.with_deadline(self._began_at, self.now, next(reserved_before, 0))

    def _tell_of_deadlines(self, plan: Plan) -> None:
        """Say what becomes of each deadline whenever that changes."""
        outlooks = {(each.namespace, each.name): each for each in plan.deadlines}
        for state in self.jobs.values():
            if state.job.spec.deadline is None or not state.takes_part:
                continue
            deadline = outlooks.get(state.job.id)
            outlook_state = "" if deadline is None else deadline.state
            if outlook_state != self._deadline_states.get(state.job.key):
                self._deadline_states[state.job.key] = outlook_state
                text = outlook(deadline)
                self.view.event(self.now, f"{state.job.title}: its deadline: {text}")

    def _announce(self, plan: Plan, why: str) -> None:
        """Put a new decision on record; one that changes nothing is not worth remembering."""
        self._plan = plan
        self.totals.decisions.append((self.now, why, plan))
        self.view.event(self.now, f"cleared the market: {why}")
        if not plan.converged:
            self.view.event(self.now, f"prices are off by up to {plan.residual:.1g}: {plan.solver}")
        for refusal in plan.refused:
            self.view.event(self.now, f"{refusal.namespace}/{refusal.name}: {refusal.reason}")

    def _grant(self, states: Mapping[str, JobState]) -> None:
        """Say what every job is granted; one that has no place yet gets it first."""
        grants = []
        for key, state in states.items():
            try:
                state.place = state.place or self.host.open(state.job)
            except (LaunchError, PlacementError) as error:
                self._fail(state, str(error))
                continue
            if state.grant is not None:
                isolated = has_own_cpus(state.job.spec, self.market.rules.cores)
                waits = state.phase is Phase.WAITING and self._can_be_profiled(state)
                grant = _for_agent(state.grant, state.place, isolated=isolated)
                grants.append(_alone(grant) if waits or key in self._profiling else grant)
        self.host.grant(self.market.rules.mode, grants)
        self._hold()

    def _hold(self) -> None:
        """Enforce every job's grant, and start jobs whose grant is enforced."""
        self._held = self.now
        # Whoever is profiled goes on to use the CPUs that it was given for that.
        profiled = [self.jobs[key].place for key in self._profiling]
        status = self.host.hold([place.container for place in profiled if place is not None])
        pods = {pod.pod: pod for pod in status.pods}
        for key, state in self.jobs.items():
            place = state.place
            if place is None:
                continue
            if place.container in status.repaired:
                self.view.event(
                    self.now, f"{state.job.title}: another program changed its CPUs; restored"
                )
            state.cpu_seconds = place.cpu_seconds()
            if place.name in pods:
                self._take(key, state, place, pods[place.name])
        self._count_others()

    def _take(self, key: str, state: JobState, place: Place, pod: PodStatus) -> None:
        """Take note of how a job is held, and start it if it waits for just that."""
        if pod.reason not in {"", state.trouble} and key not in self._profiling:
            self.view.event(self.now, f"{state.job.title}: {pod.reason}")
        state.cpus, state.trouble = pod.cpus, pod.reason
        if state.phase is not Phase.WAITING:
            return
        if pod.state == "Enforced" or self.market.rules.mode == "observe":
            self._begin(key, state, place)
        elif pod.state == "Failed":
            self._fail(state, pod.reason)

    def _begin(self, key: str, state: JobState, place: Place) -> None:
        """Start a job; one that arrives without a profile is first measured on what it is given."""
        if self._can_be_profiled(state):
            state.phase = Phase.PROFILING
            self._profiling[key] = BackgroundProfiling.of(
                state.job, self._topology_of(state), self.pin
            )
            self.view.event(self.now, f"profiling {state.job.title} on CPUs {state.cpus}")
            return
        cores = len(self.sold.units)
        if state.job.spec.max_cores is not None:
            cores = min(cores, state.job.spec.max_cores)
        try:
            state.running = self.host.start(state.job, place, cores)
        except (LaunchError, PlacementError) as error:
            self._fail(state, str(error))
            return
        self._account()  # what went before is no time of its
        state.phase = Phase.RUNNING
        state.started = self._accounted
        self.view.event(self.now, f"started {state.job.title}")

    def _fail(self, state: JobState, reason: str) -> None:
        """A job could not be started."""
        state.phase = Phase.FAILED
        state.ended = state.started = self.now
        self._close(state)
        self._report_failure(f"{state.job.origin}: spec.command: {reason}")

    def _can_be_profiled(self, state: JobState) -> bool:
        first = len(self.totals.decisions) == 1
        return (
            not first
            and state.source is FractionSource.ASSUMED
            and not state.profiled
            and state.grant is not None
            and state.grant.own_cores > 1
            and state.job.fraction is None
            and self.market.rules.mode == "enforce"
        )

    def _topology_of(self, state: JobState) -> Topology:
        mine = state.cpus or CpuSet()
        return Topology(tuple(cpu for cpu in self.sold.topology.cpus if cpu.id in mine))

    # Keeping count.

    def _account(self) -> None:
        """Add the time since the last call to everybody's sums."""
        passed = self.now - self._accounted
        self._accounted += passed
        held: dict[str, float] = {}
        for state in self.jobs.values():
            state.pass_time(passed)
            if state.phase is Phase.RUNNING:
                user = state.job.spec.entitlement
                held[user] = held.get(user, 0.0) + state.held
        self.totals.pass_time(self._plan if held else None, held, passed)

    def _count_others(self) -> None:
        """Count what other programs took so far, and say so once if it is much."""
        if self.others and (told := self.others.count(self.now, self._own_seconds())):
            self.view.event(self.now, told)

    def _own_seconds(self) -> float:
        """Return the CPU seconds of jobs and of their measurements."""
        states = self.jobs.values()
        runs = [run for state in states if state.measured for run in state.measured.measurements]
        return sum(state.cpu_seconds for state in states) + sum(
            run.cpu_seconds or 0.0 for run in runs
        )

    def _close(self, state: JobState) -> None:
        if state.place is not None:
            place, state.place, state.running = state.place, None, None
            place.close()

    def _report_failure(self, line: str) -> None:
        if not self.keep_going:
            raise JobFailedError(line)
        self.view.event(self.now, line)


def _for_agent(grant: PlannedGrant, place: Place, *, isolated: bool) -> EnforcedGrant:
    millicores = max(1, round(1000 * grant.held))
    return EnforcedGrant(place.name, grant.title, millicores, isolated=isolated)


def _alone(grant: EnforcedGrant) -> EnforcedGrant:
    """Return the whole cores of a grant, as a job needs them that is to be profiled."""
    return replace(grant, millicores=1000 * grant.whole_cores, isolated=True)


def under(market: LocalMarket, mechanism: core.CoreMechanism) -> LocalMarket:
    """Return the same market with cores divided by another mechanism."""
    cores = market.rules.cores.model_copy(update={"mechanism": mechanism})
    return replace(market, rules=market.rules.model_copy(update={"cores": cores}))
