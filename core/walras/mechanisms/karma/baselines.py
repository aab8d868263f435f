"""Baselines of Karma: fixed shares, and max-min fairness without a history (section 5).

Arrays have users along their last axis; each row is divided separately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.karma._pools import share_out
from walras.mechanisms.karma.ledger import KarmaError
from walras.mechanisms.karma.shares import Shares, proportion, whole
from walras.numerics.checks import check_whole
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Integers

MOST_PAID = 2.0**62
"""Bound on the price of all slices that a user wants, for which the kernel's integers suffice."""


def share_strictly(demands: ArrayLike, capacity: int, weights: ArrayLike | None = None) -> Integers:
    """Return the slices that users use of fixed shares by weight: strict partitioning.

    Shares are rounded by largest remainder, equal remainders in the order of users.

    Args:
        demands: Whole slices that users want, shape (n,) or (quanta, n).
        capacity: Slices to divide.
        weights: Positive integers, one for each user; all equal if not given.

    Raises:
        KarmaError: A number is out of range (`Shares.of`).
    """
    check_whole("capacity", capacity, 0, KarmaError)
    wanted = whole("demands", demands, 2)
    users = wanted.shape[1]
    weight = np.ones(users, np.int64) if weights is None else whole("weights", weights, 1, least=1)
    pools = Shares.of(users, capacity, weights=weight).capacities
    shares, remainders = proportion(pools, weight, max(int(weight.sum()), 1))
    share, remainder = shares[0], remainders[0]
    left = capacity - int(share.sum()) if users else 0
    share[np.argsort(-remainder, kind="stable")[:left]] += 1
    used: Integers = np.minimum(wanted, share)
    return used.reshape(np.shape(demands))


def share_max_min(demands: ArrayLike, capacity: int, weights: ArrayLike | None = None) -> Integers:
    """Return the max-min fair slices of each quantum separately: periodic max-min (section 2).

    Each slice goes to the user that has least in proportion to its weight and wants more, the
    earlier of equals. This is Karma without guarantees and with a new ledger every quantum.

    Args:
        demands: Whole slices that users want, shape (n,) or (quanta, n).
        capacity: Slices in every quantum.
        weights: Positive integers, one for each user; all equal if not given.

    Raises:
        KarmaError: A number is out of range (`Shares.of`).
    """
    check_whole("capacity", capacity, 0, KarmaError)
    slices = whole("demands", demands, 2)
    quanta, users = slices.shape
    shares = Shares.of(users, capacity, weights=weights)
    prices = read_only(shares.prices)
    nothing, inverse = np.zeros(users, np.int64), 1 / shares.prices
    np.minimum(slices, capacity, out=slices)
    for t in range(quanta):
        row = slices[t : t + 1]
        if (row * prices.astype(np.float64)).max(initial=0.0) < MOST_PAID:
            share_out(nothing, prices, inverse, row[0].copy(), row, shares.capacities)
        else:
            row[0] = _share_by_bisection(row[0].tolist(), capacity, prices.tolist())
    return slices.reshape(np.shape(demands))


def _share_by_bisection(wanted: list[int], capacity: int, prices: list[int]) -> list[int]:
    """Return what `share_out` hands out, for prices of all slices that do not fit into 64 bits.

    A user's slices have the keys 0, price, 2 price and so on; the smallest keys are served.
    """

    def served(key: int) -> list[int]:
        """Return the slices of each user with keys of at most ``key``."""
        return [min(each, key // price + 1) for each, price in zip(wanted, prices, strict=True)]

    low, high = -1, max(each * price for each, price in zip(wanted, prices, strict=True))
    if sum(wanted) <= capacity:
        return wanted
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sum(served(middle)) <= capacity else (low, middle)
    slices, beyond = served(low), served(high)
    left = capacity - sum(slices)
    for u in range(len(wanted)):
        if slices[u] < beyond[u] and left > 0:
            slices[u], left = slices[u] + 1, left - 1
    return slices
