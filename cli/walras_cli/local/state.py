"""State of each job of a local run, and sums over time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from walras.analysis.forecast import expected_speedup
from walras.market import snapshot as core
from walras.speedup.work_left import WorkLeft, deadline_time, left_by_profile
from walras_api.job_inputs import ASSUMED_FRACTION
from walras_api.market_job import full_size
from walras_cli.local.documents import NODE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from walras.market.plan import Grant, Plan
    from walras.speedup.diagnosis import Finding
    from walras.speedup.profile import SpeedupFit
    from walras_agent.cpuset import CpuSet
    from walras_agent.local.placement import PlacedJob as Place
    from walras_cli.local.documents import LocalJob
    from walras_cli.local.host import Running
    from walras_cli.local.measure import Measured

NOT_MEASURED = (
    "it was not measured, which needs two cores or more before it starts; "
    "set spec.parallelFraction or spec.profile"
)
"""Reason for an assumed parallel fraction as long as no measurement was tried."""


class FractionSource(StrEnum):
    """Source of a parallel fraction."""

    GIVEN = "given"
    MEASURED = "measured"
    ASSUMED = "assumed"


class Phase(StrEnum):
    """Phase of a job."""

    WAITING = "waiting"
    PROFILING = "profiling"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    REMOVED = "removed"


@dataclass(slots=True)
class JobState:
    """A job over the time of a run.

    Attributes:
        job: The job in its current document.
        fraction: Parallel fraction that it bids with.
        source: Source of the parallel fraction.
        source_reason: Why the parallel fraction is assumed, and the ways out; empty if it is not.
        profiled: Whether a measurement was tried, which is never done again in the same run.
        measured: Its measurement; None if none was made.
        findings: Findings about its measurement; empty without one.
        fit: Measured speedup and run times; None if only a fraction is known.
        phase: Phase that the job is in.
        place: Groups of its processes, from before it starts to its end; None at other times.
        running: Its process; None while it has none.
        grant: Last grant; None before the first.
        first_grant: First grant, usually with all jobs present.
        held: Cores that it holds at present.
        shares_cores: Whether it ever held a part of cores that it shares.
        cpus: CPUs that its processes may use; None before it is granted any.
        trouble: Why its grant is not enforced; empty if it is.
        started: Time when it started, in seconds since the run began.
        ended: Time when it ended, in seconds since the run began; None before.
        core_seconds: Core-seconds that it held.
        progress_seconds: Work done so far, in seconds of one core, as its speedup predicts it.
        cpu_seconds: CPU time that it used, in seconds.
    """

    job: LocalJob
    fraction: float
    source: FractionSource
    source_reason: str = ""
    profiled: bool = False
    measured: Measured | None = None
    findings: Sequence[Finding] = ()
    fit: SpeedupFit | None = None
    phase: Phase = Phase.WAITING
    place: Place | None = None
    running: Running | None = None
    grant: Grant | None = None
    first_grant: Grant | None = None
    held: float = 0.0
    shares_cores: bool = False
    cpus: CpuSet | None = None
    trouble: str = ""
    started: float = 0.0
    ended: float | None = None
    core_seconds: float = 0.0
    progress_seconds: float = 0.0
    cpu_seconds: float = 0.0

    @classmethod
    def of(cls, job: LocalJob) -> JobState:
        """Begin with what the documents say."""
        if job.fraction is None:
            return cls(job, ASSUMED_FRACTION, FractionSource.ASSUMED, NOT_MEASURED)
        return cls(job, job.fraction, FractionSource.GIVEN, fit=job.fit)

    @property
    def takes_part(self) -> bool:
        """Whether the market is to count the job."""
        return self.phase in {Phase.RUNNING, Phase.PROFILING, Phase.WAITING}

    @property
    def in_market(self) -> core.Job:
        """The job as the core takes it."""
        spec = self.job.spec
        return core.Job(
            namespace=self.job.namespace,
            name=self.job.name,
            entitlement=spec.entitlement,
            node=NODE,
            fraction=self.fraction,
            work=float(spec.work),
            min_cores=spec.min_cores,
            max_cores=spec.max_cores,
        )

    def with_deadline(self, began: datetime, now: float, reserved: float) -> core.Job:
        """Return the job as the core takes it, with its deadline if its time on one core is known.

        Args:
            began: Time at which the run began.
            now: Seconds since then.
            reserved: Cores that the last decision reserved for its deadline.
        """
        due, alone = self.due(began), self.seconds_alone
        if due is None or alone is None or self.fit is None:
            return self.in_market
        whole = WorkLeft(alone, self.fit.time_models[1].residual)
        left = left_by_profile(whole, self.progress_seconds)
        deadline = core.Deadline(due - now, left.seconds, left.error, reserved)
        return replace(self.in_market, deadline=deadline)

    def due(self, began: datetime) -> float | None:
        """Return its deadline in seconds since the run began; None without one."""
        text = self.job.spec.deadline
        return None if text is None else (deadline_time(text, began) - began).total_seconds()

    def deadline_result(self, began: datetime) -> str | None:
        """Return by how much it ended before or after its deadline, in words.

        None if it has no deadline, has not ended, or has failed.
        """
        due = self.due(began)
        if self.phase is not Phase.DONE or due is None or self.ended is None:
            return None
        early = due - self.ended
        return f"ended {abs(early):.0f} s {'before' if early >= 0 else 'after'} its deadline"

    @property
    def seconds_alone(self) -> float | None:
        """Predicted seconds on one core; None if no time model is known."""
        if self.fit is None or 1 not in self.fit.time_models:
            return None
        return self.fit.predict_seconds(1, full_size(self.job.spec.data))

    def take_given(self, fraction: float, fit: SpeedupFit | None) -> None:
        """Go by what the documents say from now on."""
        self.fraction, self.source, self.source_reason = fraction, FractionSource.GIVEN, ""
        self.fit = fit or self.fit

    def take_measured(self, measured: Measured) -> None:
        """Go by a measured speedup from now on if it is reliable, and else by the assumed one.

        A parallel fraction that the documents give meanwhile takes precedence over both.
        """
        self.profiled, self.measured, self.findings = True, measured, measured.findings
        assumed = self.source is FractionSource.ASSUMED
        if not measured.doubts:
            self.fit = self.fit or measured.fit
            if assumed:
                self.source, self.source_reason = FractionSource.MEASURED, ""
                self.fraction = measured.fit.fraction_at(full_size(self.job.spec.data))
        elif assumed:
            self.source_reason = measured.reason_to_assume

    def take_failure(self, problem: str) -> None:
        """Go on with the assumed speedup, since the measurement failed."""
        self.profiled = True
        if self.source is FractionSource.ASSUMED:
            self.source_reason = (
                f"its measurement failed: {problem}; set spec.parallelFraction or spec.profile"
            )

    def elapsed(self, now: float) -> float:
        """Seconds that the job ran until ``now`` or its end."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)

    def pass_time(self, seconds: float) -> None:
        """Account for time at what it holds now."""
        if self.phase is Phase.RUNNING:
            self.core_seconds += self.held * seconds
            self.progress_seconds += expected_speedup(self.in_market, self.held) * seconds


@dataclass(slots=True)
class UserState:
    """A user's entitlement and cores, summed over the run times of its jobs."""

    name: str
    seconds: float = 0.0
    entitled: float = 0.0
    held: float = 0.0
    utility: float = 0.0
    entitlement_utility: float = 0.0

    def mean(self, total: float) -> float:
        """Return the average over time of one of the sums."""
        return total / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class RunTotals:
    """The sums over the run for every user, and every decision that was made."""

    users: dict[str, UserState] = field(default_factory=dict)
    decisions: list[tuple[float, str, Plan]] = field(default_factory=list)

    def pass_time(self, plan: Plan | None, held: Mapping[str, float], seconds: float) -> None:
        """Account for time under a plan; ``held`` are the cores that each user really holds."""
        for outcome in plan.users if plan is not None else ():
            user = self.users.setdefault(outcome.name, UserState(outcome.name))
            user.seconds += seconds
            user.entitled += outcome.entitled * seconds
            user.held += held.get(outcome.name, 0.0) * seconds
            user.utility += outcome.held_utility * seconds
            user.entitlement_utility += outcome.entitlement_utility * seconds
