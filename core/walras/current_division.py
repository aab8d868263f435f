"""The current division of cores, and the nodes that could keep it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.apportion import Apportionment, weights_of, whole_floors
from walras.rounding import round_cores
from walras.sale_units import pooled_parts
from walras.snapshot import Holding, identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras._arrays import Bools, Integers
    from walras.sale_units import UnitMarket
    from walras.snapshot import Job, JobKey


NEW_JOB = Holding(-1)
"""Holding of a job that is new on its node."""


class CurrentDivision(NamedTuple):
    """Cores that jobs hold now.

    Attributes:
        apportioned: Cores of the parts of jobs; undefined on nodes that cannot keep them.
        possible: Whether each of m nodes can keep its division, shape (m,).
    """

    apportioned: Apportionment
    possible: Bools


def current_division(
    held: Mapping[JobKey, Holding], jobs: Sequence[Job], units: UnitMarket, target: Apportionment
) -> CurrentDivision:
    """Return the cores that jobs hold now, and the nodes that could keep their division.

    A node can keep its division if no job has come or gone, the jobs hold no more cores than are
    for sale and leave no more idle than the new division does, none is above its maximum, and
    none is below a minimum or a floor that the new division meets.

    Args:
        held: Cores that jobs hold now.
        jobs: Jobs that have a node, k of them.
        units: Market of the units that are sold now.
        target: New division, by parts of jobs.
    """
    has = [held.get(identity(job), NEW_JOB) for job in jobs]
    own = np.array([each.cores for each in has], np.int64)
    pool = np.array([each.shared for each in has], np.int64)
    whole = _by_part(np.maximum(own, 0), units, target)
    small = whole == 0
    server = units.market.server
    sharing = pooled_parts(units, target._replace(whole=whole))
    shared = np.zeros(len(units.node), np.int64)
    np.maximum.at(shared, server[sharing], pool[units.job[sharing]])
    weights = weights_of(server, target.quota, small)
    apportioned = Apportionment(target.quota, whole, np.where(small, shared[server], 0), weights)
    bad = (whole > units.most) | (whole < _fewest(units, target))
    bad |= sharing & ((pool[units.job] != apportioned.shared) | (pool[units.job] < 1))
    bad |= _others_were_there(held, jobs, own)[units.job]
    wrong = _does_not_fit(units, apportioned, target)
    wrong[server[bad]] = True
    possible = np.ones(int(units.node.max(initial=-1)) + 1, np.bool_)
    possible[units.node[wrong]] = False
    return CurrentDivision(apportioned, possible)


def _by_part(own: Integers, units: UnitMarket, target: Apportionment) -> Integers:
    """Divide each job's whole cores among its parts, in proportion to the new division.

    The result equals the new division for a job that keeps its number of cores.
    """
    jobs = len(own)
    if len(units.job) == jobs:
        return own
    whole = np.bincount(units.job, target.whole, jobs)
    measure = np.where(whole[units.job] > 0, target.whole, 1)
    quota = own[units.job] * measure / np.bincount(units.job, measure, jobs)[units.job]
    return round_cores(quota, own, group(units.job, jobs))


def _others_were_there(held: Mapping[JobKey, Holding], jobs: Sequence[Job], own: Integers) -> Bools:
    """Return whether a job has come to or gone from each job's node, shape (k,)."""
    before = Counter(node for *_, node in held)
    known = Counter(job.node for job, cores in zip(jobs, own.tolist(), strict=True) if cores >= 0)
    now = Counter(job.node for job in jobs)
    same = {node: before[node] == known[node] == count for node, count in now.items()}
    return np.array([not same[job.node] for job in jobs], np.bool_)


def _fewest(units: UnitMarket, target: Apportionment) -> Integers:
    """Return the fewest cores of each part: those of its bounds that the new division meets."""
    least = np.maximum(np.where(units.least > 1, units.least, 0), units.promised)
    least = np.maximum(least, whole_floors(units.floors))
    return np.minimum(least, target.whole)


def _does_not_fit(units: UnitMarket, apportioned: Apportionment, target: Apportionment) -> Bools:
    """Return whether more cores are held of each server than it has, or fewer than are sold."""
    server, servers = units.market.server, len(units.node)
    held, pool = _sold(units, apportioned)
    sold, _ = _sold(units, target)
    sharing = pooled_parts(units, apportioned)
    room = np.bincount(server[sharing], units.most[sharing], servers)
    return np.asarray((held < sold) | (held > units.market.capacities) | (pool > room), np.bool_)


def _sold(units: UnitMarket, apportioned: Apportionment) -> tuple[Integers, Integers]:
    """Return the cores of each server that jobs hold, and those of them in its shared pool."""
    server, servers = units.market.server, len(units.node)
    pool = np.zeros(servers, np.int64)
    np.maximum.at(pool, server, apportioned.shared * pooled_parts(units, apportioned))
    return np.bincount(server, apportioned.whole, servers).astype(np.int64) + pool, pool
