"""Satiation: a user stops buying where the rest of its budget would add next to nothing.

At given prices, let v be the utility of the best bundle that a user's budget buys, e what it costs,
and l the marginal utility of money. On average a coin gains v / e, and the last one l. Their ratio,
l e / v, is 1 for a user whose every core helps alike, and 0 for programs of one thread. A user is
sated where its last coin gains less than half of the average one, the more the less it gains:

    v' = v - SPARED max(0, v - 2 l e),   but at least v' = min(v, promise).

It buys the cheapest bundle of utility v', whose cores again have one marginal utility of money, and
the rest of its budget stays unspent. So prices fall, and others buy more for theirs. Whatever it
could buy at the prices that are there, it would gain at most SPARED / (1 - SPARED) of its utility.

- **Entitlements.** Not all money is spent, so a user's part of every node costs at most its budget
  (V-C), and v is at least the utility of its bare entitlement. Where it is the same, v' could be
  SPARED below. Hence the promise, `PROMISED` of that utility.
- **Existence.** v' is a continuous function of prices, and so is demand. Where demand at the lowest
  price, `RESERVE`, does not fill a server, nobody wants more of it, and cores stay unsold.
- **Money that is nearly worth its cores** is all spent: where nobody is sated, prices and cores are
  those of the paper. Giving up a little of what all want alike would only lower all prices.

Between the bounds of jobs, the utility of a bundle is linear in t = 1 / mu = sqrt(l). A job on
x = a mu / q - g cores, where q is the root of their price, does

    w s(x) = w / (1 - f) - a q t.

So the cheapest bundle of a given utility is the root of a sum of clipped lines, as the best is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.numerics.clipped import clipped_root
from walras.numerics.kernel import kernel
from walras.numerics.segments import longest_group, read_only
from walras.speedup.amdahls_law import SPARED

if TYPE_CHECKING:
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Floats, Indices, Integers


class Satiation(NamedTuple):
    """Utilities, weighted by work, that decide when each of n users is sated.

    Attributes:
        promise: Utility below which it is not sated; infinite if it spends its budget in any case.
        base: Utility of its jobs that are no part of the market, as their cores are free.
    """

    promise: Floats
    base: Floats


SMALLEST_FRACTION = 1e-24
"""Stands for f = 0: for its limit f -> 0, in which money still has a best use."""

LARGEST_FRACTION = 1 - 1e-8
"""Stands for a larger f, whose demand is all but a step."""

RESERVE = 1e-9
"""Part of the average price below which no price falls: at this price, cores may stay unsold."""


def reserve_price(market: AmdahlMarket) -> float:
    """Return the price at which cores may stay unsold."""
    return float(RESERVE * market.budgets.sum() / market.capacities.sum())


@kernel
def sated(
    slope: Floats,
    offset: Floats,
    lower: Floats,
    upper: Floats,
    size: int,
    mu: float,
    base: float,
    promise: float,
    loss: Floats,
    most: Floats,
    none: Floats,
) -> float:
    """Return the mu of the cheapest bundle with which a user is sated.

    Args:
        slope: a q of the user's first ``size`` jobs.
        offset: g q**2 of each: the job costs slope mu - offset, within bounds.
        lower: Least cost of each.
        upper: Largest cost of each, which may be infinite.
        size: Number of jobs.
        mu: That of the best bundle that the budget buys.
        base: Utility of jobs that cost nothing.
        promise: Utility below which the user is not sated.
        loss: Working array of at least the size.
        most: Working array of at least the size.
        none: Zeros, of at least the size.
    """
    best, spent = base, 0.0
    for k in range(size):
        cost = min(max(slope[k] * mu - offset[k], lower[k]), upper[k])
        best += slope[k] * slope[k] * cost / (offset[k] * (offset[k] + cost))
        spent += cost
    t = 1.0 / mu
    enough = best - SPARED * max(best - 2.0 * spent * t * t, 0.0)
    spared = best - max(enough, min(promise, best))
    if spared <= 0.0:
        return mu
    # As a loss against what the job does at its upper bound, all lines have positive slopes.
    lost, losable = 0.0, 0.0
    for k in range(size):
        ceiling = slope[k] * slope[k] / offset[k]
        reach = ceiling / (1.0 + offset[k] / upper[k])
        loss[k] = ceiling - reach
        most[k] = reach - ceiling * lower[k] / (offset[k] + lower[k])
        lost += min(max(slope[k] * t - loss[k], 0.0), most[k])
        losable += most[k]
    if lost + spared >= losable:
        least = np.inf
        for k in range(size):
            least = min(least, (lower[k] + offset[k]) / slope[k])
        return least
    return 1.0 / clipped_root(slope, loss, none, most, size, lost + spared, t, 0.0)


def sated_spending(
    market: AmdahlMarket, prices: Floats, lower: Floats, upper: Floats, satiation: Satiation
) -> Floats:
    """Return what each user spends at given prices, shape (n,).

    Args:
        market: Users, servers and jobs.
        prices: Price per core of each server, shape (m,); 0 where all jobs have their most cores.
        lower: Fewest cores of each job, shape (k,).
        upper: Most cores of each job, shape (k,).
        satiation: When users are sated.
    """
    f = np.clip(market.fraction, SMALLEST_FRACTION, LARGEST_FRACTION)
    spends = np.empty(len(market.budgets))
    _spending(
        *market.by_user,
        market.server,
        market.budgets,
        np.sqrt(market.work * f) / (1 - f),
        f / (1 - f),
        read_only(prices),
        read_only(lower),
        read_only(upper),
        *satiation,
        spends,
    )
    return spends


@kernel
def _spending(
    start: Integers,
    order: Indices,
    server: Integers,
    budget: Floats,
    a: Floats,
    g: Floats,
    price: Floats,
    lower: Floats,
    upper: Floats,
    promise: Floats,
    base: Floats,
    spends: Floats,
) -> None:
    """Set what each user ``spends`` at given prices: its budget, or less where it is sated."""
    longest = longest_group(start)
    slope, offset = np.empty(longest), np.empty(longest)
    least, most = np.empty(longest), np.empty(longest)
    loss, losable, none = np.empty(longest), np.empty(longest), np.zeros(longest)
    for i in range(len(budget)):
        size = 0
        free = base[i]
        needed, usable = 0.0, 0.0
        for slot in range(start[i], start[i + 1]):
            k = order[slot]
            p = price[server[k]]
            if p == 0.0:
                free += a[k] * a[k] / (g[k] * (1.0 + g[k] / upper[k]))
                continue
            slope[size] = a[k] * np.sqrt(p)
            offset[size] = g[k] * p
            least[size], most[size] = lower[k] * p, upper[k] * p
            needed += least[size]
            usable += most[size]
            size += 1
        spends[i] = min(max(budget[i], needed), usable)
        if size == 0 or needed >= budget[i]:
            continue
        mu = 0.0
        if usable <= budget[i]:
            for k in range(size):
                mu = max(mu, (most[k] + offset[k]) / slope[k])
        else:
            mu = clipped_root(slope, offset, least, most, size, budget[i], 1.0, 0.0)
        mu = sated(slope, offset, least, most, size, mu, free, promise[i], loss, losable, none)
        spends[i] = 0.0
        for k in range(size):
            spends[i] += min(max(slope[k] * mu - offset[k], least[k]), most[k])
