"""Why a job got what it got, in one sentence to its user."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras.plan import Grant
    from walras.snapshot import CoreMechanism, Job


def explain(grant: Grant, job: Job, budget: float, sharers: int, mechanism: CoreMechanism) -> Grant:
    """Return ``grant`` with its reason.

    Args:
        grant: what the job gets.
        job: the job.
        budget: of its entitlement, in cores.
        sharers: how many jobs share the pool of its node.
        mechanism: that decided.
    """
    parts = [_market(grant, job, budget, mechanism), _hardware(grant, sharers)]
    if bound := _bound(grant, job):
        parts.append(bound)
    return replace(grant, reason="; ".join(parts))


def _market(grant: Grant, job: Job, budget: float, mechanism: CoreMechanism) -> str:
    if mechanism == "ProportionalSharing":
        return f"{job.entitlement}'s share of {job.node} is {grant.cores:.2f} cores for this job"
    return (
        f"{grant.spend:.2f} of {job.entitlement}'s budget of {budget:.2f} buys "
        f"{grant.cores:.2f} cores at {grant.price:.3f} each, where a parallel fraction of "
        f"{job.fraction:.3f} makes a speedup of {grant.speedup:.2f}"
    )


def _hardware(grant: Grant, sharers: int) -> str:
    if grant.granted_cores > grant.cores + 1:
        return f"{_count(grant.granted_cores)} of its own, with what other jobs cannot use"
    if grant.granted_cores:
        return f"rounded to {_count(grant.granted_cores)} of its own"
    if sharers == 1:
        return f"less than one, so it has the {_count(grant.shared_cores)} kept for small jobs"
    return (
        f"less than one, so it shares {_count(grant.shared_cores)} with "
        f"{sharers - 1} other{'' if sharers == 2 else 's'} by weight {grant.weight}"
    )


def _bound(grant: Grant, job: Job) -> str | None:
    if job.max_cores is not None and grant.cores > job.max_cores:
        return f"held to its maxCores of {job.max_cores}"
    if 1 < job.min_cores <= grant.granted_cores and grant.cores < job.min_cores:
        return f"lifted to its minCores of {job.min_cores} by {job.entitlement}'s other jobs"
    if job.min_cores > max(grant.granted_cores, 1):
        return f"its minCores of {job.min_cores} is more than {job.entitlement} holds here"
    return None


def _count(cores: int) -> str:
    return f"{cores} core" if cores == 1 else f"{cores} cores"
