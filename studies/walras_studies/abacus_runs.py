"""The rows of the Abacus study: auctions drawn, repeated, lied in, promised and estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.abacus.auction import Auction, run_auction
from walras.abacus.estimation import estimate_utility
from walras.abacus.slo import run_pool_auction
from walras_studies.procedures.concave_auction import run_concave_auction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

USERS, RESOURCES, ALPHA = 32, 4, 0.5
"""The paper's defaults (7.1.1)."""

TABLE_1 = np.array([[30.0, 20.0], [15.0, 40.0], [60.0, 10.0]])
"""Seconds of map and reduce tasks of three users (table 1)."""

TABLE_2 = np.array(
    [[427, 14], [8, 2], [15, 1], [10, 1], [15, 2], [352, 14], [8, 2], [15, 2], [224, 14], [8, 2]],
    np.float64,
)
"""Map and reduce tasks of ten jobs (table 2)."""

RATIOS = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0)
NOISE = 0.1
"""Relative deviation of a run's utility: an assumption."""

DEADLINES = ("normal, variance 2", "normal, variance 3", "uniform")


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds until no sub-budget moves by a hundredth of a budget, over repeated auctions.

    ``printed`` are those of Algorithm 2 as it is printed, ``ours`` of the solver, which goes most
    of the way to a job's best answer at each turn.
    """

    form: str
    varied: str
    users: int
    resources: int
    alpha: float
    number: int
    method: str
    mean: float
    quantile_95: float
    converged: float


@dataclass(frozen=True, slots=True)
class Spending:
    """Utilities of table 1's three users, as parts of the most, as the third spends more."""

    budget: float
    first: float
    second: float
    third: float


@dataclass(frozen=True, slots=True)
class Reporting:
    """The third user's true utility, over that of the truth, when it reports another ratio."""

    ratio: float
    utility: float


@dataclass(frozen=True, slots=True)
class Balance:
    """Utilities of table 1's three users, as parts of the most, at budgets of 100, 200 and 400."""

    alpha: float
    first: float
    second: float
    third: float


@dataclass(frozen=True, slots=True)
class Promise:
    """Part of all budgets that is earned: by the pool, and by earliest deadlines first."""

    deadlines: str
    rate: float
    number: int
    pool: float
    deadline_first: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A user's ratio of weights as estimated from noisy runs; in truth it is 6."""

    runs: int
    number: int
    ratio: float


class Sums:
    """Linear or logarithmic utilities as functions, for the printed algorithm."""

    def __init__(self, weights: Floats, *, logarithmic: bool) -> None:
        self.weights, self.logarithmic = weights, logarithmic

    def value(self, job: int, shares: Floats) -> float:
        """Return the utility of a job's shares."""
        return float(self.weights[job] @ (np.log(shares) if self.logarithmic else shares))

    def marginal(self, job: int, shares: Floats) -> Floats:
        """Return its derivative by each share."""
        weights: Floats = self.weights[job]
        return weights / shares if self.logarithmic else weights


def draw_auction(
    users: int, resources: int, alpha: float, random: Generator, *, logarithmic: bool
) -> Auction:
    """Draw budgets from U[50, 200] and weights from U[0.5, 2] (7.1.1)."""
    budgets = random.uniform(50, 200, users)
    weights = random.uniform(0.5, 2, (users, resources))
    return Auction(budgets, weights, logarithmic=logarithmic, alpha=alpha)


def rounds(
    varied: str,
    users: int,
    resources: int,
    alpha: float,
    number: int,
    repeats: int,
    seed: list[int],
) -> Iterator[Rounds]:
    """Yield how many rounds auctions of this kind take, in both forms and by both methods."""
    for form in ("linear", "log"):
        random = np.random.default_rng([*seed, users, resources, round(100 * alpha)])
        count: dict[str, list[int]] = {"printed": [], "ours": []}
        done: dict[str, list[bool]] = {"printed": [], "ours": []}
        for _ in range(repeats):
            auction = draw_auction(users, resources, alpha, random, logarithmic=form == "log")
            sums = Sums(auction.weights, logarithmic=form == "log")
            results = {
                "printed": run_concave_auction(
                    auction.budgets,
                    resources,
                    sums,
                    alpha=alpha,
                    tolerance=1e-2,
                    max_iterations=200,
                ),
                "ours": run_auction(auction, tolerance=1e-2, max_iterations=200),
            }
            for method, outcome in results.items():
                count[method].append(outcome.iterations)
                done[method].append(outcome.converged)
        for method, values in count.items():
            yield Rounds(
                form,
                varied,
                users,
                resources,
                alpha,
                number,
                method,
                float(np.mean(values)),
                float(np.quantile(values, 0.95)),
                float(np.mean(done[method])),
            )


def spending() -> Iterator[Spending]:
    """Yield utilities as the third user's budget grows (fig. 9a)."""
    for budget in (50.0, 100.0, 200.0, 400.0, 800.0):
        outcome = run_auction(Auction([200.0, 200.0, budget], TABLE_1))
        parts = outcome.utilities / TABLE_1.sum(axis=1)
        yield Spending(budget, *(float(part) for part in parts))


def balances() -> Iterator[Balance]:
    """Yield utilities by alpha (fig. 9c)."""
    for alpha in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9):
        outcome = run_auction(Auction([100.0, 200.0, 400.0], TABLE_1, alpha=alpha))
        parts = outcome.utilities / TABLE_1.sum(axis=1)
        yield Balance(alpha, *(float(part) for part in parts))


def reporting() -> Iterator[Reporting]:
    """Yield what the third user truly has by what it reports (fig. 9b)."""
    utilities = {}
    for ratio in RATIOS:
        weights = TABLE_1.copy()
        weights[2] = [ratio, 1.0]
        utilities[ratio] = float(run_auction(Auction([200.0] * 3, weights)).shares[2] @ TABLE_1[2])
    for ratio, utility in utilities.items():
        yield Reporting(ratio, utility / utilities[6.0])


def promise(deadlines: str, rate: float, jobs: int, number: int, seed: list[int]) -> Promise:
    """Auction promises among jobs that together need ``rate`` times the system (fig. 14)."""
    random = np.random.default_rng([*seed, DEADLINES.index(deadlines), round(100 * rate), number])
    weights = TABLE_2[random.integers(0, len(TABLE_2), jobs)]
    weights = weights / weights.sum(axis=1, keepdims=True)
    budgets = random.uniform(50, 200, jobs)
    times = _deadlines(deadlines, jobs, random)
    minima = 1 / times
    minima *= rate / minima.sum()
    outcome = run_pool_auction(Auction(budgets, weights), minima, seed=number, tolerance=1e-4)
    total = float(budgets.sum())
    first = _earliest_first(times, minima, budgets)
    return Promise(deadlines, rate, number, float(outcome.charges.sum()) / total, first / total)


def _deadlines(name: str, jobs: int, random: Generator) -> Floats:
    if name == "uniform":
        return random.uniform(500, 1000, jobs)
    variance = 2.0 if name.endswith("2") else 3.0
    return np.maximum(random.normal(5, np.sqrt(variance), jobs), 0.5)


def _earliest_first(times: Floats, minima: Floats, budgets: Floats) -> float:
    """Return what is earned by giving jobs just what they need, earliest deadlines first.

    A job that has the same share of every resource has that much utility, since its weights add
    up to 1.
    """
    order = np.argsort(times, kind="stable")
    left, earned = 1.0, 0.0
    for job in order:
        if minima[job] <= left:
            left -= minima[job]
            earned += budgets[job]
    return earned


def estimate(runs: int, number: int, seed: list[int]) -> Estimate:
    """Estimate the third user's ratio from noisy runs with random shares (7.1.4)."""
    random = np.random.default_rng([*seed, runs, number])
    shares = random.uniform(0.1, 0.9, (runs, 2))
    true = np.array([6.0, 1.0])
    measured = shares @ true * (1 + NOISE * random.standard_normal(runs))
    weights = estimate_utility(shares, np.maximum(measured, 0)).weights
    return Estimate(
        runs, number, float(weights[0] / weights[1]) if weights[1] > 0 else float("inf")
    )
