"""The rows of the study of lies: what a user truly has after one, over what the truth gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras import metrics
from walras.abacus.auction import Auction, run_auction
from walras.amdahl.best_response import find_nash_equilibrium
from walras.amdahl.equilibrium import find_equilibrium
from walras.amdahl.market import AmdahlMarket
from walras.amdahl.upper_bound import allocate_greedily, maximise_progress, share_proportionally
from walras.karma.baselines import share_max_min, share_strictly
from walras.price_anticipating.market import ShareMarket
from walras.price_anticipating.nash import find_nash
from walras_studies.amdahl_populations import FRACTIONS
from walras_studies.karma_demands import FAIR_SHARE, draw_demands
from walras_studies.karma_runs import by_credits
from walras_studies.procedures.karma_metrics import useful

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Slices = NDArray[np.int64]

SERVERS, JOBS_OF_USER, CORES_OF_JOB = 8, 4, 3

DIVISIONS: dict[str, Callable[[AmdahlMarket], Floats]] = {
    "Amdahl market": lambda market: find_equilibrium(market).cores,
    "best response": lambda market: find_nash_equilibrium(market).cores,
    "proportional sharing": share_proportionally,
    "greedy": lambda market: allocate_greedily(market).cores,
    "upper bound": lambda market: maximise_progress(market).cores,
}

FRACTION_LIES = {
    f"{jobs}: odds {told}": (factor, jobs == "one job")
    for jobs in ("all jobs", "one job")
    for told, factor in (("x 4", 4.0), ("x 1.2", 1.2), ("/ 1.2", 1 / 1.2), ("/ 4", 0.25))
}
"""Factors of the odds f / (1 - f), and whether for one job only."""

WEIGHT_FACTORS = (4.0, 1.2, 1 / 1.2, 1 / 4)
"""Factors of the weight of the first resource."""

RESOURCES = 4

BUDGET_LIES = {"budget x 2": 2.0, "budget / 2": 0.5}

DEMAND_LIES: dict[str, Callable[[Slices], Slices]] = {
    "at least the fair share": lambda wanted: np.maximum(wanted, FAIR_SHARE),
    "twice the demand": lambda wanted: 2 * wanted,
    "half the demand": lambda wanted: (wanted + 1) // 2,
}


@dataclass(frozen=True, slots=True)
class Lie:
    """A row about the gain of a lie.

    Attributes:
        about: F, budget, weights or demand.
        mechanism: lied to.
        users: how many there are, one of whom lies.
        number: Number of the population.
        liar: Number of the user who lies.
        lie: Name of the lie.
        gain: relative gain of what it truly has, utility or slices of use; relative to what its
            entitlement is worth where the truth leaves it less than that.
    """

    about: str
    mechanism: str
    users: int
    number: int
    liar: int
    lie: str
    gain: float


def draw_market(users: int, random: Generator) -> AmdahlMarket:
    """Draw a market that grows in depth: eight servers, whatever the number of users."""
    jobs = users * JOBS_OF_USER
    server = np.concatenate(
        [random.permutation(SERVERS)[:JOBS_OF_USER] for _ in range(users)]
    ).astype(np.int64)
    cores = max(1, round(jobs * CORES_OF_JOB / SERVERS))
    return AmdahlMarket(
        random.integers(1, 6, users),
        np.full(SERVERS, cores),
        np.repeat(np.arange(users), JOBS_OF_USER),
        server,
        random.choice(FRACTIONS, jobs),
    )


def about_cores(users: int, number: int, liars: int, seed: list[int]) -> Iterator[Lie]:
    """Yield what lies about F and about budgets gain under each division of cores."""
    random = np.random.default_rng([*seed, users, number])
    market = draw_market(users, random)
    bare = metrics.user_progress(market, metrics.bare_entitlement(market))
    for mechanism, divide in DIVISIONS.items():
        honest = metrics.user_progress(market, divide(market))
        for liar in range(min(liars, users)):
            for about, lie, told in _told(market, liar):
                has = metrics.user_progress(market, divide(told))[liar]
                gain = float((has - honest[liar]) / max(honest[liar], bare[liar]))
                yield Lie(about, mechanism, users, number, liar, lie, gain)


def _told(market: AmdahlMarket, liar: int) -> Iterator[tuple[str, str, AmdahlMarket]]:
    mine = np.flatnonzero(market.user == liar)
    for lie, (factor, single) in FRACTION_LIES.items():
        chosen = mine[:1] if single else mine
        fraction = market.fraction.copy()
        odds = factor * fraction[chosen] / (1 - fraction[chosen])
        fraction[chosen] = odds / (1 + odds)
        yield "F", lie, _with(market, market.budgets, fraction)
    for lie, factor in BUDGET_LIES.items():
        budgets = market.budgets.copy()
        budgets[liar] *= factor
        yield "budget", lie, _with(market, budgets, market.fraction)


def _with(market: AmdahlMarket, budgets: Floats, fraction: Floats) -> AmdahlMarket:
    return AmdahlMarket(budgets, market.capacities, market.user, market.server, fraction)


def about_weights(users: int, number: int, liars: int, seed: list[int]) -> Iterator[Lie]:
    """Yield what lies about the worth of resources gain where users have linear utilities."""
    random = np.random.default_rng([*seed, users, number])
    budgets = random.uniform(50, 200, users)
    weights = random.uniform(0.5, 2, (users, RESOURCES))
    divisions: dict[str, Callable[[Floats], Floats]] = {
        "auction": lambda told: run_auction(Auction(budgets, told)).shares,
        "price-anticipating": lambda told: (
            find_nash(ShareMarket(budgets, told), tolerance=1e-6).shares
        ),
    }
    for mechanism, divide in divisions.items():
        honest = (weights * divide(weights)).sum(axis=1)
        for liar in range(min(liars, users)):
            for factor in WEIGHT_FACTORS:
                told = weights.copy()
                told[liar, 0] *= factor
                gain = float(weights[liar] @ divide(told)[liar] / honest[liar] - 1)
                yield Lie("weights", mechanism, users, number, liar, f"first x {factor:.3g}", gain)


def about_demands(
    users: int, quanta: int, number: int, liars: int, seed: list[int]
) -> Iterator[Lie]:
    """Yield what lies about demands gain under each division of memory."""
    demands = draw_demands(users, quanta, np.random.default_rng([*seed, users, number]))
    capacity = users * FAIR_SHARE
    divisions: dict[str, Callable[[Slices], Slices]] = {
        "Karma": by_credits,
        "max-min": lambda told: share_max_min(told, capacity),
        "strict": lambda told: share_strictly(told, capacity),
    }
    for mechanism, divide in divisions.items():
        honest = useful(divide(demands), demands)
        for liar in np.flatnonzero(honest)[:liars].tolist():
            for lie, tell in DEMAND_LIES.items():
                told = demands.copy()
                told[:, liar] = tell(demands[:, liar])
                has = useful(divide(told), demands)[liar]
                gain = float(has / honest[liar] - 1)
                yield Lie("demand", mechanism, users, number, liar, lie, gain)
