"""How good and how fair an allocation is (section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.price_anticipating.market import sum_of_largest
from walras.price_anticipating.optimum import social_optimum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras.price_anticipating.market import ShareMarket

    Floats = NDArray[np.float64]


def efficiency(market: ShareMarket, shares: Floats) -> float:
    """Return the sum of utilities over the largest that any allocation has, U / U*.

    Comparable between users only where the weights of each add up to the same.
    """
    best = social_optimum(market).welfare
    return float(market.utilities(shares).sum()) / best if best > 0 else 1.0


def utility_uniformity(market: ShareMarket, shares: Floats) -> float:
    """Return the least utility of any user over the largest, tau; at least 1/m in balance."""
    utilities = market.utilities(shares)
    return float(utilities.min() / utilities.max()) if utilities.any() else 1.0


def envy_freeness(market: ShareMarket, shares: Floats) -> float:
    """Return the least ratio, rho, of what a user has to what it would have with another's shares.

    1 where nobody envies anybody; at least 2 sqrt 2 - 2 at an equilibrium of users with
    equal budgets and unlimited parallelism (Theorem 5).
    """
    own = market.utilities(shares)
    most = np.zeros(len(own))
    for theirs in shares:
        most = np.maximum(most, sum_of_largest(market.weights * theirs, market.parallelism))
    return float(np.divide(own, most, out=np.ones(len(own)), where=most > 0).min(initial=1.0))
