"""Forecast of when jobs end, by a fluid model that clears the market anew at every end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walras.clearing import clear
from walras.market.snapshot import identity
from walras.speedup.amdahls_law import speedup_in_hardware

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.market.snapshot import Job, JobKey, Policy, Snapshot


def expected_speedup(job: Job, cores: float) -> float:
    """Return the speedup in hardware on ``cores``, of which the job uses at most its maximum."""
    usable = cores if job.max_cores is None else min(cores, job.max_cores)
    return float(speedup_in_hardware(usable, job.fraction))


def forecast(
    snapshot: Snapshot, policy: Policy, alone: Mapping[JobKey, float]
) -> dict[JobKey, float]:
    """Return the seconds until each job ends, if all start now.

    Every job proceeds at its expected speedup; whenever one ends, the market is cleared again.
    Deadlines then have less time and work left, and keep what is reserved for them.

    Args:
        snapshot: Snapshot with the jobs at the start.
        policy: Mechanisms.
        alone: Seconds that each job takes on one core, by key. Jobs without an entry never end, and
            are left out of the result.
    """
    jobs = {identity(job): job for job in snapshot.jobs}
    left = dict(alone)
    ends: dict[JobKey, float] = {}
    now = 0.0
    while any(each in left for each in jobs):
        plan = clear(replace(snapshot, jobs=tuple(jobs.values())), policy)
        held = plan.holdings()
        snapshot = replace(snapshot, held=held)
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
        for outcome in plan.deadlines:
            each = identity(outcome)
            jobs[each] = _later(jobs[each], step, step * rates[each], outcome.reserved)
        for each in moving:
            left[each] -= step * rates[each]
            if left[each] <= 1e-9 * alone[each]:
                ends[each] = now
                del jobs[each], left[each]
    return ends


def _later(job: Job, seconds: float, work: float, reserved: float) -> Job:
    """Return a job some seconds later, when it has done some of the work before its deadline."""
    if job.deadline is None:
        return job
    deadline = replace(
        job.deadline,
        seconds=job.deadline.seconds - seconds,
        left=max(job.deadline.left - work, 0.0),
        reserved=reserved,
    )
    return replace(job, deadline=deadline)
