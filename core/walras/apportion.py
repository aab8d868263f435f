"""From a market's real numbers to what processors can be given: whole cores, or a shared pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.fill import fill
from walras.rounding import round_cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

ALMOST = 1 - 1e-6
"""Less than this many cores share; a little below 1, since prices are only that exact."""

LARGEST_WEIGHT = 100


class Portions(NamedTuple):
    """What every job gets in hardware, arrays of shape (k,).

    Attributes:
        quota: real numbers of cores after the bounds of jobs, before rounding.
        whole: cores of its own; 0 for jobs that share.
        shared: cores of the pool it shares; 0 for jobs with cores of their own.
        weight: its part of the pool, with 100 for the largest.
    """

    quota: Floats
    whole: Counts
    shared: Counts
    weight: Counts


def apportion(
    market: AmdahlMarket,
    cores: Floats,
    minimum: Counts,
    maximum: Counts,
    promised: Counts | None = None,
) -> Portions:
    """Turn real numbers of cores into whole ones.

    Jobs of less than one core share a pool of whole cores, as large as their parts together: to
    give each of them a core would let a user gain by splitting a job. The pool and the others are
    rounded by Hamilton's method.

    Args:
        market: the market; capacities are whole numbers.
        cores: shape (k,), what the mechanism gives.
        minimum: shape (k,). Above 1, the job is lifted to it at the cost of its own user's other
            jobs on the server, if all their minimums fit into what that user holds there.
            Rounding keeps it, unless small jobs would then find no core for their pool.
        maximum: shape (k,), at least 1. What a job cannot use goes to its user's other jobs on
            the server, then to other users' there, in proportion.
        promised: shape (k,), whole cores below which rounding takes no job that has that many, if
            all of that fits; none if not given.

    Returns:
        Portions whose whole cores and pools add up to at most each server's capacity.
    """
    lifted = _affordable(market, cores, np.minimum(minimum, maximum))
    quota = _within_bounds(market, cores, lifted, maximum)
    small = _small_jobs(market, quota)
    servers = len(market.capacities)
    pooled = np.bincount(market.server[small], quota[small], servers)
    pools = np.flatnonzero(np.bincount(market.server[small], minlength=servers))
    large = np.flatnonzero(~small)
    floors = _floors(market, lifted, small, promised)
    floors = np.minimum(floors, maximum)
    room_of_pools = np.bincount(market.server[small], maximum[small], servers)[pools]
    whole = round_cores(
        np.concatenate([quota[large], pooled[pools]]),
        market.capacities,
        group(np.concatenate([market.server[large], pools]), servers),
        minimum=np.concatenate([floors[large], np.ones(len(pools), np.int64)]),
        maximum=np.concatenate([maximum[large], np.maximum(room_of_pools, 1).astype(np.int64)]),
    )
    own = np.zeros(market.jobs, np.int64)
    own[large] = whole[: len(large)]
    pool = np.zeros(servers, np.int64)
    pool[pools] = whole[len(large) :]
    shared = np.where(small, pool[market.server], 0)
    return Portions(quota, own, shared, weights_of(market.server, quota, small))


def _pairs(market: AmdahlMarket) -> tuple[Counts, int]:
    """Number the pairs of a user and a server; return each job's, and how many there are."""
    key = market.user * len(market.capacities) + market.server
    pairs, pair = np.unique(key, return_inverse=True)
    return pair.astype(np.int64), len(pairs)


def _affordable(market: AmdahlMarket, cores: Floats, minimum: Counts) -> Counts:
    """Return the minimums above 1, or 0 where a user holds too little on a server for all."""
    pair, pairs = _pairs(market)
    wanted = np.where(minimum > 1, minimum, 0)
    held = np.bincount(pair, cores, pairs)
    enough = np.bincount(pair, wanted, pairs) * ALMOST <= held
    return np.where(enough[pair], wanted, 0)


def _within_bounds(market: AmdahlMarket, cores: Floats, lifted: Counts, maximum: Counts) -> Floats:
    """Shift cores between jobs so that they respect their bounds, near relatives first."""
    if not lifted.any() and (maximum >= market.capacities[market.server]).all():
        return cores
    pair, pairs = _pairs(market)
    held = np.asarray(np.bincount(pair, cores, pairs), np.float64)
    upper = maximum.astype(np.float64)
    mine = fill(cores, lifted.astype(np.float64), upper, held, group(pair, pairs))
    return fill(mine, np.minimum(mine, upper), upper, market.capacities, market.by_server)


def _small_jobs(market: AmdahlMarket, quota: Floats) -> NDArray[np.bool_]:
    """Return which jobs share: those below one core, and more if they would find no core left."""
    small = quota < ALMOST
    servers = len(market.capacities)
    claims = np.bincount(market.server[~small], minlength=servers)
    claims = claims + (np.bincount(market.server[small], minlength=servers) > 0)
    for server in np.flatnonzero(claims > market.capacities):
        members = np.flatnonzero((market.server == server) & ~small)
        surplus = int(claims[server] - market.capacities[server])
        small[members[np.argsort(quota[members], kind="stable")[:surplus]]] = True
    return small


def _floors(
    market: AmdahlMarket, lifted: Counts, small: NDArray[np.bool_], promised: Counts | None
) -> Counts:
    """Return the fewest whole cores of jobs that do not share: 1, or what they must have."""
    servers = len(market.capacities)
    floors = np.maximum(lifted, 1)
    if promised is not None:
        floors = np.maximum(floors, promised)
    needed = np.bincount(market.server[~small], floors[~small], servers)
    needed += np.bincount(market.server[small], minlength=servers) > 0
    crowded = needed > market.capacities
    return np.where(crowded[market.server], 1, floors)


def weights_of(server: Counts, quota: Floats, small: NDArray[np.bool_]) -> Counts:
    """Return each job's part of its server's pool, shape (k,), with 100 for the largest there."""
    largest = np.zeros(int(server.max(initial=-1)) + 1)
    np.maximum.at(largest, server[small], quota[small])
    part = np.divide(
        quota, largest[server], out=np.ones(len(quota)), where=small & (largest[server] > 0)
    )
    weights: Counts = np.maximum(np.rint(LARGEST_WEIGHT * part), 1).astype(np.int64)
    return weights
