"""Baselines of Karma: fixed shares, and max-min fairness without a history (section 5).

Arrays have users along their last axis; each row is divided separately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._segments import read_only
from walras.karma._pools import share_out
from walras.karma.shares import Shares, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Integers


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
    wanted = whole("demands", demands, 2)
    users = wanted.shape[1]
    weight = np.ones(users, np.int64) if weights is None else whole("weights", weights, 1, least=1)
    Shares.of(
        users, capacity, weights=weight
    )  # raises KarmaError for numbers that the next line cannot divide
    share, remainder = np.divmod(capacity * weight, max(int(weight.sum()), 1))
    left = capacity - int(share.sum()) if users else 0
    share[np.argsort(-remainder, kind="stable")[:left]] += 1
    return np.minimum(wanted, share).reshape(np.shape(demands))


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
    slices = whole("demands", demands, 2)
    quanta, users = slices.shape
    shares = Shares.of(users, capacity, weights=weights)
    prices = read_only(shares.prices)
    nothing, inverse = np.zeros(users, np.int64), 1 / shares.prices
    np.minimum(slices, capacity, out=slices)
    for t in range(quanta):
        row = slices[t : t + 1]
        share_out(nothing, prices, inverse, row[0].copy(), row, shares.capacities)
    return slices.reshape(np.shape(demands))
