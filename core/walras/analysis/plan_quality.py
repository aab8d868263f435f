"""Quality of a plan: figures of progress and fairness that compare mechanisms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from walras.division.sale import build_market
from walras.market.plan import Plan
from walras.market.snapshot import Snapshot
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.upper_bound import share_proportionally
from walras.numerics.checks import check_kind

if TYPE_CHECKING:
    from walras.market.snapshot import Job


LARGEST_COMPARISON = 50_000_000
"""Users times jobs up to which envy is computed, which takes some seconds."""


@dataclass(frozen=True, slots=True)
class PlanQuality:
    """Figures of progress and fairness of a plan.

    Attributes:
        system_progress: Budget-weighted mean of users' utilities on the cores that they buy
            ("Amdahl's Law in the Datacenter Era", eq. 10).
        held_progress: Budget-weighted mean of users' utilities on the cores that they hold.
        entitlement_error: Mean absolute error of users' cores, as a part of those entitled (VI-D).
        uniformity: Least utility of any user over the largest, each in units of that at bare
            entitlement ("The Proportional-Share Allocation Market", section 2, with equal budgets);
            users who are entitled to nothing do not count.
        envy_freeness: Least ratio of any user's utility to what it would have with the cores of
            another, scaled to its own budget (ibid.); 1 if no user envies another; None if there
            are too many users and jobs to compare.
    """

    system_progress: float
    held_progress: float
    entitlement_error: float
    uniformity: float
    envy_freeness: float | None


def evaluate_plan(
    snapshot: Snapshot, plan: Plan, comparisons: int = LARGEST_COMPARISON
) -> PlanQuality:
    """Return the quality of a plan.

    Args:
        snapshot: Snapshot that was cleared.
        plan: Plan that clearing returned.
        comparisons: Users times jobs up to which envy is computed.

    Raises:
        TypeError: The snapshot or the plan is none.
    """
    check_kind("snapshot", snapshot, Snapshot)
    check_kind("plan", plan, Plan)
    users = plan.users
    errors = [abs(user.bought - user.entitled) / user.entitled for user in users]
    gains = [u.utility / u.entitlement_utility for u in users if u.entitlement_utility]
    return PlanQuality(
        system_progress=plan.system_progress,
        held_progress=_held_progress(plan),
        entitlement_error=sum(errors) / len(errors) if errors else 0.0,
        uniformity=min(gains) / max(gains) if gains and max(gains) > 0 else 1.0,
        envy_freeness=_envy_freeness(snapshot, plan, comparisons),
    )


def proportional_progress(snapshot: Snapshot, plan: Plan) -> float:
    """Return the system progress that proportional sharing gives the jobs of a plan."""
    if not plan.grants:
        return 0.0
    jobs = _as_decided(snapshot, plan)
    entitled = sum(user.entitled for user in plan.users)
    shares = {user.name: user.entitled / entitled for user in plan.users}
    market = build_market(snapshot, jobs, shares)
    most = np.array([np.inf if job.max_cores is None else job.max_cores for job in jobs])
    cores = share_proportionally(market, maximum=most)
    return float(
        market.budgets @ metrics.utilities_in_hardware(market, cores) / market.budgets.sum()
    )


def _as_decided(snapshot: Snapshot, plan: Plan) -> list[Job]:
    """Return the jobs of grants, with the nodes and the fractions of the grants."""
    jobs = {(job.namespace, job.name, job.pod): job for job in snapshot.jobs}
    return [
        job
        if job.node == grant.node and job.fraction == grant.fraction
        else replace(job, node=grant.node, fraction=grant.fraction)
        for grant in plan.grants
        for job in (jobs[grant.namespace, grant.name, grant.pod],)
    ]


def _held_progress(plan: Plan) -> float:
    budgets = sum(user.entitled for user in plan.users)
    progress = sum(user.entitled * user.held_utility for user in plan.users)
    return progress / budgets if budgets else 0.0


def _envy_freeness(snapshot: Snapshot, plan: Plan, comparisons: int) -> float | None:
    if not plan.users:
        return 1.0
    if len(plan.users) * len(plan.grants) > comparisons:
        return None
    row = {user.name: number for number, user in enumerate(plan.users)}
    column = {node.name: number for number, node in enumerate(plan.nodes)}
    mine = _as_decided(snapshot, plan)
    user = np.array([row[grant.entitlement] for grant in plan.grants])
    node = np.array([column[grant.node] for grant in plan.grants])
    fraction = np.array([job.fraction for job in mine])
    most = np.array([np.inf if job.max_cores is None else job.max_cores for job in mine])
    work = np.array([job.work for job in mine])
    budgets = np.array([each.entitled for each in plan.users])
    per_budget = np.zeros((len(row), len(column)))
    np.add.at(per_budget, (user, node), [grant.bought for grant in plan.grants])
    per_budget /= budgets[:, None]
    least = 1.0
    for number, outcome in enumerate(plan.users):
        own = np.flatnonzero(user == number)
        _, member, together = np.unique(node[own], return_inverse=True, return_counts=True)
        cores = per_budget[:, node[own]] * (budgets[number] / together[member])
        x = np.minimum(cores, most[own])
        speedups = np.where(x >= 1, x / (fraction[own] + (1 - fraction[own]) * np.maximum(x, 1)), x)
        envied = float((speedups @ work[own]).max() / work[own].sum())
        if envied > 0:
            least = min(least, outcome.utility / envied)
    return least
