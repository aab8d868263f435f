"""Why a job got what it got, in one sentence to its user."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from walras.apportion import ALMOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.plan import BidOutcome, Grant
    from walras.snapshot import CoreMechanism, Entitlement, Job

VISIBLE = 0.005
"""Cores, half of the last digit that is printed: a smaller change is not worth a word."""


class Due(NamedTuple):
    """What a job would get if cores moved however little that gained.

    Attributes:
        own: whole cores of its own; 0 if it would share.
        shared: cores of the pool that it would share; 0 if it would not.
        threshold: part of what the node's jobs do, below which a gain moves no cores.
    """

    own: int
    shared: int
    threshold: float


def explain(
    grant: Grant,
    job: Job,
    budget: float,
    quota: float,
    sharers: int,
    mechanism: CoreMechanism,
    due: Due,
) -> Grant:
    """Return ``grant`` with its reason.

    Args:
        grant: what the job gets.
        job: the job.
        budget: of its entitlement, in cores.
        quota: real number of cores after the bounds of jobs.
        sharers: how many jobs share the pool of its node.
        mechanism: that decided.
        due: what it would get without hysteresis.
    """
    stays = (grant.granted_cores, grant.shared_cores) != (due.own, due.shared)
    parts = (
        _market(grant, job, budget, mechanism),
        _bound(grant, job, quota),
        _stay(grant, due) if stays else _hardware(grant, quota, sharers),
        _shortfall(grant, job),
    )
    return replace(grant, reason="; ".join(part for part in parts if part))


def passed_over(grants: Sequence[Grant], entitlements: Sequence[Entitlement]) -> list[Grant]:
    """Return grants of which those say so that are on nodes on which their users may not bid too.

    Args:
        grants: all of them, in a market of linear utilities.
        entitlements: with the most nodes that each bids on.
    """
    most = {each.name: each.max_nodes for each in entitlements}
    return [
        replace(
            grant,
            reason=f"{grant.node} is none of the {most[grant.entitlement]} that "
            f"{grant.entitlement}'s maxNodes lets it bid on at once; {grant.reason}",
        )
        if most[grant.entitlement] is not None and grant.cores == 0
        else grant
        for grant in grants
    ]


def charged(grants: Sequence[Grant], bids: Sequence[BidOutcome]) -> tuple[Grant, ...]:
    """Return grants of which those cost nothing whose jobs pay nothing for what they bid.

    Args:
        grants: all of them.
        bids: what came of the jobs' bids; empty without auctions.
    """
    if not bids:
        return tuple(grants)
    known = {(bid.namespace, bid.name): bid for bid in bids}
    result = []
    for grant in grants:
        bid = known.get((grant.namespace, grant.name))
        if bid is None:
            result.append(grant)
        else:
            spend = grant.spend if bid.charge else 0.0
            parts = (grant.reason, of_bid(bid))
            result.append(replace(grant, spend=spend, reason="; ".join(filter(None, parts))))
    return tuple(result)


def of_bid(bid: BidOutcome) -> str:
    """Say whether a job has the utility that it demands, and what it pays; empty if it is plain."""
    if bid.minimum is None:
        if bid.prolific:
            return ""
        return (
            "it has what jobs with a minimum utility leave, since they could not have theirs "
            "beside its bid, and pays nothing"
        )
    demanded = f"its minimum utility of {bid.minimum:.4g}"
    if bid.charge:
        return f"{demanded} is met at {bid.utility:.4g}, so it pays {bid.charge:.2f}"
    if bid.reach < bid.minimum:
        return (
            f"{demanded} is out of reach, all that it can use makes {bid.reach:.4g}: it has what "
            f"others leave and pays nothing"
        )
    if not bid.prolific:
        return (
            f"{demanded} cannot be promised beside those of larger budgets: it has what others "
            f"leave, which makes {bid.utility:.4g}, and pays nothing"
        )
    return (
        f"{demanded} is missed at {bid.utility:.4g}, for whole cores and minimums of memory, so it "
        f"pays nothing"
    )


def _market(grant: Grant, job: Job, budget: float, mechanism: CoreMechanism) -> str:
    if mechanism == "ProportionalSharing":
        return f"{job.entitlement}'s share of {job.node} is {grant.cores:.2f} cores for this job"
    speedup = f"a parallel fraction of {job.fraction:.3f} makes a speedup of {grant.speedup:.2f}"
    if mechanism in {"Greedy", "UpperBound"}:
        weighed = "whatever the entitlements" if mechanism == "Greedy" else "weighed by budgets"
        return (
            f"{grant.cores:.2f} cores of {job.node} bring most progress here, {weighed}: {speedup}"
        )
    bought = (
        f"{grant.spend:.2f} of {job.entitlement}'s budget of {budget:.2f} buys "
        f"{grant.cores:.2f} cores at {grant.price:.3f} each"
    )
    if mechanism == "Auction":
        return (
            f"a bid of {grant.spend:.2f}, of {job.entitlement}'s budget of {budget:.2f}, takes "
            f"{grant.cores:.2f} cores of {grant.node}"
        )
    if mechanism == "PriceAnticipating":
        return f"{bought}, as if its speedup grew with every core alike"
    return f"{bought}, where {speedup}"


def _bound(grant: Grant, job: Job, quota: float) -> str | None:
    """Say how the bounds of jobs moved this one from what the market gave it."""
    if abs(quota - grant.cores) < VISIBLE:
        if job.max_cores is not None and quota > job.max_cores - VISIBLE:
            return f"all that its maxCores of {job.max_cores} allows"
        if (
            job.min_cores > 1
            and quota < job.min_cores + VISIBLE
            and quota > job.min_cores - VISIBLE
        ):
            return f"as much as its minCores of {job.min_cores} asks of {job.entitlement}'s budget"
        return None
    if quota > grant.cores:
        if quota == job.min_cores > 1:
            return f"lifted to its minCores of {job.min_cores} by {job.entitlement}'s other jobs"
        return f"raised to {quota:.2f} by what jobs at their maxCores leave"
    if job.max_cores is not None and quota >= job.max_cores:
        return f"held to its maxCores of {job.max_cores}"
    return f"lowered to {quota:.2f} for the minCores of {job.entitlement}'s other jobs"


def _hardware(grant: Grant, quota: float, sharers: int) -> str:
    if grant.granted_cores:
        return f"rounded to {_count(grant.granted_cores)} of its own"
    why = "less than one" if quota < ALMOST else f"{grant.node} has none left for it alone"
    if sharers == 1:
        return f"{why}, so it has the {_count(grant.shared_cores)} kept for small jobs"
    return (
        f"{why}, so it shares {_count(grant.shared_cores)} with "
        f"{sharers - 1} other{'' if sharers == 2 else 's'} by weight {grant.weight}"
    )


def _stay(grant: Grant, due: Due) -> str:
    return (
        f"keeps {_having(grant.granted_cores, grant.shared_cores)} in place of "
        f"{_having(due.own, due.shared)}: to move cores would bring the jobs of {grant.node} less "
        f"than {100 * due.threshold:g}% more"
    )


def _having(own: int, shared: int) -> str:
    return f"{_count(own)} of its own" if own else f"its part of {_count(shared)}"


def _shortfall(grant: Grant, job: Job) -> str | None:
    if job.min_cores <= max(grant.granted_cores, 1):
        return None
    return (
        f"short of its minCores of {job.min_cores}, for which {job.entitlement}'s cores "
        f"on {job.node} do not suffice"
    )


def _count(cores: int) -> str:
    return f"{cores} core" if cores == 1 else f"{cores} cores"
