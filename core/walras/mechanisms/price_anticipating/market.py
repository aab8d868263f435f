"""The proportional-share market as arrays: users with budgets, machines, and weights between."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.checks import check_finite, refuse, refuse_zero_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, Integers

DEFAULT_RESERVE = 1e-12
"""Standing bid on a machine, as a part of the poorest user's even bid on every machine."""


class ShareMarketError(ValueError):
    """Invalid numbers of a market; the message names the array and its first bad entry."""


@dataclass(frozen=True)
class ShareMarket:
    """Users' budgets, and the weights of machines in their utilities (section 2).

    User i bids x_ij on machine j and receives the share r_ij = x_ij / Y_j, where Y_j is the sum of
    all bids and of the machine's reserve. The user's utility is the sum of the ``parallelism``
    largest w_ij r_ij. All users know how bids move prices, and so anticipate it.

    The reserve is a standing bid by the machine itself. Without one, a machine that a single user
    bids on has no best bid, since any smaller one wins it too (section 2); the paper proves that
    equilibria exist by letting it go to 0 (Theorem 1). The default takes a millionth of a machine
    from a user who has it alone, and a negligible part from users who compete.

    Attributes:
        budgets: Budget of each user, positive, shape (n,); users spend all of it.
        weights: Weight of each machine for each user, not negative, some positive, shape (n, m).
        parallelism: Most machines that each user can use (k_i), at least 1, shape (n,); or all.
        reserve: Standing bid on each machine, positive, in units of the budgets, shape (m,).

    Raises:
        ShareMarketError: An array has the wrong shape, or an entry is outside its range.
    """

    budgets: Floats
    weights: Floats
    parallelism: Integers
    reserve: Floats

    def __init__(
        self,
        budgets: ArrayLike,
        weights: ArrayLike,
        parallelism: ArrayLike | None = None,
        reserve: ArrayLike | None = None,
    ) -> None:
        error = ShareMarketError
        checked_budgets = check_finite("budgets", budgets, (None,), error)
        refuse("budgets", checked_budgets, ~(checked_budgets > 0), "is not positive", error)
        checked_weights = check_finite("weights", weights, (len(checked_budgets), None), error)
        refuse("weights", checked_weights, checked_weights < 0, "is negative", error)
        refuse_zero_rows(checked_weights, "user", error)
        users, machines = checked_weights.shape
        if reserve is None:
            least = checked_budgets.min() if users else 1.0
            reserve = np.full(machines, DEFAULT_RESERVE * least / max(machines, 1))
        checked_reserve = check_finite("reserve", reserve, (machines,), error)
        refuse("reserve", checked_reserve, ~(checked_reserve > 0), "is not positive", error)
        object.__setattr__(self, "budgets", checked_budgets)
        object.__setattr__(self, "weights", checked_weights)
        object.__setattr__(self, "parallelism", _checked_parallelism(parallelism, users, machines))
        object.__setattr__(self, "reserve", checked_reserve)

    @cached_property
    def roots(self) -> Floats:
        """Square roots of the weights, in which best responses are linear, shape (n, m)."""
        return np.asarray(np.sqrt(self.weights))

    @property
    def limited(self) -> bool:
        """Whether some user can use fewer machines than there are."""
        return bool((self.parallelism < self.weights.shape[1]).any())

    def against(self, bids: Floats, user: int) -> Floats:
        """Return the sum of all other users' ``bids`` and the reserve, shape (m,)."""
        return np.asarray(self.reserve + np.delete(bids, user, axis=0).sum(axis=0))

    def shares(self, bids: Floats) -> Floats:
        """Return the share of each machine that each user's bid buys, shape (n, m)."""
        prices = self.reserve + bids.sum(axis=0)
        return np.asarray(bids / prices, dtype=np.float64)

    def utilities(self, shares: Floats) -> Floats:
        """Return each user's utility, the sum of its k_i largest w_ij r_ij, shape (n,)."""
        return sum_of_largest(self.weights * shares, self.parallelism)


def sum_of_largest(values: Floats, counts: Integers) -> Floats:
    """Return the sum of the largest entries of each row, as many as ``counts`` says."""
    columns = values.shape[1]
    if (counts >= columns).all():
        return np.asarray(values.sum(axis=1))
    largest_first = -np.sort(-values, axis=1)
    return np.asarray(np.where(np.arange(columns) < counts[:, None], largest_first, 0).sum(axis=1))


def _checked_parallelism(given: ArrayLike | None, users: int, machines: int) -> Integers:
    """Return the most machines of each user, at most all, if they are valid."""
    limits = np.full(users, machines) if given is None else np.array(given)
    if limits.shape != (users,) or (users and limits.dtype.kind not in "iu"):
        raise ShareMarketError(f"parallelism must be {users} integers, one per user")
    refuse("parallelism", limits, limits < 1, "is below 1", ShareMarketError)
    within = np.asarray(np.minimum(limits, machines), dtype=np.int64)
    within.flags.writeable = False
    return within
