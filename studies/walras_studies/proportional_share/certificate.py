"""Gains, and proven bounds on them, of users of the proportional-share market by other bids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.price_anticipating._response import leave_out, respond_within
from walras.mechanisms.price_anticipating.market import sum_of_largest
from walras.mechanisms.price_anticipating.nash import NashEquilibrium, checked_bids, respond_all

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.mechanisms.price_anticipating.market import ShareMarket
    from walras.numerics.arrays import Floats


def certify(market: ShareMarket, bids: ArrayLike, *, tolerance: float = 1e-3) -> NashEquilibrium:
    """Return given ``bids``, shape (n, m), with each user's gain by its best response to them."""
    given = checked_bids(market, bids)
    gains = np.zeros(len(given))
    respond_all(market, given, np.full(len(given), np.inf), gains, step=0.0)
    return NashEquilibrium(market, given, "given bids", 0, gains, tolerance)


def best_response(market: ShareMarket, bids: Floats, user: int) -> Floats:
    """Return one user's best bids while all others keep theirs, shape (m,) (6.1.1 and 6.2)."""
    others = market.against(bids, user)
    answer = np.empty(len(others))
    limit = market.parallelism[user]
    respond_within(market.roots[user], others, market.budgets[user], limit, np.inf, answer)
    return answer


def proven_gains(found: NashEquilibrium) -> Floats:
    """Return a proven upper bound on ``found.gains`` for any set of machines, shape (n,).

    For any price lambda of money, a user gets at most lambda X plus the k_i largest of
    max_x (w x / (x + y) - lambda x) = max(0, sqrt(w) - sqrt(lambda y))**2. Here lambda is that
    of the best response found. Where parallelism is not limited the bound is the gain itself,
    up to rounding; where it is limited, it proves most of what the local search finds.
    """
    market = found.market
    others = np.empty_like(found.bids)
    price_of_money = np.empty(len(market.budgets))
    answer = np.empty(len(market.reserve))
    for i, limit in enumerate(market.parallelism):
        leave_out(found.bids, found.prices, market.reserve, i, others[i])
        mu, _ = respond_within(market.roots[i], others[i], market.budgets[i], limit, np.inf, answer)
        price_of_money[i] = mu**-2
    surplus = np.maximum(0, market.roots - np.sqrt(price_of_money[:, None] * others)) ** 2
    most = sum_of_largest(surplus, market.parallelism) + price_of_money * market.budgets
    endless = np.full(len(most), np.inf)
    some = found.utilities > 0
    return np.asarray(np.divide(most, found.utilities, out=endless, where=some) - 1)
