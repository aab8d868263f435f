"""Requests beyond a user's share: they are kept where nobody else lacks its own for them.

Pods keep what they requested, whatever their user's budget is. So who requests more than its share
of a node would have more than its share there, for nothing. Where the Market says `WithinShare`, a
division is made with all requests, and wherever a user is below its bare entitlement by it, or
requests do not fit, those who requested more than their share of the unit keep their share only.
This is repeated until nobody is short, or nobody keeps more than its share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.market.bounds import bounds_of, least_parts, shares_of_servers
from walras.mechanisms.amdahl import metrics

if TYPE_CHECKING:
    from walras.division.sale import Sale
    from walras.market.bounds import Bounds
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Bools, Floats

SHORT = 0.99
"""Part of its entitlement's utility below which a user is short."""

ROUNDING = 1e-9
"""Relative excess over a share that counts as an error of arithmetic."""


def without_excess(sale: Sale, least_part: float, held: Floats, bare: Floats) -> Sale | None:
    """Return a sale in which fewer requests are kept, as users are short; None if none need be.

    Args:
        sale: The sale that was held.
        least_part: As in `walras.market.bounds.bounds_of`.
        held: Cores that each job would hold, shape (k,).
        bare: Cores of each job's bare entitlement, shape (k,).
    """
    market, units, bounds = sale.market, sale.units, sale.bounds_of_units
    holds, due = (
        metrics.utilities_in_hardware(market, np.minimum(each, sale.bounds.most))
        for each in (held, bare)
    )
    exceeding = _exceeding(units.market, bounds)
    short = (holds < SHORT * due)[units.market.user]
    short |= bounds.kept < bounds.own * (1 - ROUNDING)  # requests that do not fit give way
    if not short.any() or not exceeding.any():
        return None
    where_short = units.market.sum_by_server(short.astype(np.float64)) > 0
    here = exceeding & where_short[units.market.server]
    fewer = _cut(units.market, bounds, here if here.any() else exceeding, least_part)
    of_jobs = sale.bounds._replace(
        own=units.of_jobs(fewer.own),
        kept=units.of_jobs(fewer.kept),
        least=units.of_jobs(fewer.least),
    )
    cut = sale.cut | (of_jobs.own < sale.bounds.own)
    return sale._replace(bounds=of_jobs, bounds_of_units=fewer, cut=cut)


def _exceeding(market: AmdahlMarket, bounds: Bounds) -> Bools:
    """Return whether what a job's user keeps of its server exceeds its share of it, shape (k,)."""
    _, pair = np.unique(market.pair, return_inverse=True)
    kept = np.bincount(pair, bounds.own)[pair]
    return np.asarray(kept > shares_of_servers(market) * (1 + ROUNDING), np.bool_)


def _cut(market: AmdahlMarket, bounds: Bounds, here: Bools, least_part: float) -> Bounds:
    """Return bounds in which some jobs keep no more than their user's share of their server."""
    least = least_parts(market, bounds.most, least_part)
    _, pair = np.unique(market.pair, return_inverse=True)
    room = shares_of_servers(market) - np.bincount(pair, least)[pair]
    wanted = np.bincount(pair, bounds.own - least)[pair]
    scale = np.divide(room, wanted, out=np.ones(len(room)), where=here & (wanted > 0))
    own = least + (bounds.own - least) * np.minimum(scale, 1.0)
    asked = np.where(bounds.least > bounds.kept, bounds.least, 0.0)
    return bounds_of(market, own, asked, bounds.most, least_part)
