"""Floors: jobs keep the cores that their pods requested, and the market sells the others.

On x cores beyond a floor of g, a job of parallel fraction f and work w gains

    w s(g + x) - w s(g) = w' s'(x)  with  f' = d / (d + 1 - f),  w' = w f / (d (d + 1 - f)),
                                          d = f + (1 - f) g,

which is again Amdahl's law (eq. 1). The cores beyond floors are therefore a market like any other.

Floors count against the entitlements that hold them: a user spends on cores beyond floors what its
budget is worth beyond its own floors. A user whose floors exceed its budget keeps a small part of
it, since otherwise cores that nobody else can use would stay idle.

Each user's utility is at least that of its *bare entitlement*: its floors, and its part of every
node's other cores (V-C, applied to the market of these).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras import metrics
from walras.amdahl.market import AmdahlMarket
from walras.pricing import Bounds, PricingResult, price

if TYPE_CHECKING:
    from walras._arrays import Bools, Floats, Integers
    from walras.sale import Sale
    from walras.sale_units import UnitMarket
    from walras.snapshot import Policy

LEAST_BUDGET = 0.01
"""Part of its budget that a user can spend, however large its floors."""

ROUNDING = 1e-12
"""Relative excess of minimums over a share that is taken for an error of arithmetic."""

NO_CORES = 1e-4
"""Cores that count as none; requests are stated in thousandths."""


def price_above_floors(sale: Sale, policy: Policy) -> PricingResult:
    """Divide the cores beyond floors by the mechanism that ``policy`` names; add the floors.

    Returns:
        Cores with floors, and the prices and spends of the cores beyond them. The price of a
        server whose floors take all its cores is 0.

    Raises:
        PricingError: The market is too large for the mechanism.
    """
    units, limits = sale.units, sale.limits
    if not units.floors.any():
        bounds = _bounds(units.market, units.least, units.most, units.floors)
        return price(units.market, bounds, policy, sale.auctioned, limits)
    rest = _rest_of(units)
    limits = None if limits is None else limits[rest.users]
    above = price(rest.market, rest.bounds, policy, sale.auctioned, limits)
    cores = units.floors.copy()
    cores[rest.parts] += above.cores
    prices = np.zeros(len(units.market.capacities))
    prices[rest.servers] = above.prices
    spends = np.zeros(len(cores))
    paid = above.prices[rest.market.server] * above.cores
    spends[rest.parts] = paid if above.spends is None else above.spends
    return above._replace(cores=cores, prices=prices, spends=spends)


def budgets_above_floors(market: AmdahlMarket, floors: Floats) -> Floats:
    """Return what users can spend on cores beyond floors, shape (n,).

    Without floors, these are the budgets; with them, they add up to the cores beyond floors.
    """
    if not floors.any():
        return market.budgets
    return spendable(market.budgets, market.sum_by_user(floors), market.capacities.sum())


def spendable(budgets: Floats, floors: Floats, cores: float) -> Floats:
    """Return what users can spend on cores beyond floors, shape (n,).

    Args:
        budgets: Budget of each user, shape (n,).
        floors: Cores that each user keeps in any case, shape (n,).
        cores: All cores of the market.
    """
    left = np.maximum(budgets - floors, LEAST_BUDGET * budgets)
    return np.asarray(left * (max(cores - floors.sum(), 0.0) / left.sum()), np.float64)


def bare_entitlement(sale: Sale) -> Floats:
    """Return what each job can use of its floor and its part of the other cores, shape (k,) (V-C).

    The part is that of its user without trade.
    """
    market, floors = sale.market, sale.floors
    if not floors.any():
        return np.asarray(np.minimum(metrics.bare_entitlement(market), sale.most))
    rest = market.capacities - market.sum_by_server(floors)
    other = AmdahlMarket(
        np.maximum(budgets_above_floors(market, floors), NO_CORES),
        np.maximum(rest, NO_CORES),
        market.user,
        market.server,
        market.fraction,
    )
    others = metrics.bare_entitlement(other) * (rest > NO_CORES)[market.server]
    return np.asarray(np.minimum(floors + others, sale.most))


class _Rest(NamedTuple):
    """Market of the cores beyond floors.

    Attributes:
        parts: Indices of its jobs among the parts of jobs; those at their maximums are not in it.
        servers: Indices of its servers among the servers; those that floors take are not in it.
        users: Indices of its users among the users.
    """

    market: AmdahlMarket
    bounds: Bounds
    parts: Integers
    servers: Integers
    users: Integers


def _rest_of(units: UnitMarket) -> _Rest:
    market, floors = units.market, units.floors
    capacities = market.capacities - market.sum_by_server(floors)
    open_ = capacities > NO_CORES
    buys = open_[market.server] & (units.most - floors > NO_CORES)
    parts, servers = np.flatnonzero(buys), np.flatnonzero(open_)
    users, user = np.unique(market.user[buys], return_inverse=True)
    position = np.cumsum(open_) - 1
    f, floor = market.fraction[buys], floors[buys]
    d = f + (1 - f) * floor
    work = market.work[buys] * f / (d * (d + 1 - f))
    budgets = budgets_above_floors(market, floors)[users]
    rest = AmdahlMarket(
        budgets,
        capacities[open_],
        user.astype(np.int64),
        position[market.server[buys]],
        d / (d + 1 - f),
        work,
    )
    bounds = _bounds(rest, units.least[buys], units.most[buys], floor)
    return _Rest(rest, bounds, parts, servers, users)


def _bounds(market: AmdahlMarket, least: Integers, most: Integers, floors: Floats) -> Bounds:
    """Return the bounds that a market enforces, on cores beyond floors.

    A minimum of one core and a maximum of the whole server are no bounds. Where the minimums on a
    server add up to more than it has, only those of users count that fit into their share of it,
    so that nobody can keep others from theirs.
    """
    lower = np.maximum(np.where(least > 1, least, 0) - floors, 0.0)
    crowded = market.sum_by_server(lower) > market.capacities
    if crowded.any():
        lower[crowded[market.server] & ~_within_share(market, lower)] = 0.0
    capacity = market.capacities[market.server]
    upper = most - floors
    return Bounds(lower, np.where(upper < capacity, upper, np.inf))


def _within_share(market: AmdahlMarket, lower: Floats) -> Bools:
    """Return whether all minimums of a job's user on its server fit into the user's share of it."""
    _, member = np.unique(market.pair, return_inverse=True)
    wanted = np.bincount(member, lower)[member]
    share = market.budgets[market.user] / market.budgets.sum()
    return np.asarray(wanted <= share * market.capacities[market.server] * (1 + ROUNDING), np.bool_)
