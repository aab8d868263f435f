"""When jobs will be done if the market is cleared anew at every end: a fluid model of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walras.clearing import clear
from walras.snapshot import identity
from walras.speedup import speedup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.plan import Plan
    from walras.snapshot import Job, Key, Policy, Snapshot


def held_cores(plan: Plan) -> dict[Key, float]:
    """Return the cores that each job really holds: its own, or its part of the shared ones."""
    weights: dict[tuple[str, tuple[int, ...]], int] = {}
    for grant in plan.grants:
        if not grant.granted_cores:
            pool = grant.node, grant.sockets
            weights[pool] = weights.get(pool, 0) + grant.weight
    return {
        identity(grant): float(grant.granted_cores)
        or grant.shared_cores * grant.weight / weights[grant.node, grant.sockets]
        for grant in plan.grants
    }


def expected_speedup(job: Job, cores: float) -> float:
    """Return Amdahl's speedup at the cores held, of which the job uses at most its maximum.

    Less than a core is a core part of the time, so that the speedup is that part.
    """
    usable = cores if job.max_cores is None else min(cores, job.max_cores)
    return float(speedup(usable, job.fraction)) if usable >= 1 else usable


def forecast(snapshot: Snapshot, policy: Policy, alone: Mapping[Key, float]) -> dict[Key, float]:
    """Return how many seconds each job will take, all starting now.

    Every job proceeds at its expected speedup; whenever one ends, its cores are divided again.

    Args:
        snapshot: the jobs at the start.
        policy: how cores are divided.
        alone: seconds that each job would take on one core; jobs not in it never end, and are
            not in the result.
    """
    jobs = {identity(job): job for job in snapshot.jobs}
    left = dict(alone)
    ends: dict[Key, float] = {}
    now = 0.0
    while any(each in left for each in jobs):
        plan = clear(replace(snapshot, jobs=tuple(jobs.values())), policy)
        snapshot = replace(snapshot, held=plan.holdings())
        held = held_cores(plan)
        rates = {
            each: expected_speedup(replace(jobs[each], fraction=grant.fraction), held[each])
            for grant in plan.grants
            for each in (identity(grant),)
        }
        moving = [each for each in jobs if each in left and rates.get(each, 0.0) > 0.0]
        if not moving:
            break
        step = min(left[each] / rates[each] for each in moving)
        now += step
        for each in moving:
            left[each] -= step * rates[each]
            if left[each] <= 1e-9 * alone[each]:
                ends[each] = now
                del jobs[each], left[each]
    return ends
