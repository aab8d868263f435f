"""What it would move if the parallel fractions of a user were over-estimated (pure)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras.clearing import clear
from walras.snapshot import identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.plan import Plan
    from walras.snapshot import Policy, Snapshot

OVERESTIMATES = (0.05, 0.10, 0.15)
"""Parts of F that contention for caches and memory typically takes ("Amdahl's Law in the Datacenter
Era", VI-E)."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What changes once one user's parallel fractions are what they should be.

    Attributes:
        user: whose.
        overestimate: the part by which they were too large.
        mean_error: mean absolute difference in cores, real numbers, of the user's jobs.
        largest_error: the largest such difference.
        cores_moved: whole cores of the cluster that get another owner, be that a shared pool.
    """

    user: str
    overestimate: float
    mean_error: float
    largest_error: float
    cores_moved: int


def sensitivity(
    snapshot: Snapshot, policy: Policy, overestimates: Sequence[float] = OVERESTIMATES
) -> tuple[Shift, ...]:
    """Lower the parallel fractions of each user in turn, and clear the market again (VI-E).

    Nothing is held from before, so that hysteresis hides nothing.

    Args:
        snapshot: the market as it is thought to be.
        policy: how it is cleared.
        overestimates: parts by which fractions were too large.

    Raises:
        PricingError: the mechanism cannot take a market of this size.
    """
    free = replace(snapshot, held={})
    before = clear(free, policy)
    return tuple(
        _shift(before, clear(_lowered(free, user.name, part), policy), user.name, part)
        for user in before.users
        for part in overestimates
    )


def _lowered(snapshot: Snapshot, user: str, part: float) -> Snapshot:
    jobs = (
        replace(job, fraction=job.fraction * (1 - part)) if job.entitlement == user else job
        for job in snapshot.jobs
    )
    return replace(snapshot, jobs=tuple(jobs))


def _shift(before: Plan, after: Plan, user: str, part: float) -> Shift:
    bought = {identity(grant): grant.cores for grant in before.grants}
    errors = [
        abs(grant.cores - bought.get(identity(grant), 0.0))
        for grant in after.grants
        if grant.entitlement == user
    ]
    return Shift(user, part, sum(errors) / len(errors), max(errors), _moved(before, after))


def _moved(before: Plan, after: Plan) -> int:
    """Return the whole cores that owners gain, of whom a node's pool is one."""
    had, has = _owned(before), _owned(after)
    return sum(max(cores - had.get(owner, 0), 0) for owner, cores in has.items())


def _owned(plan: Plan) -> dict[tuple[object, ...], int]:
    owned: dict[tuple[object, ...], int] = {}
    for grant in plan.grants:
        if grant.granted_cores:
            owned[identity(grant)] = grant.granted_cores
        else:
            owned[grant.node, grant.sockets] = grant.shared_cores
    return owned
