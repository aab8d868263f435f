"""Rounding of a market's real numbers of cores to whole cores and shared pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.rounding import round_cores
from walras.water_filling import water_fill

if TYPE_CHECKING:
    from walras._arrays import Bools, Floats, Integers
    from walras.amdahl.market import AmdahlMarket


SHARING_THRESHOLD = 1 - 1e-6
"""Jobs below this many cores share a pool; a little below 1, for the error of prices."""

ROUNDING_ERROR = 1e-6
"""Cores by which a sum of floors may be off."""

LARGEST_WEIGHT = 10_000
"""Weight of the largest job of a pool: that of cgroup v2's cpu.weight.

The least is 1: a pod that bought next to nothing must not hold much more for being one of many.
"""


class Apportionment(NamedTuple):
    """Whole and shared cores of k jobs, as arrays of shape (k,).

    Attributes:
        quota: Cores within the bounds of jobs, before rounding.
        whole: Whole cores of its own; 0 for jobs that share cores.
        shared: Whole cores of the shared pool; 0 for jobs with cores of their own.
        weight: Weight in the shared pool, `LARGEST_WEIGHT` for the largest.
    """

    quota: Floats
    whole: Integers
    shared: Integers
    weight: Integers


def apportion(
    market: AmdahlMarket,
    cores: Floats,
    minimum: Integers,
    maximum: Integers,
    promised: Integers | None = None,
    floors: Floats | None = None,
    credit: Floats | None = None,
) -> Apportionment:
    """Round the cores of all jobs.

    Jobs of less than one core share a pool of whole cores, as large as their parts together: if
    each of them got a core, a user could gain by splitting a job. The pool and the other jobs are
    rounded by Hamilton's method.

    Args:
        market: Market whose capacities are whole numbers.
        cores: Cores that the mechanism allocates, shape (k,).
        minimum: Fewest cores, shape (k,). Above 1, the job is raised to it at the cost of its own
            user's other jobs on the server, if all their minimums fit into what that user holds
            there. Rounding keeps it, unless small jobs would then find no core for their pool.
        maximum: Most cores, at least 1, shape (k,). What a job cannot use goes to its user's other
            jobs on the server, then to other users' there, in proportion.
        promised: Whole cores below which rounding takes no job that has as many, if all promises
            fit, shape (k,); no promises if not given.
        floors: Cores that each job keeps, at most ``cores`` and ``maximum``, shape (k,); none if
            not given. Rounding keeps them: rounded up as far as the user has bought the cores,
            else as parts of a pool; rounded down where there is no room.
        credit: Rounding credit of each job's user in units of its limit, shape (k,); none if not
            given. Leftover cores go to the largest sums of fractional part and credit.

    Returns:
        Whole cores and pools that add up to at most each server's capacity.
    """
    floors = np.zeros(market.jobs) if floors is None else floors
    lifted = _affordable(market, cores, np.minimum(minimum, maximum), floors)
    quota = _within_bounds(market, cores, np.maximum(lifted, floors), maximum)
    small = _small_jobs(market, quota)
    small |= _beyond_payment(market, quota, floors, small)
    servers = len(market.capacities)
    pooled = np.bincount(market.server[small], quota[small], servers)
    pools = np.flatnonzero(np.bincount(market.server[small], minlength=servers))
    large = np.flatnonzero(~small)
    least, least_of_pools = _fewest(market, lifted, small, promised, floors)
    least = np.minimum(least, maximum)
    room_of_pools = np.bincount(market.server[small], maximum[small], servers)[pools]
    whole = round_cores(
        np.concatenate([quota[large], pooled[pools]]),
        market.capacities,
        group(np.concatenate([market.server[large], pools]), servers),
        minimum=np.concatenate([least[large], least_of_pools[pools]]),
        maximum=np.concatenate([maximum[large], np.maximum(room_of_pools, 1).astype(np.int64)]),
        credit=None if credit is None else _credits(market, quota, small, pools, credit),
    )
    own = np.zeros(market.jobs, np.int64)
    own[large] = whole[: len(large)]
    pool = np.zeros(servers, np.int64)
    pool[pools] = whole[len(large) :]
    shared = np.where(small, pool[market.server], 0)
    return Apportionment(quota, own, shared, weights_of(market.server, quota, small))


def _pairs(market: AmdahlMarket) -> tuple[Integers, int]:
    """Return the number of each job's pair of user and server, and how many pairs there are."""
    pairs, pair = np.unique(market.pair, return_inverse=True)
    return pair.astype(np.int64), len(pairs)


def _affordable(market: AmdahlMarket, cores: Floats, minimum: Integers, floors: Floats) -> Integers:
    """Return the minimums above 1, shape (k,); 0 if the user holds too little there for all."""
    pair, pairs = _pairs(market)
    wanted = np.where(minimum > 1, minimum, 0)
    held = np.bincount(pair, cores, pairs)
    needed = np.maximum(wanted, floors)
    enough = np.bincount(pair, needed, pairs) * SHARING_THRESHOLD <= held
    return np.where(enough[pair], wanted, 0)


def _within_bounds(market: AmdahlMarket, cores: Floats, lower: Floats, maximum: Integers) -> Floats:
    """Return cores within the bounds of jobs, moved first among a user's jobs, then among users."""
    if (lower <= cores).all() and (maximum >= market.capacities[market.server]).all():
        return cores
    pair, pairs = _pairs(market)
    held = np.asarray(np.bincount(pair, cores, pairs), np.float64)
    upper = maximum.astype(np.float64)
    mine = water_fill(cores, lower, upper, held, group(pair, pairs))
    return water_fill(mine, np.minimum(mine, upper), upper, market.capacities, market.by_server)


def _small_jobs(market: AmdahlMarket, quota: Floats) -> Bools:
    """Return which jobs share a pool: those below one core, and others that would get no core."""
    small = quota < SHARING_THRESHOLD
    servers = len(market.capacities)
    claims = np.bincount(market.server[~small], minlength=servers)
    claims = claims + (np.bincount(market.server[small], minlength=servers) > 0)
    for server in np.flatnonzero(claims > market.capacities):
        members = np.flatnonzero((market.server == server) & ~small)
        surplus = int(claims[server] - market.capacities[server])
        small[members[np.argsort(quota[members], kind="stable")[:surplus]]] = True
    return small


def _beyond_payment(market: AmdahlMarket, quota: Floats, floors: Floats, small: Bools) -> Bools:
    """Return which jobs share a pool since their user does not pay for rounding their floors up.

    These are a user's jobs on a server whose floors are no whole numbers, if all its floors there,
    rounded up, exceed what it holds there: otherwise many floors of a little more than a core would
    take a core each from others. In the pool they have their floors as parts of cores.
    """
    up, down = whole_floors(floors), whole_floors(floors, up=False)
    odd = ~small & (up > down)
    if not odd.any():
        return odd
    pair, pairs = _pairs(market)
    large = ~small
    needed = np.bincount(pair[large], np.maximum(up[large], 1), pairs)
    held = np.bincount(pair[large], quota[large], pairs)
    beyond: Bools = odd & (needed > np.ceil(held - ROUNDING_ERROR))[pair]
    return beyond


def _credits(
    market: AmdahlMarket, quota: Floats, small: Bools, pools: Integers, credit: Floats
) -> Floats:
    """Return the credits of jobs with their own cores, then of pools: the means of their jobs."""
    servers = len(market.capacities)
    total = np.bincount(market.server[small], (quota * credit)[small], servers)[pools]
    pooled = np.bincount(market.server[small], quota[small], servers)[pools]
    mean = np.divide(total, pooled, out=np.zeros(len(pools)), where=pooled > 0)
    return np.concatenate([credit[~small], mean])


def whole_floors(floors: Floats, *, up: bool = True) -> Integers:
    """Return floors as whole cores, rounded up or down."""
    rounded = np.ceil(floors - ROUNDING_ERROR) if up else np.floor(floors + ROUNDING_ERROR)
    return np.maximum(rounded, 0).astype(np.int64)


def _fewest(
    market: AmdahlMarket,
    lifted: Integers,
    small: Bools,
    promised: Integers | None,
    floors: Floats,
) -> tuple[Integers, Integers]:
    """Return the fewest whole cores of jobs with their own, and of the pools of servers.

    On each server, minimums, promises and floors hold where all fit together; else floors alone,
    rounded up; else floors rounded down; else one core for each.
    """
    servers = len(market.capacities)
    ones = np.ones(market.jobs, np.int64)
    shared = np.asarray(np.bincount(market.server[small], floors[small], servers), np.float64)
    least, pool = ones, np.ones(servers, np.int64)
    asked = np.maximum(lifted, 0 if promised is None else promised)
    up = whole_floors(floors)
    for whole, shared_by_pool in (
        (whole_floors(floors, up=False), whole_floors(shared, up=False)),
        (up, whole_floors(shared)),
        (np.maximum(up, asked), whole_floors(shared)),
    ):
        own, pooled = np.maximum(whole, 1), np.maximum(shared_by_pool, 1)
        needed = np.bincount(market.server[~small], own[~small], servers)
        needed += np.where(np.bincount(market.server[small], minlength=servers) > 0, pooled, 0)
        fits = needed <= market.capacities
        least, pool = np.where(fits[market.server], own, least), np.where(fits, pooled, pool)
    return least, pool


def weights_of(server: Integers, quota: Floats, small: Bools) -> Integers:
    """Return each job's weight in its pool, shape (k,): `LARGEST_WEIGHT` for the largest there."""
    largest = np.zeros(int(server.max(initial=-1)) + 1)
    np.maximum.at(largest, server[small], quota[small])
    part = np.divide(
        quota, largest[server], out=np.ones(len(quota)), where=small & (largest[server] > 0)
    )
    weights: Integers = np.maximum(np.rint(LARGEST_WEIGHT * part), 1).astype(np.int64)
    return weights
