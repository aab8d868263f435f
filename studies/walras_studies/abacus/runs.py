"""Rows of the Abacus study: rounds of auctions, lies, deadlines, and estimates of utilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.abacus.auction import Auction, run_auction
from walras.mechanisms.abacus.estimation import estimate_utility
from walras_studies.abacus.concave_auction import run_concave_auction
from walras_studies.abacus.pool_auction import run_pool_auction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

USERS, RESOURCES, ALPHA = 32, 4, 0.5
"""Numbers of users and resources, and exponent of bids, where they are not varied (7.1.1)."""

TABLE_1 = np.array([[30.0, 20.0], [15.0, 40.0], [60.0, 10.0]])
"""Seconds of map and reduce tasks of three users (table 1), which are the weights of their linear
utilities, shape (users, resources)."""

TABLE_2 = np.array(
    [[427, 14], [8, 2], [15, 1], [10, 1], [15, 2], [352, 14], [8, 2], [15, 2], [224, 14], [8, 2]],
    np.float64,
)
"""Numbers of map and reduce tasks of ten jobs (table 2), shape (jobs, resources)."""

RATIOS = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0)
"""Ratios of its two weights that the third user of table 1 reports; the true one is 6."""

NOISE = 0.1
"""Relative standard deviation of a run's utility, which is an assumption."""

DEADLINES = ("normal, variance 2", "normal, variance 3", "uniform")
"""Distributions of deadlines."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds until no sub-budget moves by a hundredth of its budget, in repeated auctions.

    Attributes:
        form: Form of utilities: linear or log.
        varied: Name of the varied parameter: users, resources or alpha.
        users: Number of users.
        resources: Number of resources.
        alpha: Exponent of bids.
        number: Number of the draw.
        method: ``printed`` for the paper's Algorithm 2 with its index corrected; ``ours`` for
            `run_auction`, where each turn goes most of the way to the job's best sub-budgets.
        mean: Mean number of rounds.
        quantile_95: 95 % quantile of the number of rounds.
        converged: Part of the auctions that converged.
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
    """Utilities of the three users of table 1, for one budget of the third.

    Attributes:
        budget: Budget of the third user; the other two have 200 each.
        first: Utility of the first user, as a part of that with all resources.
        second: The same of the second user.
        third: The same of the third user.
    """

    budget: float
    first: float
    second: float
    third: float


@dataclass(frozen=True, slots=True)
class Reporting:
    """True utility of the third user of table 1, for one ratio of weights that it reports.

    Attributes:
        ratio: Reported ratio of the weights of map and reduce tasks; the true one is 6.
        utility: True utility, relative to that when it reports the truth.
    """

    ratio: float
    utility: float


@dataclass(frozen=True, slots=True)
class Balance:
    """Utilities of the three users of table 1 with budgets of 100, 200 and 400, for one alpha.

    Attributes:
        alpha: Exponent of bids.
        first: Utility of the first user, as a part of that with all resources.
        second: The same of the second user.
        third: The same of the third user.
    """

    alpha: float
    first: float
    second: float
    third: float


@dataclass(frozen=True, slots=True)
class Promise:
    """Earnings from jobs with deadlines.

    Attributes:
        deadlines: Distribution of the deadlines, of `DEADLINES`.
        rate: Work that the jobs need, relative to the system's capacity.
        number: Number of the draw.
        pool: Part of all budgets that the auction in the prolific pool earns.
        deadline_first: Part of all budgets that a scheduler earns which serves the earliest
            deadlines first.
    """

    deadlines: str
    rate: float
    number: int
    pool: float
    deadline_first: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """Ratio of a user's weights, estimated from noisy runs.

    Attributes:
        runs: Number of runs.
        number: Number of the draw.
        ratio: Estimated ratio; the true one is 6.
    """

    runs: int
    number: int
    ratio: float


class Sums:
    """Linear or logarithmic utilities as functions, which `run_concave_auction` needs."""

    def __init__(self, weights: Floats, *, logarithmic: bool) -> None:
        self.weights, self.logarithmic = weights, logarithmic

    def value(self, job: int, shares: Floats) -> float:
        """Return the utility of a job for its ``shares``, shape (m,)."""
        return float(self.weights[job] @ (np.log(shares) if self.logarithmic else shares))

    def marginal(self, job: int, shares: Floats) -> Floats:
        """Return the derivatives of a job's utility by each share, shape (m,)."""
        weights: Floats = self.weights[job]
        return weights / shares if self.logarithmic else weights


def draw_auction(
    users: int, resources: int, alpha: float, random: Generator, *, logarithmic: bool
) -> Auction:
    """Draw an auction with budgets from U[50, 200] and weights from U[0.5, 2] (7.1.1)."""
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
    """Yield the rounds that drawn auctions take, for both forms of utilities and both methods."""
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
    """Yield the users' utilities for growing budgets of the third user (fig. 9a)."""
    for budget in (50.0, 100.0, 200.0, 400.0, 800.0):
        outcome = run_auction(Auction([200.0, 200.0, budget], TABLE_1))
        parts = outcome.utilities / TABLE_1.sum(axis=1)
        yield Spending(budget, *(float(part) for part in parts))


def balances() -> Iterator[Balance]:
    """Yield the users' utilities for growing alpha (fig. 9c)."""
    for alpha in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9):
        outcome = run_auction(Auction([100.0, 200.0, 400.0], TABLE_1, alpha=alpha))
        parts = outcome.utilities / TABLE_1.sum(axis=1)
        yield Balance(alpha, *(float(part) for part in parts))


def reporting() -> Iterator[Reporting]:
    """Yield the third user's true utility for each ratio that it reports (fig. 9b)."""
    utilities = {}
    for ratio in RATIOS:
        weights = TABLE_1.copy()
        weights[2] = [ratio, 1.0]
        utilities[ratio] = float(run_auction(Auction([200.0] * 3, weights)).shares[2] @ TABLE_1[2])
    for ratio, utility in utilities.items():
        yield Reporting(ratio, utility / utilities[6.0])


def promise(deadlines: str, rate: float, jobs: int, number: int, seed: list[int]) -> Promise:
    """Return what is earned from drawn jobs with deadlines (fig. 14).

    Together, the jobs need ``rate`` times the capacity of the system.
    """
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
    """Return what is earned if jobs get exactly what they need, earliest deadlines first.

    A job with a share s of every resource has the utility s, since its weights add up to 1.
    """
    order = np.argsort(times, kind="stable")
    left, earned = 1.0, 0.0
    for job in order:
        if minima[job] <= left:
            left -= minima[job]
            earned += budgets[job]
    return earned


def estimate(runs: int, number: int, seed: list[int]) -> Estimate:
    """Estimate the ratio of the third user's weights from noisy runs with random shares (7.1.4)."""
    random = np.random.default_rng([*seed, runs, number])
    shares = random.uniform(0.1, 0.9, (runs, 2))
    true = np.array([6.0, 1.0])
    measured = shares @ true * (1 + NOISE * random.standard_normal(runs))
    weights = estimate_utility(shares, np.maximum(measured, 0)).weights
    return Estimate(
        runs, number, float(weights[0] / weights[1]) if weights[1] > 0 else float("inf")
    )
