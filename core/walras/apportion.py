"""From a market's real numbers to what processors can be given: whole cores, or a shared pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.amdahl._segments import group
from walras.fill import fill
from walras.rounding import round_cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras.amdahl.market import Market

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

ALMOST = 1 - 1e-6
"""Less than this many cores share; a little below 1, since prices are only that exact."""

LARGEST_WEIGHT = 100


class Portions(NamedTuple):
    """What every job gets in hardware, arrays of shape (k,).

    Attributes:
        whole: cores of its own; 0 for jobs that share.
        shared: cores of the pool it shares; 0 for jobs with cores of their own.
        weight: its part of the pool, with 100 for the largest.
    """

    whole: Counts
    shared: Counts
    weight: Counts


def apportion(market: Market, cores: Floats, minimum: Counts, maximum: Counts) -> Portions:
    """Turn real numbers of cores into whole ones.

    Jobs of less than one core share a pool of whole cores, as large as their parts together: to
    give each of them a core would let a user gain by splitting a job. The pool and the others are
    rounded by Hamilton's method.

    Args:
        market: the market; capacities are whole numbers.
        cores: shape (k,), what the mechanism gives.
        minimum: shape (k,). Above 1, the job is lifted to it at the cost of its own user's other
            jobs on the server, if all their minimums fit into what that user holds there.
        maximum: shape (k,), at least 1. What a job cannot use goes to its user's other jobs on
            the server, then to other users' there, in proportion.

    Returns:
        Portions whose whole cores and pools add up to at most each server's capacity.
    """
    quota = _within_bounds(market, cores, minimum, maximum)
    small = _small_jobs(market, quota)
    servers = len(market.capacities)
    pooled = np.bincount(market.server[small], quota[small], servers)
    pools = np.flatnonzero(np.bincount(market.server[small], minlength=servers))
    large = np.flatnonzero(~small)
    room_of_pools = np.bincount(market.server[small], maximum[small], servers)[pools]
    whole = round_cores(
        np.concatenate([quota[large], pooled[pools]]),
        market.capacities,
        group(np.concatenate([market.server[large], pools]), servers),
        minimum=np.ones(len(large) + len(pools), np.int64),
        maximum=np.concatenate([maximum[large], np.maximum(room_of_pools, 1).astype(np.int64)]),
    )
    own = np.zeros(market.jobs, np.int64)
    own[large] = whole[: len(large)]
    pool = np.zeros(servers, np.int64)
    pool[pools] = whole[len(large) :]
    return Portions(
        own, np.where(small, pool[market.server], 0), _weights(market.server, quota, small)
    )


def _within_bounds(market: Market, cores: Floats, minimum: Counts, maximum: Counts) -> Floats:
    """Shift cores between jobs so that they respect their bounds, near relatives first."""
    key = market.user * len(market.capacities) + market.server
    pairs, pair = np.unique(key, return_inverse=True)
    of_pair = group(pair.astype(np.int64), len(pairs))
    held = np.asarray(np.bincount(pair, cores, len(pairs)), np.float64)
    lower = np.where(minimum > 1, minimum, 0).astype(np.float64)
    unaffordable = np.bincount(pair, lower, len(pairs)) > held
    lower[unaffordable[pair]] = 0.0
    upper = maximum.astype(np.float64)
    mine = fill(cores, np.minimum(lower, upper), upper, held, of_pair)
    return fill(mine, np.minimum(mine, upper), upper, market.capacities, market.by_server)


def _small_jobs(market: Market, quota: Floats) -> NDArray[np.bool_]:
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


def _weights(server: Counts, quota: Floats, small: NDArray[np.bool_]) -> Counts:
    largest = np.zeros(int(server.max(initial=-1)) + 1)
    np.maximum.at(largest, server[small], quota[small])
    part = np.divide(
        quota, largest[server], out=np.ones(len(quota)), where=small & (largest[server] > 0)
    )
    weights: Counts = np.maximum(np.rint(LARGEST_WEIGHT * part), 1).astype(np.int64)
    return weights
