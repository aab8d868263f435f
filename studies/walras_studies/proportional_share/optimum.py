"""The social optimum: the largest total utility, regardless of budgets (Claim 1, Lemma 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras_studies.cooper.assignment import assign

if TYPE_CHECKING:
    from walras.mechanisms.price_anticipating.market import ShareMarket
    from walras.numerics.arrays import Floats, Integers


@dataclass(frozen=True)
class SocialOptimum:
    """The allocation of largest total utility.

    Attributes:
        market: Market that was solved.
        owner: User that gets each whole machine, shape (m,); -1 where no user could use it.
        welfare: Sum of utilities, U*.
        bound: Proven upper bound on any allocation's welfare, by the prices of the matching; equal
            to ``welfare`` up to rounding.
    """

    market: ShareMarket
    owner: Integers
    welfare: float
    bound: float

    @property
    def shares(self) -> Floats:
        """Share of each machine of each user, 1 for its owner and 0 for others, shape (n, m)."""
        return np.asarray(np.equal.outer(np.arange(len(self.market.budgets)), self.owner) * 1.0)


def social_optimum(market: ShareMarket) -> SocialOptimum:
    """Give every machine to the user with the largest weight for it, within users' parallelism.

    Without limits, each machine is assigned on its own (Claim 1). With limits, the result is a
    matching of largest weight in which user i takes up to k_i machines (Lemma 6); machines are
    matched one by one along shortest augmenting paths. These take at most m searches of m n steps
    each, rather than the paper's cube of (sum k_i + n).
    """
    weights = market.weights
    users, machines = weights.shape
    if users == 0 or machines == 0:
        return SocialOptimum(market, np.full(machines, -1, np.int64), 0.0, 0.0)
    if not market.limited:
        welfare = float(weights.max(axis=0).sum())
        return SocialOptimum(market, weights.argmax(axis=0), welfare, welfare)
    # One more user, with weight 0 for all machines, takes those that the others cannot use.
    places = np.append(market.parallelism, machines)
    worth = np.vstack([weights, np.zeros(machines)])
    owner = np.full(machines, -1, np.int64)
    machine_price, place_price = np.empty(machines), np.empty(users + 1)
    assign(worth, places, owner, machine_price, place_price)
    welfare = float(worth[owner, np.arange(machines)].sum())
    bound = float(machine_price.sum() + places @ place_price)
    return SocialOptimum(market, np.where(owner == users, -1, owner), welfare, bound)
