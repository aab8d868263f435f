"""Reasons of grants, in one sentence to the job's user."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from walras.market.snapshot import WITHOUT_FLOORS

if TYPE_CHECKING:
    from walras.market.plan import BidOutcome, Grant, UserOutcome
    from walras.market.snapshot import CoreMechanism, Job

VISIBLE = 0.005
"""Smallest change in cores that a reason mentions: half of the last digit that is printed."""

BELOW_REQUEST = "less than its request of"
"""What the reason of every grant says that is less than its pod requested."""


class Terms(NamedTuple):
    """What decided a job's cores besides its bid.

    Attributes:
        budget: Budget of its entitlement, in cores at the cluster's average price.
        quota: Cores within the bounds of jobs.
        kept: Cores that it keeps whatever the market decides.
        target: Cores that it would hold without hysteresis.
        unspent: Part of the budget that its user, who is sated, does not spend.
        cut: Whether its request is not kept for others' sake.
        threshold: Part of a node's progress that a new division must gain (hysteresis).
    """

    budget: float
    quota: float
    kept: float
    target: float
    unspent: float
    cut: bool
    threshold: float


def explain(grant: Grant, job: Job, terms: Terms, mechanism: CoreMechanism) -> str:
    """Return the reason of a grant.

    Args:
        grant: Grant of the job.
        job: Job with its bounds.
        terms: What decided the job's cores besides its bid.
        mechanism: Mechanism that divided the cores.
    """
    parts = (
        _market(grant, job, terms.budget, mechanism),
        _unspent(grant, terms.unspent),
        _bound(grant, job, terms),
        _hardware(grant, job) if abs(terms.target - grant.held) < VISIBLE else _stay(grant, terms),
        _shortfall(grant, job),
        _unkept_request(grant, job, mechanism, cut=terms.cut),
    )
    return "; ".join(filter(None, parts))


def explain_node_limit(grant: Grant, most: int | None) -> str | None:
    """Return why a user does not bid on a job's node if its maxNodes is the cause; else None."""
    if most is None or grant.bought:
        return None
    return (
        f"{grant.entitlement} does not bid on {grant.node}, since its maxNodes lets it bid on "
        f"{most} at once"
    )


def explain_shortfall(user: UserOutcome) -> list[str]:
    """Return whose requests leave a user below its entitlement; empty if it is not below."""
    return [
        f"requests of {each.user} keep {each.cores:.2f} cores of {each.node} beyond its share"
        for each in user.short_of
    ]


def explain_bid(bid: BidOutcome) -> str:
    """Return whether a job has its minimum utility, and if not, why; empty for a plain bid."""
    if bid.minimum is None:
        return ""
    demanded = f"its minimum utility of {bid.minimum:.4g}"
    if bid.met:
        return f"{demanded} is met at {bid.utility:.4g}"
    if bid.reach < bid.minimum:
        return f"{demanded} is out of reach, since all that it can use gives {bid.reach:.4g}"
    if not bid.promised:
        return (
            f"{demanded} costs more than {bid.entitlement}'s budget pays for, so that it bids as "
            f"without it and has {bid.utility:.4g}"
        )
    return (
        f"{demanded} is missed at {bid.utility:.4g}, because of whole cores or minimums of memory"
    )


def _market(grant: Grant, job: Job, budget: float, mechanism: CoreMechanism) -> str:
    cores = f"{grant.bought:.2f} cores"
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


def _most(cores: float, *, learned: bool) -> str:
    """Return which most cores of a job bound what it buys."""
    if learned:
        return f"all that its program was seen to use at once, {cores:.3g} cores"
    return f"all that its maxCores or CPU limit of {cores:g} allows"


def _unspent(grant: Grant, unspent: float) -> str | None:
    if unspent < VISIBLE:
        return None
    return (
        f"{unspent:.2f} of the budget stays unspent, since all that it could buy would gain "
        f"{grant.entitlement} next to nothing"
    )


def _bound(grant: Grant, job: Job, terms: Terms) -> str | None:
    """Return which bound decides the cores of a job; None if the market alone does."""
    quota = terms.quota
    if job.max_cores is not None and quota > job.max_cores - VISIBLE:
        all_ = _most(job.max_cores, learned=job.learned)
        requested = grant.floor > job.max_cores - VISIBLE
        return f"no less than it requested, which is {all_}" if requested else all_
    if abs(quota - grant.bought) < VISIBLE:
        if job.least_cores and abs(quota - job.least_cores) < VISIBLE:
            return f"as much as {_least(job)} takes of {job.entitlement}'s budget"
        if terms.kept and quota < terms.kept + VISIBLE:
            if grant.floor <= terms.kept - VISIBLE:
                return "the least part, which every running pod has"
            more = job.floor > job.requested + VISIBLE
            return "kept for its GPUs" if more else "no less than it requested"
        return None
    if job.whole_cores and quota >= 1 and abs(quota - grant.bought) < 1:
        return f"rounded to {quota:.0f}, as it shares no core"
    if quota > grant.bought:
        if job.least_cores and abs(quota - job.least_cores) < VISIBLE:
            return f"raised to {_least(job)} at the cost of {job.entitlement}'s other jobs"
        if quota < terms.kept + VISIBLE:
            return f"raised to {quota:.2f}, which it keeps whatever the market decides"
        return f"raised to {quota:.2f} by cores that other jobs cannot use"
    return f"lowered to {quota:.2f} for what other jobs keep"


def _least(job: Job) -> str:
    """Return the fewest cores that a job is to have, with what demands them."""
    if job.least_cores > job.min_cores:
        return f"the {job.least_cores:.4g} cores reserved for its deadline"
    return f"its minCores of {job.min_cores}"


def _hardware(grant: Grant, job: Job) -> str:
    if job.whole_cores and not grant.own_cores:
        return (
            f"so it holds {_having(grant.held)}: it asked to share no core, but has not bought a "
            f"whole one"
        )
    return f"so it holds {_having(grant.held)}"


def _stay(grant: Grant, terms: Terms) -> str:
    return (
        f"keeps {_having(grant.held)} instead of {_having(terms.target)}: moving cores would add "
        f"less than {100 * terms.threshold:g}% to the progress of the jobs on {grant.node}"
    )


def _having(held: float) -> str:
    """Return held cores in words."""
    return f"{held:.7g} core{'' if held == 1 else 's'}"


def _shortfall(grant: Grant, job: Job) -> str | None:
    if job.least_cores <= grant.held + VISIBLE:
        return None
    return f"short of {_least(job)}, since {job.entitlement}'s cores on {job.node} do not suffice"


def _unkept_request(grant: Grant, job: Job, mechanism: CoreMechanism, *, cut: bool) -> str | None:
    """Return why a job holds less than its pod requested; None if it does not."""
    if grant.keeps_request:
        return None
    if mechanism in WITHOUT_FLOORS:
        why = f"which {mechanism} does not keep"
    elif cut:
        why = (
            f"since {grant.entitlement} requested more than its share of {grant.node}, and others "
            f"would have less than theirs"
        )
    elif job.floor:
        why = f"since the requests and least parts of its pods exceed what {job.node} sells"
    else:
        why = "which spec.cores.floor of the Market does not keep for it"
    return f"{BELOW_REQUEST} {grant.requested:.4g} cores, {why}"
