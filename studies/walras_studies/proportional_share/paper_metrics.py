"""Metrics of efficiency and fairness of an allocation (section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.price_anticipating.market import sum_of_largest
from walras_studies.proportional_share.optimum import social_optimum

if TYPE_CHECKING:
    from walras.mechanisms.price_anticipating.market import ShareMarket
    from walras.numerics.arrays import Floats


def efficiency(market: ShareMarket, shares: Floats) -> float:
    """Return the sum of utilities relative to the largest of any allocation, U / U*.

    It is meaningful only if the weights of all users have the same sum.
    """
    best = social_optimum(market).welfare
    return float(market.utilities(shares).sum()) / best if best > 0 else 1.0


def utility_uniformity(market: ShareMarket, shares: Floats) -> float:
    """Return tau, the least utility of any user over the largest; 1/m or more at equilibrium."""
    utilities = market.utilities(shares)
    return float(utilities.min() / utilities.max()) if utilities.any() else 1.0


def envy_freeness(market: ShareMarket, shares: Floats) -> float:
    """Return the least ratio, rho, of a user's utility to its utility with another user's shares.

    It is 1 if no user envies another, and at least 2 sqrt 2 - 2 at an equilibrium of users with
    equal budgets and unlimited parallelism (Theorem 5).
    """
    own = market.utilities(shares)
    most = np.zeros(len(own))
    for theirs in shares:
        most = np.maximum(most, sum_of_largest(market.weights * theirs, market.parallelism))
    return float(np.divide(own, most, out=np.ones(len(own)), where=most > 0).min(initial=1.0))
