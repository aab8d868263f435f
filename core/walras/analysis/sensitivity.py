"""Sensitivity of the allocation to over-estimated parallel fractions of a user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walras.clearing import clear
from walras.market.snapshot import identity

if TYPE_CHECKING:
    from walras.market.plan import Plan
    from walras.market.snapshot import Policy, Snapshot

OVERESTIMATES = (0.05, 0.10, 0.15)
"""Parts of F that are typically lost to contention for caches and memory ("Amdahl's Law in the
Datacenter Era", VI-E)."""


@dataclass(frozen=True, slots=True)
class FractionSensitivity:
    """Change of the allocation when one user's over-estimated parallel fractions are corrected.

    Attributes:
        overestimate: Part by which the user's fractions were too large.
        mean_error: Mean absolute change in cores of the user's jobs.
        largest_error: Largest absolute change in cores of the user's jobs.
        cores_moved: Cores of the cluster that move to another job.
    """

    user: str
    overestimate: float
    mean_error: float
    largest_error: float
    cores_moved: float


def sensitivity(snapshot: Snapshot, policy: Policy) -> tuple[FractionSensitivity, ...]:
    """Lower the parallel fractions of each user in turn, and clear the market again (VI-E).

    Current divisions are ignored, so that hysteresis does not hide changes.

    Args:
        snapshot: Snapshot with the fractions that were estimated.
        policy: Mechanisms.

    Raises:
        PricingError: The market is too large for the mechanism.
    """
    free = replace(snapshot, held={})
    before = clear(free, policy)
    return tuple(
        _shift(before, clear(_lowered(free, user.name, part), policy), user.name, part)
        for user in before.users
        for part in OVERESTIMATES
    )


def _lowered(snapshot: Snapshot, user: str, part: float) -> Snapshot:
    jobs = (
        replace(job, fraction=job.fraction * (1 - part)) if job.entitlement == user else job
        for job in snapshot.jobs
    )
    return replace(snapshot, jobs=tuple(jobs))


def _shift(before: Plan, after: Plan, user: str, part: float) -> FractionSensitivity:
    bought = {identity(grant): grant.bought for grant in before.grants}
    errors = [
        abs(grant.bought - bought.get(identity(grant), 0.0))
        for grant in after.grants
        if grant.entitlement == user
    ]
    return FractionSensitivity(
        user, part, sum(errors) / len(errors), max(errors), _moved(before, after)
    )


def _moved(before: Plan, after: Plan) -> float:
    """Return the cores that jobs gain."""
    had = before.holdings()
    gained = (max(has - had.get(job, 0.0), 0.0) for job, has in after.holdings().items())
    return round(sum(gained), 3)
