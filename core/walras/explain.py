"""Reasons of grants, in one sentence to the job's user."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from walras.apportion import SHARING_THRESHOLD
from walras.snapshot import WITHOUT_FLOORS

if TYPE_CHECKING:
    from walras.plan import BidOutcome, Grant
    from walras.snapshot import CoreMechanism, Job

VISIBLE = 0.005
"""Smallest change in cores that a reason mentions: half of the last digit that is printed."""


class WithoutHysteresis(NamedTuple):
    """Cores that a job would get if the policy had no hysteresis.

    Attributes:
        own: Whole cores of its own; 0 if it would share cores.
        shared: Whole cores that it would share; 0 if its cores would be its own.
        threshold: Part of a node's progress that a new division must gain (hysteresis).
        averaged: Whether rounding gives back what it takes, so that jobs are rounded up and down by
            turns.
    """

    own: int
    shared: int
    threshold: float
    averaged: bool

    def is_withheld(self, grant: Grant, quota: float) -> bool:
        """Return whether hysteresis makes a grant differ from these cores.

        If cores are averaged, a grant that is a rounding of its quota does not count.
        """
        if (grant.granted_cores, grant.shared_cores) == (self.own, self.shared):
            return False
        if self.averaged and grant.granted_cores and self.own:
            return abs(grant.granted_cores - quota) >= 1
        return not (self.averaged and grant.shared_cores and self.shared)


def explain(
    grant: Grant,
    job: Job,
    budget: float,
    quota: float,
    sharers: int,
    mechanism: CoreMechanism,
    without_hysteresis: WithoutHysteresis,
) -> Grant:
    """Return ``grant`` with its reason.

    Args:
        grant: Grant of the job.
        job: Job with its bounds.
        budget: Budget of its entitlement, in cores.
        quota: Cores within the bounds of jobs, before rounding.
        sharers: Number of jobs that share the pool of its node.
        mechanism: Mechanism that divided the cores.
        without_hysteresis: Cores that the job would get without hysteresis.
    """
    parts = (
        _market(grant, job, budget, mechanism),
        _bound(grant, job, quota),
        _stay(grant, without_hysteresis)
        if without_hysteresis.is_withheld(grant, quota)
        else _hardware(grant, quota, sharers),
        _shortfall(grant, job),
        _unkept_request(grant, job, mechanism),
    )
    return grant._replace(reason="; ".join(part for part in parts if part))


def explain_node_limit(grant: Grant, most: int | None) -> str | None:
    """Return why a user does not bid on a job's node if its maxNodes is the cause; else None."""
    if most is None or grant.cores:
        return None
    return (
        f"{grant.entitlement} does not bid on {grant.node}, since its maxNodes lets it bid on "
        f"{most} at once"
    )


def explain_bid(bid: BidOutcome) -> str:
    """Return whether a job has its minimum utility and what it pays; empty for a plain bid."""
    if bid.minimum is None:
        if bid.prolific:
            return ""
        return (
            "it gets what jobs with a minimum utility leave, since they would miss theirs beside "
            "its bid, and pays nothing"
        )
    demanded = f"its minimum utility of {bid.minimum:.4g}"
    if bid.charge:
        return f"{demanded} is met at {bid.utility:.4g}, so it pays {bid.charge:.2f}"
    if bid.reach < bid.minimum:
        return (
            f"{demanded} is out of reach, since all that it can use gives {bid.reach:.4g}: it gets "
            f"what others leave and pays nothing"
        )
    if not bid.prolific:
        return (
            f"{demanded} cannot be promised beside jobs with larger budgets: it gets what others "
            f"leave, which gives {bid.utility:.4g}, and pays nothing"
        )
    return (
        f"{demanded} is missed at {bid.utility:.4g}, because of whole cores and minimums of "
        f"memory, so it pays nothing"
    )


def _market(grant: Grant, job: Job, budget: float, mechanism: CoreMechanism) -> str:
    sentence = _division(grant, job, budget, mechanism)
    if grant.floor:
        return f"{grant.floor:.4g} cores are kept as requested, and {sentence}"
    return sentence


def _division(grant: Grant, job: Job, budget: float, mechanism: CoreMechanism) -> str:
    cores = f"{grant.cores - grant.floor:.2f} cores{' more' if grant.floor else ''}"
    if mechanism == "ProportionalSharing":
        return f"{job.entitlement}'s share of {job.node} is {cores} for this job"
    speedup = f"a parallel fraction of {job.fraction:.3f} gives a speedup of {grant.speedup:.2f}"
    if mechanism in {"Greedy", "UpperBound"}:
        weighted = "regardless of entitlements" if mechanism == "Greedy" else "weighted by budgets"
        return f"{cores} of {job.node} bring the most progress, {weighted}: {speedup}"
    if mechanism == "Auction":
        return (
            f"a bid of {grant.spend:.2f}, of {job.entitlement}'s budget of {budget:.2f}, wins "
            f"{cores} of {grant.node}"
        )
    bought = (
        f"{grant.spend:.2f} of {job.entitlement}'s budget of {budget:.2f} buys {cores} at "
        f"{grant.price:.3f} each"
    )
    if mechanism == "PriceAnticipating":
        return f"{bought}, as if every core added the same speedup"
    return f"{bought}, where {speedup}"


def _bound(grant: Grant, job: Job, quota: float) -> str | None:
    """Return how bounds of jobs change the market's cores of this one; None if they do not."""
    if abs(quota - grant.cores) < VISIBLE:
        if job.max_cores is not None and quota > job.max_cores - VISIBLE:
            return f"all that its maxCores of {job.max_cores} allows"
        if job.least_cores > 1 and abs(quota - job.least_cores) < VISIBLE:
            return f"as much as {_least(job)} takes of {job.entitlement}'s budget"
        return None
    if quota > grant.cores:
        if quota == job.least_cores > 1:
            return f"raised to {_least(job)} at the cost of {job.entitlement}'s other jobs"
        return f"raised to {quota:.2f} by cores that jobs at their maxCores leave"
    if job.max_cores is not None and quota >= job.max_cores:
        return f"limited to its maxCores of {job.max_cores}"
    return f"lowered to {quota:.2f} for the minCores or deadlines of {job.entitlement}'s other jobs"


def _least(job: Job) -> str:
    """Return the fewest cores that a job is to have, with what demands them."""
    if job.least_cores > job.min_cores:
        return f"the {job.least_cores} cores reserved for its deadline"
    return f"its minCores of {job.min_cores}"


def _hardware(grant: Grant, quota: float, sharers: int) -> str:
    if grant.granted_cores:
        return f"rounded to {_count(grant.granted_cores)} of its own"
    if quota < SHARING_THRESHOLD:
        why = "less than one core"
    elif grant.floor % 1:
        why = f"{grant.entitlement} has not bought the cores of its requests here, rounded up"
    else:
        why = f"{grant.node} has no core left for it alone"
    if sharers == 1:
        return f"{why}, so it runs on the {_count(grant.shared_cores)} kept for small jobs"
    others = "1 other job" if sharers == 2 else f"{sharers - 1} other jobs"
    return (
        f"{why}, so it shares {_count(grant.shared_cores)} with {others} at weight {grant.weight}"
    )


def _stay(grant: Grant, market: WithoutHysteresis) -> str:
    return (
        f"keeps {_having(grant.granted_cores, grant.shared_cores)} instead of "
        f"{_having(market.own, market.shared)}: moving cores would add less than "
        f"{100 * market.threshold:g}% to the progress of the jobs on {grant.node}"
    )


def _having(own: int, shared: int) -> str:
    return f"{_count(own)} of its own" if own else f"its part of {_count(shared)}"


def _shortfall(grant: Grant, job: Job) -> str | None:
    if job.least_cores <= max(grant.granted_cores, 1):
        return None
    return f"short of {_least(job)}, since {job.entitlement}'s cores on {job.node} do not suffice"


def _unkept_request(grant: Grant, job: Job, mechanism: CoreMechanism) -> str | None:
    """Return why a job holds less than its pod requested; None if it does not."""
    if grant.keeps_request:
        return None
    if mechanism in WITHOUT_FLOORS:
        why = f"which {mechanism} does not keep"
    elif job.floor:
        why = f"since requests and a core for small jobs exceed what {job.node} sells"
    else:
        why = "which spec.cores.floor of the Market does not keep for it"
    return f"less than its request of {grant.requested:.4g} cores, {why}"


def _count(cores: int) -> str:
    return f"{cores} core" if cores == 1 else f"{cores} cores"
