"""Rows of the proportional-share study: drawn markets, solved by each method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.price_anticipating.market import ShareMarket
from walras.mechanisms.price_anticipating.nash import (
    find_share_market_equilibrium,
    weight_proportional,
)
from walras_studies.proportional_share.adjustment_in_turn import adjust
from walras_studies.proportional_share.optimum import social_optimum
from walras_studies.proportional_share.paper_metrics import (
    efficiency,
    envy_freeness,
    utility_uniformity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NASH, WEIGHTS, OPTIMUM = "Nash equilibrium", "weight-proportional", "social optimum"
"""Methods that divide the machines."""

MACHINES = 100
"""Number of machines of a market."""

MOST_ROUNDS = 200
"""Largest number of rounds, as in the paper: more of them indicate that there is no convergence."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a market under one method.

    Attributes:
        preferences: Kind of preferences: uniform or correlated.
        parallelism: Largest number of machines that a user can use; 100 are all.
        users: Number of users.
        number: Number of the market.
        method: Method that divides the machines.
        rounds: Number of rounds until no user can gain more than a thousandth of its utility; 200
            if that is not reached, and 0 for methods without rounds.
        papers_rounds: Number of rounds by the paper's criterion (`papers_tolerance`) if parallelism
            is not limited; otherwise that of ``rounds``.
        converged: Whether ``rounds`` ended by its criterion.
        efficiency: Sum of utilities, relative to the largest possible one.
        uniformity: Ratio of the least utility of a user to the largest.
        envy_freeness: Least ratio of a user's utility to that with another user's shares.
    """

    preferences: str
    parallelism: int
    users: int
    number: int
    method: str
    rounds: int
    papers_rounds: int
    converged: bool
    efficiency: float
    uniformity: float
    envy_freeness: float


@dataclass(frozen=True, slots=True)
class Adjusting:
    """Outcome of local greedy adjustment after a number of rounds.

    Attributes:
        preferences: Kind of preferences: uniform or correlated.
        users: Number of users.
        number: Number of the market.
        rounds: Number of rounds.
        efficiency: Sum of utilities, relative to the largest possible one.
        of_nash: Sum of utilities, relative to that at the Nash equilibrium.
        gap: Largest upper bound on a user's relative gain by other bids.
    """

    preferences: str
    users: int
    number: int
    rounds: int
    efficiency: float
    of_nash: float
    gap: float


def draw(preferences: str, users: int, limit: int, seed: list[int]) -> ShareMarket:
    """Draw a market with equal budgets, and weights with the same sum for every user (section 7).

    Args:
        preferences: Kind of preferences: uniform or correlated.
        users: Number of users.
        limit: Largest number of machines that a user can use.
        seed: Seed of the draw.
    """
    random = np.random.default_rng(seed)
    weights = random.random((users, MACHINES))
    if preferences == "correlated":
        weights = random.random((users, 3)) @ random.random((3, MACHINES))
    weights /= weights.sum(axis=1, keepdims=True)
    return ShareMarket(np.ones(users), weights, [limit] * users)


def outcomes_of(
    market: ShareMarket, preferences: str, limit: int, users: int, number: int
) -> Iterator[Outcome]:
    """Yield the outcome of a market under each method."""
    nash = find_share_market_equilibrium(market, tolerance=1e-3, max_iterations=MOST_ROUNDS)
    paper = nash
    if limit == MACHINES:
        paper = find_share_market_equilibrium(
            market, tolerance=papers_tolerance(users), max_iterations=MOST_ROUNDS
        )
    for method, shares, rounds, papers_rounds, converged in (
        (NASH, nash.shares, nash.iterations, paper.iterations, nash.converged),
        (WEIGHTS, market.shares(weight_proportional(market)), 0, 0, True),
        (OPTIMUM, social_optimum(market).shares, 0, 0, True),
    ):
        yield Outcome(
            preferences,
            limit,
            users,
            number,
            method,
            rounds,
            papers_rounds,
            converged,
            efficiency(market, shares),
            utility_uniformity(market, shares),
            envy_freeness(market, shares),
        )


def papers_tolerance(users: int) -> float:
    """Return the gain at which the paper stops, relative to a user's own utility.

    The paper stops at gains of a thousandth of the utility of all machines. At the equilibrium of
    n users, a user has about 2 / n of that utility.
    """
    return 1e-3 * users / 2


def adjusting_of(
    market: ShareMarket, preferences: str, users: int, number: int
) -> Iterator[Adjusting]:
    """Yield the outcome of local greedy adjustment after 25, 50 and 100 rounds."""
    best = efficiency(market, find_share_market_equilibrium(market).shares)
    bids: Floats | None = None
    for rounds in (25, 50, 100):
        found = adjust(market, max_iterations=rounds if bids is None else rounds // 2, start=bids)
        bids = found.bids
        welfare = efficiency(market, market.shares(bids))
        gap = float(found.gaps.max())
        yield Adjusting(preferences, users, number, rounds, welfare, welfare / best, gap)
