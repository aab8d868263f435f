"""The proportional-share market as arrays: users with budgets, machines, and weights between."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.price_anticipating._checks import numbers, refuse, refuse_idle

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

DEFAULT_RESERVE = 1e-12
"""Standing bid on a machine, as a part of what the poorest user could bid on each."""


class ShareMarketError(ValueError):
    """A market whose numbers make no sense; the message names the array and the first bad entry."""


@dataclass(frozen=True)
class ShareMarket:
    """Who bids for which machine, and what a machine is worth to whom (section 2).

    User i bids x_ij on machine j and receives the share r_ij = x_ij / Y_j, where Y_j is the sum of
    all bids and of the machine's reserve. The user's utility is the sum of the ``parallelism``
    largest w_ij r_ij. Everyone knows how a bid moves the price, and so anticipates it.

    The reserve is a standing bid by the machine itself. Without one, a machine that a single user
    bids on has no best bid, since any smaller one wins it too (section 2); the paper proves that
    equilibria exist by letting it go to 0 (Theorem 1). The default takes a millionth of a machine
    from a user who has it alone, and nothing that could be seen from users who compete.

    Attributes:
        budgets: shape (n,), positive; users spend all of them.
        weights: shape (n, m), not negative, and some of each user's positive.
        parallelism: shape (n,), how many machines a user can use at most (k_i), at least 1;
            as many as there are if not given.
        reserve: shape (m,), positive, in units of the budgets.

    Raises:
        ShareMarketError: an array has the wrong shape, or an entry outside its range.
    """

    budgets: Floats
    weights: Floats
    parallelism: NDArray[np.int64]
    reserve: Floats

    def __init__(
        self,
        budgets: ArrayLike,
        weights: ArrayLike,
        parallelism: ArrayLike | None = None,
        reserve: ArrayLike | None = None,
    ) -> None:
        error = ShareMarketError
        money = numbers("budgets", budgets, (None,), error)
        refuse("budgets", money, ~(money > 0), "is not positive", error)
        worth = numbers("weights", weights, (len(money), None), error)
        refuse("weights", worth, worth < 0, "is negative", error)
        refuse_idle(worth, "user", error)
        users, machines = worth.shape
        if reserve is None:
            least = money.min() if users else 1.0
            reserve = np.full(machines, DEFAULT_RESERVE * least / max(machines, 1))
        standing = numbers("reserve", reserve, (machines,), error)
        refuse("reserve", standing, ~(standing > 0), "is not positive", error)
        object.__setattr__(self, "budgets", money)
        object.__setattr__(self, "weights", worth)
        object.__setattr__(self, "parallelism", _limits(parallelism, users, machines))
        object.__setattr__(self, "reserve", standing)

    @cached_property
    def roots(self) -> Floats:
        """Shape (n, m), the square roots of the weights, in which best responses are linear."""
        return np.asarray(np.sqrt(self.weights))

    @property
    def limited(self) -> bool:
        """Whether some user can use fewer machines than there are."""
        return bool((self.parallelism < self.weights.shape[1]).any())

    def against(self, bids: Floats, user: int) -> Floats:
        """Return what one user bids against: all others' ``bids`` and the reserve, shape (m,)."""
        return np.asarray(self.reserve + np.delete(bids, user, axis=0).sum(axis=0))

    def shares(self, bids: Floats) -> Floats:
        """Return the share of each machine that each user's bid buys, shape (n, m)."""
        prices = self.reserve + bids.sum(axis=0)
        return np.asarray(bids / prices, dtype=np.float64)

    def utilities(self, shares: Floats) -> Floats:
        """Return each user's utility, shape (n,): the sum of its k_i largest w_ij r_ij."""
        return sum_of_largest(self.weights * shares, self.parallelism)


def sum_of_largest(values: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return for each row of ``values`` the sum of as many of its largest entries as ``counts``."""
    columns = values.shape[1]
    if (counts >= columns).all():
        return np.asarray(values.sum(axis=1))
    largest_first = -np.sort(-values, axis=1)
    return np.asarray(np.where(np.arange(columns) < counts[:, None], largest_first, 0).sum(axis=1))


def _limits(given: ArrayLike | None, users: int, machines: int) -> NDArray[np.int64]:
    limits = np.full(users, machines) if given is None else np.array(given)
    if limits.shape != (users,) or (users and limits.dtype.kind not in "iu"):
        raise ShareMarketError(f"parallelism must be {users} integers, one a user")
    refuse("parallelism", limits, limits < 1, "is below 1", ShareMarketError)
    within = np.asarray(np.minimum(limits, machines), dtype=np.int64)
    within.flags.writeable = False
    return within
