"""Why a job got what it got, in one sentence to its user."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walras.apportion import ALMOST

if TYPE_CHECKING:
    from walras.plan import Grant
    from walras.snapshot import CoreMechanism, Job

VISIBLE = 0.005
"""Cores, half of the last digit that is printed: a smaller change is not worth a word."""


def explain(
    grant: Grant, job: Job, budget: float, quota: float, sharers: int, mechanism: CoreMechanism
) -> Grant:
    """Return ``grant`` with its reason.

    Args:
        grant: what the job gets.
        job: the job.
        budget: of its entitlement, in cores.
        quota: real number of cores after the bounds of jobs.
        sharers: how many jobs share the pool of its node.
        mechanism: that decided.
    """
    parts = (
        _market(grant, job, budget, mechanism),
        _bound(grant, job, quota),
        _hardware(grant, quota, sharers),
        _shortfall(grant, job),
    )
    return replace(grant, reason="; ".join(part for part in parts if part))


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


def _shortfall(grant: Grant, job: Job) -> str | None:
    if job.min_cores <= max(grant.granted_cores, 1):
        return None
    return (
        f"short of its minCores of {job.min_cores}, for which {job.entitlement}'s cores "
        f"on {job.node} do not suffice"
    )


def _count(cores: int) -> str:
    return f"{cores} core" if cores == 1 else f"{cores} cores"
