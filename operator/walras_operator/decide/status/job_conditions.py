"""Pure: the conditions of a MarketJob: what keeps it from its cores, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.outcome.reasons import explain_bid
from walras_operator.decide.conditions import ConditionState, Problem, fails, holds, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.market.plan import BidOutcome, Grant
    from walras_api.job_inputs import Speedup
    from walras_api.kinds import MarketJob
    from walras_operator.decide.world import Document


NO_PODS = Problem(
    "NoPods",
    "spec.selector or spec.targetRef selects no pod that runs or waits; start one, or correct it",
)


def job_conditions(
    job: MarketJob,
    problem: Problem | None,
    speedup: Speedup | None,
    overlap: str,
    pods: Sequence[Document],
    unmeasured: Problem | None,
) -> dict[str, ConditionState]:
    """Return the states of a job's conditions, by type.

    Args:
        job: The MarketJob.
        problem: What is wrong with it; None if nothing is.
        speedup: Its speedup; None if another problem excludes the job.
        overlap: Message about its pods that other jobs select too; empty if there are none.
        pods: Result for each of its pods.
        unmeasured: Why its speedup has not been measured; None if it has, or need not be.
    """
    return {
        "Ready": _ready(problem, overlap, pods),
        "Admitted": _admitted(job, problem),
        "Profiled": _profiled(speedup, problem, unmeasured),
        "Selected": _selected(problem, overlap, pods),
    }


def objective(bid: BidOutcome | None) -> ConditionState:
    """Return the state of ``ObjectiveMet``: whether a job has its minimum utility.

    Args:
        bid: Outcome of its bid; None if it made none.
    """
    if bid is None:
        return ConditionState(
            "Unknown",
            "NoAuction",
            "spec.auction.minimumUtility counts where spec.cores.mechanism or "
            "spec.memory.mechanism of the Market is Auction, for pods that run",
        )
    message = explain_bid(bid)
    if bid.met:
        return holds("Met", message)
    if bid.minimum is not None and bid.reach < bid.minimum:
        way_out = "lower spec.auction.minimumUtility, or raise maxCores or memory.max"
        return fails(Problem("OutOfReach", f"{message}; {way_out}"))
    if not bid.promised:
        way_out = (
            f"lower spec.auction.minimumUtility, raise the budget or shares of Entitlement "
            f"{bid.entitlement}, or stop other jobs of it"
        )
        return fails(Problem("Unaffordable", f"{message}; {way_out}"))
    return fails(Problem("Missed", f"{message}; lower spec.auction.minimumUtility a little"))


def overcommitted(short: Sequence[Grant]) -> ConditionState:
    """Return the state of ``RequestsKept`` of a job with pods that hold less than they requested.

    Args:
        short: Grants of pods whose requests the market should keep and could not.
    """
    pods = [
        f"Pod {each.pod} requested {each.requested:.4g} cores of {each.node} and keeps "
        f"{each.held:.4g}"
        for each in short
    ]
    return fails(
        Problem(
            "Overcommitted",
            f"{summarize(pods)}; requests exceed what the node sells: "
            f"lower spec.cores.reservedCores of the Market, or move a pod to another node",
        )
    )


def shares_nevertheless(short: Sequence[Grant]) -> ConditionState:
    """Return the state of ``WholeCores`` of a job that is to share no core, but has pods that do.

    Args:
        short: Grants of its pods that hold less than one core.
    """
    pods = [f"Pod {each.pod} holds {each.held:g} cores of {each.node}" for each in short]
    return fails(
        Problem(
            "LessThanOneCore",
            f"{summarize(pods)}, which it shares although wholeCores is set: raise its work, or "
            f"the shares of its entitlement, run fewer pods, or remove wholeCores",
        )
    )


def _ready(problem: Problem | None, overlap: str, pods: Sequence[Document]) -> ConditionState:
    if problem is not None:
        return fails(problem)
    if overlap:
        return fails(Problem("Overlap", overlap))
    if not pods:
        return fails(NO_PODS)
    failed = [
        f"Pod {each['name']}: {each.get('reason', '')}"
        for each in pods
        if each["state"] == "Failed"
    ]
    if failed:
        return fails(Problem("NotEnforced", summarize(failed)))
    waiting = [
        f"Pod {each['name']} {each.get('reason', '')}"
        for each in pods
        if each["state"] == "Waiting"
    ]
    if waiting:
        return fails(
            Problem("Waiting", f"{len(waiting)} of {len(pods)} wait: {summarize(waiting)}")
        )
    return holds("Granted", f"{len(pods)} of {len(pods)} pods have a grant")


def _admitted(job: MarketJob, problem: Problem | None) -> ConditionState:
    if problem is not None and problem.reason in {"Refused", "EntitlementUnusable"}:
        return fails(problem)
    return holds("Admitted", f"draws on Entitlement {job.spec.entitlement}")


def _profiled(
    speedup: Speedup | None, problem: Problem | None, reason: Problem | None
) -> ConditionState:
    if problem is not None and problem.reason.startswith("Profile"):
        return fails(problem)
    if speedup is None:
        return ConditionState("Unknown", "NotLookedAt", "another problem excludes the job")
    if speedup.source == "Assumed":
        return fails(_assumed(reason, speedup))
    whence = f"SpeedupProfile {speedup.profile}" if speedup.profile else "spec.parallelFraction"
    but = f" while pods ran; {speedup.refused}" if speedup.refused else ""
    return holds(speedup.source, f"F is {speedup.fraction:.3g}, from {whence}{but}")


def _assumed(reason: Problem | None, speedup: Speedup) -> Problem:
    fraction, why = speedup.fraction, speedup.refused and f"{speedup.refused}; "
    if reason is not None:
        message = f"{reason.message}; until then a parallel fraction of {fraction:g} is assumed"
        return Problem(reason.reason, why + message)
    if why:
        return Problem(
            "TooNoisy",
            f"{why}a parallel fraction of {fraction:g} is assumed; profile the program anew, give "
            f"parallelFraction, or have it measured",
        )
    return Problem(
        "Assumed",
        f"its speedup is not known and a parallel fraction of {fraction:g} is assumed; give "
        f"parallelFraction or a profile, or have it measured",
    )


def _selected(problem: Problem | None, overlap: str, pods: Sequence[Document]) -> ConditionState:
    if problem is not None and problem.reason in {"NoSelector", "EmptySelector"}:
        return fails(problem)
    if overlap:
        return fails(Problem("Overlap", overlap))
    if not pods:
        return fails(NO_PODS)
    return holds("Selected", f"{len(pods)} {'pod' if len(pods) == 1 else 'pods'} of its own")
