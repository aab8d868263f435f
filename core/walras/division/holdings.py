"""What pods hold of what the market sells: everything, in thousandths of a core.

Cores that nobody buys are nobody's: pods use them as they use what others leave idle.

Pods share a node's CPUs by weight of what they hold, so nothing is rounded but to the thousandths
in which a node is told what to give. Programs that must not share ask for whole cores; what these
are rounded by stays with their user where it has other jobs on the node, and falls to the others
there else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.numerics.segments import group
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from walras.market.bounds import Bounds
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Bools, Floats, Integers

THOUSANDTH = 1e-3
"""Cores by which what pods hold is told to nodes."""

NEAR = 0.05
"""Thousandths within which a number of them counts as whole, for the error of prices."""


class Quotas(NamedTuple):
    """Cores of k jobs within their bounds, and in thousandths, as arrays of shape (k,)."""

    real: Floats
    held: Floats


def hold(market: AmdahlMarket, cores: Floats, bounds: Bounds, whole: Bools) -> Quotas:
    """Return what jobs hold of the cores that a mechanism gives them.

    Args:
        market: Users, servers and jobs.
        cores: Cores of each job, shape (k,).
        bounds: Bounds on the cores of jobs.
        whole: Whether each job is to hold whole cores, shape (k,).
    """
    real = _within_bounds(market, cores, bounds)
    if whole.any():
        real = _with_whole_cores(market, real, bounds, whole)
    return Quotas(real, in_thousandths(market.server, real, market.capacities))


def _within_bounds(market: AmdahlMarket, cores: Floats, bounds: Bounds) -> Floats:
    """Return cores within bounds, moved first among a user's jobs, then among users."""
    if (bounds.least <= cores).all() and (cores <= bounds.most).all():
        return cores
    pairs, pair = np.unique(market.pair, return_inverse=True)
    held = np.asarray(np.bincount(pair, cores, len(pairs)), np.float64)
    kept = np.bincount(pair, bounds.least, len(pairs)) <= held * (1 + 1e-9)
    least = np.where(kept[pair], bounds.least, bounds.kept)
    mine = water_fill(cores, least, bounds.most, held, group(pair, len(pairs)))
    lower = np.maximum(np.minimum(mine, least), bounds.kept)
    return water_fill(mine, lower, bounds.most, market.sum_by_server(cores), market.by_server)


def _with_whole_cores(market: AmdahlMarket, cores: Floats, bounds: Bounds, whole: Bools) -> Floats:
    """Return cores in which jobs that share no core have whole ones.

    A user's jobs of that kind on a server have as many cores together as before, rounded down: the
    whole part each, and one more where most is missing. A job of less than one core shares.
    """
    whole = whole & (cores >= 1)
    pairs, pair = np.unique(market.pair, return_inverse=True)
    rounded = np.where(whole, np.floor(cores + NEAR * THOUSANDTH), cores)
    missing = cores - rounded
    spare = np.floor(np.bincount(pair, missing, len(pairs)) + NEAR * THOUSANDTH)
    order = np.lexsort((np.arange(len(cores)), -missing, ~whole, pair))
    rank = np.arange(len(cores)) - np.searchsorted(pair[order], pair[order])
    more = np.zeros(len(cores))
    more[order] = rank < spare[pair[order]]
    rounded = rounded + more * (whole & (rounded + 1 <= bounds.most))
    # What rounding leaves goes to the user's other jobs on the server, then to other users'.
    lower = np.where(whole, rounded, np.minimum(cores, bounds.most))
    upper = np.where(whole, rounded, bounds.most)
    held = np.asarray(np.bincount(pair, cores, len(pairs)), np.float64)
    mine = water_fill(cores, lower, upper, held, group(pair, len(pairs)))
    return water_fill(mine, mine, upper, market.sum_by_server(cores), market.by_server)


def in_thousandths(server: Integers, cores: Floats, capacities: Floats) -> Floats:
    """Return cores in thousandths, at least one each, that add up to the same on every server.

    What is left over goes to the jobs that would lose the largest part of theirs.

    Args:
        server: Server of each job, shape (k,).
        cores: Cores of each job, shape (k,).
        capacities: Cores of each server, shape (m,).
    """
    exact = cores / THOUSANDTH
    near = np.rint(exact)
    units = np.maximum(np.where(np.abs(exact - near) < NEAR, near, np.floor(exact)), 1.0)
    servers = len(capacities)
    total = np.minimum(np.bincount(server, exact, servers), capacities / THOUSANDTH)
    left = np.floor(total + NEAR) - np.bincount(server, units, servers)
    lost = (exact - units) / units
    order = np.lexsort((np.arange(len(cores)), -lost, server))
    first = np.searchsorted(server[order], server[order])
    rank = np.arange(len(cores)) - first
    units[order] += rank < left[server[order]]
    for crowded in np.flatnonzero(left < 0).tolist():
        # Jobs of less than a thousandth have one, for which others give one each: the largest ones
        # first, and those with whole cores last.
        there = np.flatnonzero(server == crowded)
        whole = units[there] % (1 / THOUSANDTH) == 0
        payers = there[np.lexsort((-units[there], whole))]
        over = int(-left[crowded])
        while over > 0 and (units[payers] > 1).any():
            some = payers[units[payers] > 1][:over]
            units[some] -= 1
            over -= len(some)
    return np.asarray(units / (1 / THOUSANDTH), np.float64)
