"""The rows of the proportional-share study: markets drawn, and solved by each method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.price_anticipating.market import ShareMarket
from walras.price_anticipating.nash import find_nash, weight_proportional
from walras_studies.procedures.share_adjustment import adjust
from walras_studies.procedures.share_metrics import efficiency, envy_freeness, utility_uniformity
from walras_studies.procedures.share_optimum import social_optimum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NASH, WEIGHTS, OPTIMUM = "Nash equilibrium", "weight-proportional", "social optimum"


MACHINES = 100


MOST_ROUNDS = 200
"""The paper's: more indicate that there is no convergence."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A market under a method.

    Attributes:
        preferences: how weights were drawn.
        parallelism: machines that a user can use; 100 are all.
        users: how many there are.
        number: Number of the market.
        method: Method that divides the machines.
        rounds: until nobody gains more than a thousandth; 200 where that was not reached.
        papers_rounds: the same by the paper's criterion, see `papers_tolerance`.
        converged: whether it was.
        efficiency: sum of utilities over the largest.
        uniformity: least utility over the largest.
        envy_freeness: least ratio of what a user has to what it would have with another's shares.
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
    """Local greedy adjustment after so many rounds: how near its welfare is to Nash's."""

    preferences: str
    users: int
    number: int
    rounds: int
    efficiency: float
    of_nash: float
    gap: float


def draw(preferences: str, users: int, limit: int, seed: list[int]) -> ShareMarket:
    """Draw equal budgets, and weights that add up to the same for all (section 7)."""
    random = np.random.default_rng(seed)
    weights = random.random((users, MACHINES))
    if preferences == "correlated":
        weights = random.random((users, 3)) @ random.random((3, MACHINES))
    weights /= weights.sum(axis=1, keepdims=True)
    return ShareMarket(np.ones(users), weights, [limit] * users)


def outcomes_of(
    market: ShareMarket, preferences: str, limit: int, users: int, number: int
) -> Iterator[Outcome]:
    """Yield what comes of a market under each method."""
    nash = find_nash(market, tolerance=1e-3, max_iterations=MOST_ROUNDS)
    paper = nash
    if limit == MACHINES:
        paper = find_nash(market, tolerance=papers_tolerance(users), max_iterations=MOST_ROUNDS)
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
    """Return the paper's criterion as a part of a user's own utility.

    It stops at gains of a thousandth of what all machines are worth to a user; a user has about
    two over the number of users of that at the equilibrium.
    """
    return 1e-3 * users / 2


def adjusting_of(
    market: ShareMarket, preferences: str, users: int, number: int
) -> Iterator[Adjusting]:
    """Yield how far local greedy adjustment has come after some rounds."""
    best = efficiency(market, find_nash(market).shares)
    bids: Floats | None = None
    for rounds in (25, 50, 100):
        found = adjust(market, max_iterations=rounds if bids is None else rounds // 2, start=bids)
        bids = found.bids
        welfare = efficiency(market, market.shares(bids))
        gap = float(found.gaps.max())
        yield Adjusting(preferences, users, number, rounds, welfare, welfare / best, gap)
