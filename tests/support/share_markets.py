"""Balanced proportional-share markets, and the populations of the paper's section 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.price_anticipating.market import ShareMarket

if TYPE_CHECKING:
    from numpy.typing import NDArray

MACHINES = 100


def balanced(weights: NDArray[np.float64], parallelism: int | None = None) -> ShareMarket:
    """Return a market with equal budgets and weights of equal sums, as theorems need (sec. 4)."""
    limits = None if parallelism is None else [parallelism] * len(weights)
    return ShareMarket(np.ones(len(weights)), weights / weights.sum(axis=1, keepdims=True), limits)


def population(
    users: int, *, correlated: bool = False, parallelism: int | None = None, seed: int = 1
) -> ShareMarket:
    """Draw a balanced market of 100 machines with uniform or correlated weights (section 7).

    Correlated weights are products of profiles of users and machines over three resources.
    """
    random = np.random.default_rng([seed, users])
    weights = random.random((users, MACHINES))
    if correlated:
        weights = random.random((users, 3)) @ random.random((3, MACHINES))
    return balanced(weights, parallelism)
