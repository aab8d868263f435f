"""The equilibrium of the Amdahl market within bounds, with the residual that certifies it.

Without bounds, the error of every price can be proven (`walras_studies.amdahl.without_bounds`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl._bounded import solve_bounded
from walras.mechanisms.amdahl.conditions import kkt_residual
from walras.mechanisms.amdahl.market import (
    AmdahlMarket,
    MarketError,
    check_bounds,
    check_room,
)
from walras.mechanisms.amdahl.metrics import bare_entitlement, user_progress
from walras.mechanisms.amdahl.satiation import (
    LARGEST_FRACTION,
    SMALLEST_FRACTION,
    Satiation,
)
from walras.numerics.checks import check_kind, check_positive, check_whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats

SMOOTHER_FRACTIONS = (1 - 1e-2, 1 - 1e-3, 1 - 1e-4, 1 - 1e-6)
"""Caps on f in successive stages, each of which starts from the prices of the last."""


@dataclass(frozen=True)
class Equilibrium:
    """Prices and cores that a solver of the Amdahl market found.

    Attributes:
        prices: Price per core of each server, in units of the budgets, shape (m,); 0 on a server
            without jobs, and on one with enough cores for all its jobs' maximums.
        cores: Cores of each job, real numbers, shape (k,); they add up to the capacity of each
            server with a price.
        iterations: Passes over the market, Newton steps included.
        minimum: Minimums of cores that hold, shape (k,); None if none was given.
        maximum: Maximums of cores, shape (k,); None if none was given.
        affordable: Whether each user's minimums hold, shape (n,); None if none was given.
        known_residual: Residual, if the solver has computed it.
        promise: Work below which each user is not sated, shape (n,); None if all spend their
            budgets in any case.
    """

    market: AmdahlMarket
    prices: Floats
    cores: Floats
    solver: str
    iterations: int
    tolerance: float
    minimum: Floats | None = None
    maximum: Floats | None = None
    affordable: Bools | None = None
    known_residual: float | None = None
    promise: Floats | None = None

    @cached_property
    def residual(self) -> float:
        """Largest relative violation of an equilibrium condition; see `kkt_residual`."""
        if self.known_residual is not None:
            return self.known_residual
        satiation = None
        if self.promise is not None:
            satiation = Satiation(self.promise, np.zeros(len(self.promise)))
        return kkt_residual(
            self.market,
            self.prices,
            self.cores,
            minimum=self.minimum,
            maximum=self.maximum,
            satiation=satiation,
        )

    @property
    def converged(self) -> bool:
        """Whether the residual is within the tolerance."""
        return self.residual <= self.tolerance

    @cached_property
    def bids(self) -> Floats:
        """Cost of each job's cores, b = x p, shape (k,) (V-C)."""
        return self.cores * self.prices[self.market.server]

    @cached_property
    def unspent(self) -> Floats:
        """Money left to users whose jobs all have their maximum, shape (n,); else rounding."""
        return self.market.budgets - self.market.sum_by_user(self.bids)

    @cached_property
    def gains(self) -> Floats:
        """Each user's utility over that of its bare entitlement, less 1, shape (n,); 0 if idle."""
        alone = user_progress(self.market, bare_entitlement(self.market))
        together = user_progress(self.market, self.cores)
        return np.divide(together, alone, out=np.ones(len(alone)), where=alone > 0) - 1


def find_equilibrium(
    market: AmdahlMarket,
    *,
    kept: ArrayLike | None = None,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
    promise: Floats | None = None,
    tolerance: float = 1e-6,
    max_passes: int = 1000,
) -> Equilibrium:
    """Find the prices at which every user's best purchase sells every core (eq. 5 to 8).

    Every user makes the best purchase within the bounds of its jobs: once one has its maximum, the
    budget goes to the user's other jobs, and money that none of them can use is left over, as is
    what a sated user does not spend. A server with enough cores for all its maximums gives them
    away at price 0. A user pays for its jobs' minimums. One that cannot pay for all of them buys as
    if it had none (``affordable``); minimums of at most b / B of each server can always be paid
    for. Cores that a job keeps whatever they
    cost (``kept``) are never given up: its user then buys nothing else. Users still do at least as
    well as by their entitlement cut to the same maximums. With bounds, prices need not be unique:
    ``residual`` certifies the result (`_bounded`).

    Args:
        market: Users, servers and jobs.
        kept: Cores that each job has even if its user cannot pay for them, shape (k,); 0 if not
            given.
        minimum: Fewest cores of each job if its user can pay for them, shape (k,); ``kept`` if not
            given.
        maximum: Most cores of each job, shape (k,); infinite if not given.
        promise: Work, the sum of w s(x), below which each user is not sated (`satiation`), shape
            (n,). If not given, all spend their budgets in any case, as in the paper.
        tolerance: Largest residual.
        max_passes: Passes after which the search gives up; ``converged`` may be False then.

    Returns:
        The equilibrium; ``converged`` is False if it was not reached.

    Raises:
        TypeError: The market is none.
        MarketError: A bound has the wrong shape or is outside its range, or the tolerance or the
            number of passes is not positive.
    """
    check_kind("market", market, AmdahlMarket)
    check_positive("tolerance", tolerance, MarketError)
    check_whole("max_passes", max_passes, 1, MarketError)
    held, upper = check_bounds(market, kept, maximum, "kept")
    check_room(market, held)
    lower = held if minimum is None else check_bounds(market, minimum, maximum)[0]
    lower = np.maximum(lower, held)
    return _solve_in_stages(market, held, lower, upper, tolerance, max_passes, promise)


def _solve_in_stages(
    market: AmdahlMarket,
    kept: Floats,
    lower: Floats,
    upper: Floats,
    tolerance: float,
    max_passes: int,
    promise: Floats | None,
) -> Equilibrium:
    """Solve in stages where jobs are all but perfectly parallel.

    Returns the result with the smallest residual, which is that of the market as given.
    """
    prices = even_bids(market) ** 2
    most_parallel = min(market.fraction.max(initial=0.5), LARGEST_FRACTION)
    smoother = [largest for largest in SMOOTHER_FRACTIONS if largest < most_parallel]
    stages = [*smoother, most_parallel]
    if 0 < len(smoother) < 3:
        stages.insert(0, most_parallel)  # mostly solved at once
    passes = 0
    results: list[Equilibrium] = []
    for largest in stages:
        fraction = np.clip(market.fraction, SMALLEST_FRACTION, largest)
        patience = max(max_passes // len(stages), 1)
        solution = solve_bounded(
            market, kept, lower, upper, fraction, prices, tolerance, patience, promise
        )
        passes += solution.passes
        if largest < most_parallel:
            prices = np.where(solution.prices > 0, solution.prices, prices)
        one = Equilibrium(
            market,
            np.where(np.diff(market.by_server.start) > 0, solution.prices, 0.0),
            solution.cores,
            "bounded alternation",
            passes,
            tolerance,
            np.where(solution.affordable[market.user], lower, kept),
            upper,
            solution.affordable,
            solution.residual,
            promise,
        )
        results.append(one)
        if one.converged:
            break
    best = min(results, key=lambda result: result.residual)
    return best if best.iterations == passes else replace(best, iterations=passes)


def even_bids(market: AmdahlMarket) -> Floats:
    """Return square roots of prices if every user bids the same on all its jobs, shape (m,)."""
    start, order = market.by_user
    jobs = np.diff(start)
    bid = np.repeat(market.budgets / np.maximum(jobs, 1), jobs)
    money = np.bincount(market.server[order], bid, len(market.capacities))
    return np.sqrt(np.where(money > 0, money / market.capacities, 1.0))
