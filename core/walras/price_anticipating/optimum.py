"""The social optimum: who should have which machine, budgets aside (Claim 1, Lemma 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.price_anticipating._assignment import assign

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras.price_anticipating.market import ShareMarket

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SocialOptimum:
    """The allocation of largest total utility.

    Attributes:
        market: the market.
        owner: shape (m,), the user who gets the whole machine, -1 where no user could use it.
        welfare: the sum of utilities, U*.
        bound: what no allocation can exceed, by the prices of the matching; equal to ``welfare``
            up to rounding, which proves it.
    """

    market: ShareMarket
    owner: NDArray[np.int64]
    welfare: float
    bound: float

    @property
    def shares(self) -> Floats:
        """Shape (n, m): 1 for the owner of a machine, 0 for all others."""
        return np.asarray(np.equal.outer(np.arange(len(self.market.budgets)), self.owner) * 1.0)


def social_optimum(market: ShareMarket) -> SocialOptimum:
    """Give every machine to the user it is worth most to, within the users' parallelism.

    Without limits each machine on its own (Claim 1). With limits a matching of largest weight in
    which user i takes up to k_i machines (Lemma 6), machine by machine along shortest augmenting
    paths: at most m searches of m n steps each, in place of the paper's cube of (sum k_i + n).
    """
    weights = market.weights
    users, machines = weights.shape
    if users == 0 or machines == 0:
        return SocialOptimum(market, np.full(machines, -1, np.int64), 0.0, 0.0)
    if not market.limited:
        welfare = float(weights.max(axis=0).sum())
        return SocialOptimum(market, weights.argmax(axis=0), welfare, welfare)
    # One more user, whom no machine is worth anything to, takes what the others cannot use.
    places = np.append(market.parallelism, machines)
    worth = np.vstack([weights, np.zeros(machines)])
    owner = np.full(machines, -1, np.int64)
    machine_price, place_price = np.empty(machines), np.empty(users + 1)
    assign(worth, places, owner, machine_price, place_price)
    welfare = float(worth[owner, np.arange(machines)].sum())
    bound = float(machine_price.sum() + places @ place_price)
    return SocialOptimum(market, np.where(owner == users, -1, owner), welfare, bound)
