"""The result of a local run, as values for scripts and tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from walras.analysis.forecast import forecast
from walras.market import snapshot as core
from walras.speedup.diagnosis import FindingCode
from walras_cli.local.documents import NODE
from walras_cli.local.measure import assumption
from walras_cli.local.state import FractionSource, Phase
from walras_cli.output import RULED_STYLE
from walras_view.documents import number, plain
from walras_view.text import decimal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.market.plan import Plan
    from walras.speedup.diagnosis import Finding
    from walras_cli.local.loop import Loop
    from walras_cli.local.state import UserState


NOT_THE_MARKET = "measured speedups and times are below what the jobs' cores would give alone"
"""What it means for a report that other programs took CPUs."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one job.

    Attributes:
        namespace: Namespace of the job.
        name: Name of the job.
        entitlement: Entitlement that it drew on.
        phase: Last phase of the job: done, failed or removed.
        fraction: Parallel fraction that it bid with last.
        source: Source of the parallel fraction.
        source_reason: Why the parallel fraction is assumed, and the ways out; empty if it is not.
        seconds: Run time, in seconds.
        cpu_seconds: CPU time that it used, in seconds.
        held: Cores that it held, averaged over its run time.
        own_cores: Whole cores of its own in its first grant; 0 if it had none.
        shared_cores: Part of the cores that it shares in its first grant; 0 if it had none.
        predicted_speedup: Speedup by Amdahl's law for these cores, averaged over its run time.
        measured_speedup: Predicted time on one core over its run time; None without a time model,
            or if it is not done.
        predicted_seconds: Run time predicted at the start, in seconds; None without time models.
        proportional_seconds: Predicted run time under proportional sharing, in seconds; None
            without time models.
        proportional_measured_seconds: Measured run time under proportional sharing, in seconds;
            None unless requested.
        price: Price of a core at its first grant; None if it had none.
        reason: Why it got its first grant, in a sentence; empty if it had none.
    """

    namespace: str
    name: str
    entitlement: str
    phase: Phase
    fraction: float
    source: FractionSource
    source_reason: str
    seconds: float
    cpu_seconds: float
    held: float
    own_cores: int
    shared_cores: float
    predicted_speedup: float
    measured_speedup: float | None
    predicted_seconds: float | None
    proportional_seconds: float | None
    proportional_measured_seconds: float | None
    price: float | None
    reason: str

    @property
    def key(self) -> str:
        """Namespace and name, as other parts of the run know the job."""
        return f"{self.namespace}.{self.name}"

    @property
    def title(self) -> str:
        """Namespace and name for people."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class UserResult:
    """The worth of one entitlement and its cores, averaged over the run times of its jobs."""

    name: str
    entitled: float
    held: float
    utility: float
    entitlement_utility: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished local run.

    Attributes:
        not_held: Sentences on what jobs could not be held to.
        others: CPUs that other programs took while jobs ran, on average.
        disturbance: The sentence about these; empty if they took next to nothing.
    """

    cores: int
    unit: str
    cpus: str
    placement: str
    mode: str
    mechanism: str
    seconds: float
    users: tuple[UserResult, ...]
    jobs: tuple[JobResult, ...]
    decisions: tuple[tuple[float, str, Plan], ...]
    findings: Mapping[str, Sequence[Finding]]
    not_held: tuple[str, ...] = ()
    others: float = 0.0
    disturbance: str = ""


def result_of(
    loop: Loop,
    placement: str,
    proportional: Mapping[str, float] | None = None,
) -> RunResult:
    """Sum a finished run up.

    Args:
        loop: The finished run.
        placement: Mechanism that held jobs to CPUs, in words.
        proportional: Measured run times under proportional sharing, in seconds, by key of the job.
    """
    market = loop.market.rules
    ours = _forecast(loop, loop.market.policy)
    theirs = _forecast(loop, core.Policy(cores="ProportionalSharing"))
    jobs = []
    for key, state in loop.jobs.items():
        seconds = state.elapsed(loop.now)
        alone = state.seconds_alone
        ended = state.phase is Phase.DONE and seconds > 0
        first = state.first_grant
        jobs.append(
            JobResult(
                namespace=state.job.namespace,
                name=state.job.name,
                entitlement=state.job.spec.entitlement,
                phase=state.phase,
                fraction=state.fraction,
                source=state.source,
                source_reason=state.source_reason,
                seconds=seconds,
                cpu_seconds=state.cpu_seconds,
                held=state.core_seconds / seconds if seconds else 0.0,
                own_cores=first.own_cores if first else 0,
                shared_cores=first.shared if first else 0.0,
                predicted_speedup=state.progress_seconds / seconds if seconds else 0.0,
                measured_speedup=alone / seconds if ended and alone is not None else None,
                predicted_seconds=ours.get(key),
                proportional_seconds=theirs.get(key),
                proportional_measured_seconds=(proportional or {}).get(key),
                price=first.price if first else None,
                reason=first.reason if first else "",
            )
        )
    return RunResult(
        cores=len(loop.sold.units),
        unit=loop.sold.unit,
        cpus=str(loop.sold.topology.cpuset),
        placement=placement if market.mode == "enforce" else "nothing (mode: observe)",
        mode=market.mode,
        mechanism=market.cores.mechanism,
        seconds=max((job.seconds for job in jobs), default=0.0),
        users=tuple(_user(user, jobs) for user in loop.totals.users.values()),
        jobs=tuple(jobs),
        decisions=tuple(loop.totals.decisions),
        findings={key: state.findings for key, state in loop.jobs.items()},
        not_held=_not_held(loop),
        others=loop.others.taken if loop.others else 0.0,
        disturbance=loop.others.sentence if loop.others else "",
    )


def _not_held(loop: Loop) -> tuple[str, ...]:
    """Say whose parts of shared cores are held only roughly, and the way out."""
    jobs = [state.job.title for state in loop.jobs.values() if state.shares_cores]
    if not jobs or not loop.host.shares_roughly or loop.market.rules.mode == "observe":
        return ()
    sentence = (
        f"{', '.join(jobs)}: CPU affinity holds whole cores, but divides shared ones only roughly, "
        "by nice values of threads, in steps of 25 % that are never lowered again, so a user may "
        "have less than its entitlement there; run as root, so that cgroups divide them"
    )
    return (sentence,)


def _user(user: UserState, jobs: Sequence[JobResult]) -> UserResult:
    return UserResult(
        name=user.name,
        entitled=user.mean(user.entitled),
        held=user.mean(user.held),
        utility=user.mean(user.utility),
        entitlement_utility=user.mean(user.entitlement_utility),
        cpu_seconds=sum(job.cpu_seconds for job in jobs if job.entitlement == user.name),
    )


def _forecast(loop: Loop, policy: core.Policy) -> dict[str, float]:
    """Return the run times under a policy, in seconds by job; empty if one cannot be predicted."""
    states = [state for state in loop.jobs.values() if state.phase is not Phase.REMOVED]
    snapshot = core.Snapshot(
        loop.market.entitlements,
        (core.Node(NODE, len(loop.sold.units)),),
        tuple(state.in_market for state in states),
    )
    alone = {
        core.identity(state.in_market): seconds
        for state in states
        if (seconds := state.seconds_alone) is not None
    }
    if len(alone) < len(states):
        return {}  # how long the others hold their cores is not known
    ends = forecast(snapshot, policy, alone)
    return {f"{namespace}.{name}": seconds for (namespace, name, *_), seconds in ends.items()}


def document(result: RunResult) -> dict[str, Any]:
    """Return the result for scripts: plain values, camelCase names."""
    return {
        "machine": {
            "cores": result.cores,
            "unit": result.unit,
            "cpus": result.cpus,
            "placement": result.placement,
            "others": number(result.others),
        },
        "mode": result.mode,
        "mechanism": result.mechanism,
        "seconds": round(result.seconds, 3),
        "notHeld": list(result.not_held),
        "users": [plain(user) for user in result.users],
        "jobs": [
            plain(job)
            | {
                "findings": [
                    {"code": finding.code.value, "message": finding.message}
                    for finding in result.findings[job.key]
                ]
            }
            for job in result.jobs
        ],
        "decisions": [
            {
                "at": round(at, 3),
                "why": why,
                "solver": plan.solver,
                "iterations": plan.iterations,
                "residual": number(plan.residual),
                "converged": plan.converged,
                "systemProgress": number(plan.system_progress),
                "jobs": [plain(grant) for grant in plan.grants],
                "users": [plain(user) for user in plan.users],
                "nodes": [plain(node) for node in plan.nodes],
            }
            for at, why, plan in result.decisions
        ],
    }


def render(result: RunResult) -> RenderableType:
    """Return the result for people."""
    unit = result.unit + ("s" if result.cores != 1 else "")
    head = Text(
        f"{result.cores} {unit} (CPUs {result.cpus}) divided by {result.mechanism}, "
        f"jobs pinned by {result.placement}.\n"
    )
    if result.disturbance:
        head.append(f"While the jobs ran, {result.disturbance}: {NOT_THE_MARKET}.\n", "yellow")
    why = Table("job", "why it got its first grant", **RULED_STYLE)
    for job in result.jobs:
        why.add_row(job.title, job.reason)
    return Group(head, _user_table(result), _job_table(result), why, *_warnings(result))


# Nothing can be done about the first on a machine of two cores, and the time models, by which
# F is carried over to the whole data, are the remedy for the second. Scripts see both.
_NOT_WORTH_A_LINE = {FindingCode.ONE_CORE_COUNT, FindingCode.SIZES_DISAGREE}


def _warnings(result: RunResult) -> list[Text]:
    """Return a line for all that is not held, every reason to assume F and every finding about F.

    Findings about an F that is not used are left out.
    """
    lines = [*result.not_held, *_assumptions(result), *_findings(result)]
    return [Text.assemble(("warning: ", "yellow"), line) for line in lines]


def _assumptions(result: RunResult) -> list[str]:
    """Return a line for every reason to assume F, which all jobs of that reason share."""
    jobs: dict[str, list[str]] = {}
    for job in result.jobs:
        if job.source is FractionSource.ASSUMED:
            jobs.setdefault(job.source_reason, []).append(job.title)
    return [assumption(", ".join(titles), reason) for reason, titles in jobs.items()]


def _findings(result: RunResult) -> list[str]:
    """Return a line for every finding about a measured F, which all jobs with it share."""
    jobs: dict[str, list[str]] = {}
    message: dict[str, str] = {}
    for job in result.jobs:
        if job.source is not FractionSource.MEASURED:
            continue
        for finding in result.findings[job.key]:
            if finding.code in _NOT_WORTH_A_LINE:
                continue
            jobs.setdefault(finding.code.value, []).append(job.title)
            message.setdefault(finding.code.value, finding.message)
    return [f"{', '.join(titles)}: {message[code]} [{code}]" for code, titles in jobs.items()]


def _user_table(result: RunResult) -> Table:
    table = Table(title="Users, averaged over the time that their jobs ran", **RULED_STYLE)
    table.add_column("user", no_wrap=True)
    for column in (
        "cores\nentitled",
        "cores\nheld",
        "utility",
        "at bare\nentitlement",
        "CPU\nseconds",
    ):
        table.add_column(column, justify="right")
    for user in result.users:
        table.add_row(
            user.name,
            f"{user.entitled:.2f}",
            f"{user.held:.2f}",
            f"{user.utility:.3f}",
            f"{user.entitlement_utility:.3f}",
            f"{user.cpu_seconds:.1f}",
        )
    return table


def _job_table(result: RunResult) -> Table:
    table = Table(title="Jobs: predicted / measured", **RULED_STYLE)
    table.add_column("job", overflow="fold")
    for column in ("F", "cores\nheld", "used", "speedup", "seconds", "shared*"):
        table.add_column(column, justify="right", no_wrap=True)
    for job in result.jobs:
        mark = "" if job.phase is Phase.DONE else f" ({job.phase.value})"
        measured = job.proportional_measured_seconds
        table.add_row(
            f"{job.title}{mark}",
            f"{job.fraction:.3f}" + ("?" if job.source is FractionSource.ASSUMED else ""),
            f"{job.held:.2f}",
            decimal(job.cpu_seconds / job.seconds if job.seconds else None, 2),
            f"{job.predicted_speedup:.2f} / {decimal(job.measured_speedup, 2)}",
            f"{decimal(job.predicted_seconds, 1)} / {job.seconds:.1f}",
            decimal(job.proportional_seconds, 1)
            + ("" if measured is None else f" / {measured:.1f}"),
        )
    table.caption = (
        "F: parallel fraction (?: assumed). Speedup over one core, predicted by Amdahl's law "
        "for the cores it held. Used: CPUs on average. * seconds under proportional sharing."
    )
    return table
