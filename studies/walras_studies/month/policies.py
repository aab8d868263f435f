"""Cores and memory that each policy gives to each job in each hour of a drawn month."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from walras.analysis.forecast import expected_speedup
from walras.clearing import clear
from walras.market.balances import brought_forward
from walras.market.snapshot import Policy, identity
from walras_studies.month.world import CORES, GIB, JOBS_OF_USER, MEMORY, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras.market.balances import Balance
    from walras.market.snapshot import JobKey, Snapshot
    from walras.mechanisms.karma.ledger import Ledger
    from walras_studies.month.world import MonthWorld

CLEARED = {
    "fair share": Policy("ProportionalSharing", memory="MaxMin", slice_bytes=GIB),
    "max-min": Policy("ProportionalSharing", memory="MaxMin", slice_bytes=GIB),
    "market, max-min": Policy(memory="MaxMin", slice_bytes=GIB, hysteresis=0.02),
    "Walras": Policy(memory="Karma", slice_bytes=GIB, hysteresis=0.02),
}
"""Policies that clear every hour, by name. Under ``max-min``, all users have equal shares."""

POLICIES = ("reservations", *CLEARED)
"""Names of all policies."""

HOUR = 3600.0
"""Seconds of an hour."""


@dataclass(frozen=True, slots=True)
class Hour:
    """Cores and memory of the users that have jobs in an hour.

    Attributes:
        users: Numbers of these users.
        speedup: Mean speedup of each user's jobs.
        utility: Mean of the same, where a job's speedup is multiplied by the part of its demand for
            memory that is met.
        cores: Cores that each user's jobs hold.
        memory: Memory of each user's jobs that they can use, in GiB.
        demand: Memory that each user's jobs could use, in GiB.
        moved: Cores that jobs gained over the hour before, of jobs present in both hours.
        ledger: Credits for memory after the hour; None under policies without credits.
    """

    users: tuple[int, ...]
    speedup: tuple[float, ...]
    utility: tuple[float, ...]
    cores: tuple[float, ...]
    memory: tuple[float, ...]
    demand: tuple[float, ...]
    moved: int
    ledger: Ledger | None = None


@dataclass(frozen=True, slots=True)
class _JobHour:
    user: int
    cores: float
    speedup: float
    memory: float
    demand: float


def live_through(world: MonthWorld, policy: str) -> Iterator[Hour]:
    """Yield the cores and memory of users in each hour under a policy of `POLICIES`."""
    if policy == "reservations":
        yield from _reserve(world)
    else:
        yield from clear_hours(world, CLEARED[policy], alike=policy == "max-min")


def clear_hours(world: MonthWorld, policy: Policy, *, alike: bool = False) -> Iterator[Hour]:
    """Clear every hour as the operator would, with the holdings and credits of the hour before.

    Args:
        world: Users and jobs of the month.
        policy: Policy that divides cores and memory.
        alike: Whether all users have equal shares instead of their own.
    """
    ledger: Ledger | None = None
    account: dict[str, Balance] = {}
    held: dict[JobKey, float] = {}
    number = {name_of(user): user for user in range(len(world.shares))}
    for hour in range(world.hours):
        snapshot: Snapshot = replace(
            world.snapshot(hour, alike=alike), ledger=ledger, held=held, account=account
        )
        plan = clear(snapshot, policy)
        now = plan.holdings()
        jobs = {identity(job): job for job in snapshot.jobs}
        rows = []
        for grant in plan.grants:
            key = identity(grant)
            job = jobs[key]
            demand = job.memory.demand / GIB if job.memory else 0.0
            memory = min((grant.memory or 0) / GIB, demand)
            speed = expected_speedup(job, now[key])
            rows.append(_JobHour(number[job.entitlement], now[key], speed, memory, demand))
        yield _sum_up(rows, _moved(held, now), plan.ledger)
        ledger, held = plan.ledger, now
        account = brought_forward(plan.account, HOUR, policy.core_half_life)


def _reserve(world: MonthWorld) -> Iterator[Hour]:
    """Yield each hour if jobs keep a reservation for their life.

    In the order of their arrival, jobs ask for their user's entitled cores and memory over the mean
    number of its jobs, and get what their node has free of that. A job that got nothing asks again
    in the next hour.
    """
    shares = np.array(world.shares) / sum(world.shares)
    wanted_cores = np.maximum(1, np.rint(shares * world.nodes * CORES / JOBS_OF_USER))
    wanted_memory = np.maximum(1, np.rint(shares * world.nodes * MEMORY / JOBS_OF_USER))
    kept: dict[str, tuple[float, float]] = {}
    for hour in range(world.hours):
        present = world.present(hour)
        kept = {life.name: kept[life.name] for life in present if life.name in kept}
        free = np.tile([float(CORES), float(MEMORY)], (world.nodes, 1))
        for life in present:
            free[life.node] -= kept.get(life.name, (0.0, 0.0))
        rows = []
        for life in present:
            if kept.get(life.name, (0.0, 0.0))[0] == 0:
                asked = wanted_cores[life.user], wanted_memory[life.user]
                got = (min(asked[0], free[life.node, 0]), min(asked[1], free[life.node, 1]))
                kept[life.name] = (float(got[0]), float(got[1])) if min(got) > 0 else (0.0, 0.0)
                free[life.node] -= kept[life.name]
            cores, memory = kept[life.name]
            demand = float(life.demand[hour - life.start])
            speed = cores / (life.fraction + (1 - life.fraction) * cores)
            rows.append(_JobHour(life.user, cores, speed, min(memory, demand), demand))
        yield _sum_up(rows, 0)


def _moved(before: dict[JobKey, float], after: dict[JobKey, float]) -> int:
    staying = before.keys() & after.keys()
    return round(sum(max(0.0, after[key] - before[key]) for key in staying))


def _sum_up(rows: list[_JobHour], moved: int, ledger: Ledger | None = None) -> Hour:
    user = np.array([row.user for row in rows], np.int64)
    speed = np.array([row.speedup for row in rows])
    memory = np.array([row.memory for row in rows])
    demand = np.array([row.demand for row in rows])
    users = np.unique(user)
    jobs = np.bincount(user)[users]

    def per_user(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, ...]:
        return tuple(np.bincount(user, values)[users].tolist())

    return Hour(
        tuple(users.tolist()),
        per_user(speed / jobs[np.searchsorted(users, user)]),
        per_user(speed * (memory / demand) / jobs[np.searchsorted(users, user)]),
        per_user(np.array([row.cores for row in rows])),
        per_user(memory),
        per_user(demand),
        moved,
        ledger,
    )
