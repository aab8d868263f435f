"""Bounds on cores, and the bare entitlement: what each user could do with its share alone.

Three bounds hold whatever the market decides, at the cost of the job's own user: a *least part*, so
that no running pod starves; the cores that its pod *requested*, where the Market keeps requests;
and the most that it can use. Least parts add up to a part of every user's share, so they always
fit; requests of all users may not, and then give way in proportion on their node.

A user that requests more than it can pay for keeps it all the same: the scheduler has promised it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.amdahl.market import AmdahlMarket
from walras.mechanisms.amdahl.time_shared import pieces_of
from walras.mechanisms.amdahl.upper_bound import maximise_progress

if TYPE_CHECKING:
    from walras.numerics.arrays import Bools, Floats

ROUNDING = 1e-12
"""Relative excess of bounds over a share that is taken for an error of arithmetic."""


class Bounds(NamedTuple):
    """Bounds on the cores of k jobs, as arrays of shape (k,).

    Attributes:
        own: Cores that each job would keep if it were alone with its user: its least part, or what
            its pod requested if that is more.
        kept: Cores of these that it keeps, as far as its node has them.
        least: Fewest cores that it asks for, at least ``kept``; its user pays for the difference
            if it can.
        most: Most cores that it can use, infinity for no bound.
    """

    own: Floats
    kept: Floats
    least: Floats
    most: Floats


def bounds_of(
    market: AmdahlMarket, requested: Floats, asked: Floats, most: Floats, least_part: float
) -> Bounds:
    """Return the bounds of k jobs, which can all be met.

    Args:
        market: Users, servers and jobs.
        requested: Cores that each job's pod requested and keeps, shape (k,).
        asked: Fewest cores worth having, 0 for no such bound, shape (k,). Where these do not fit on
            a server, only those of users count that fit into their share of it.
        most: Most cores that each job can use, infinity for no bound, shape (k,).
        least_part: Part of the smaller of one core and its equal part of its user's share of its
            server that each job has in any case, from 0 to 1.
    """
    most = np.where(most < market.capacities[market.server], most, np.inf)
    least = least_parts(market, most, least_part)
    own = np.maximum(least, np.minimum(requested, most))
    # Where least parts fill a server, their sum may exceed it by rounding, with no more wanted.
    room = np.maximum(market.capacities - market.sum_by_server(least), 0.0)
    wanted = market.sum_by_server(own - least)
    scale = np.divide(room, wanted, out=np.ones(len(room)), where=wanted > room)
    kept = least + (own - least) * scale[market.server]
    lower = np.maximum(kept, np.minimum(asked, most))
    crowded = market.sum_by_server(lower) > market.capacities * (1 + ROUNDING)
    if crowded.any():
        lower = np.where(crowded[market.server] & ~_within_share(market, lower), kept, lower)
        crowded = market.sum_by_server(lower) > market.capacities * (1 + ROUNDING)
        lower = np.where(crowded[market.server], kept, lower)
    return Bounds(own, kept, lower, most)


def least_parts(market: AmdahlMarket, most: Floats, least_part: float) -> Floats:
    """Return the least part of each job, which it has in any case, shape (k,).

    Args:
        market: Users, servers and jobs.
        most: Most cores that each job can use, shape (k,).
        least_part: As in `bounds_of`.
    """
    equal = shares_of_servers(market) / _together(market)
    return np.asarray(np.minimum(least_part * np.minimum(equal, 1.0), most), np.float64)


def shares_of_servers(market: AmdahlMarket) -> Floats:
    """Return the cores of each job's server that its user's share is worth, shape (k,)."""
    share = market.budgets / market.budgets.sum()
    return np.asarray(share[market.user] * market.capacities[market.server])


def _together(market: AmdahlMarket) -> Floats:
    """Return how many jobs each job's user has on its server, shape (k,)."""
    _, pair, together = np.unique(market.pair, return_inverse=True, return_counts=True)
    return np.asarray(together[pair], np.float64)


def _within_share(market: AmdahlMarket, cores: Floats) -> Bools:
    """Return whether a user's cores on a server fit into its share of it, shape (k,)."""
    _, pair = np.unique(market.pair, return_inverse=True)
    wanted = np.bincount(pair, cores)[pair]
    return np.asarray(wanted <= shares_of_servers(market) * (1 + ROUNDING), np.bool_)


def bare_entitlement(market: AmdahlMarket, bounds: Bounds) -> Floats:
    """Return the cores of each job by its user's share of every server alone, shape (k,) (V-C).

    The user divides its share of a server among its jobs there as is best for it, within their
    bounds. Of bounds that do not fit into the share, those that are asked for do not count, and
    those that are kept are scaled down to it.
    """
    if market.jobs == 0:
        return np.zeros(0)
    pairs, pair = np.unique(market.pair, return_inverse=True)
    share = np.empty(len(pairs))
    share[pair] = shares_of_servers(market)
    own = np.bincount(pair, bounds.own)
    scale = np.minimum(np.divide(share, own, out=np.ones(len(own)), where=own > 0), 1.0)
    asked = np.maximum(bounds.own, bounds.least)
    fits = np.bincount(pair, asked) <= share * (1 + ROUNDING)
    least = np.where(fits[pair], asked, bounds.own * scale[pair])
    alone = AmdahlMarket(np.ones(len(pairs)), share, pair, pair, market.fraction, market.work)
    pieces = pieces_of(alone, bounds.most)
    best = maximise_progress(
        pieces.market,
        minimum=np.minimum(pieces.within(least), pieces.within(bounds.most)),
        maximum=pieces.within(bounds.most),
    )
    return pieces.of_jobs(best.cores)
