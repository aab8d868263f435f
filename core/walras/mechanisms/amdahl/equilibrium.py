"""The equilibrium of the Amdahl market, with a proven bound on the error of its prices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl import _alternation as alternation
from walras.mechanisms.amdahl._bounded import solve_bounded
from walras.mechanisms.amdahl._interior import solve_interior
from walras.mechanisms.amdahl.conditions import kkt_residual
from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError, check_bounds, check_room
from walras.numerics.checks import check_kind, check_positive, check_whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats

SMALLEST_FRACTION = 1e-24
"""Stands for f = 0: for its limit f -> 0, in which money still has a best use."""

LARGEST_FRACTION = 1 - 1e-10
"""Stands for f = 1, where demand is a step; the effect on cores is invisible."""

LARGEST_ALTERNATING_FRACTION = 1 - 1e-6
"""Largest f for the alternation: beyond it x = a mu / sqrt(p) - g loses too many digits."""

LARGEST_BOUNDED_FRACTION = 1 - 1e-8
"""Largest f within bounds, where no interior-point method takes over."""

SMOOTHER_FRACTIONS = (1 - 1e-2, 1 - 1e-3, 1 - 1e-4, 1 - 1e-6)
"""Caps on f in successive stages, each of which starts from the prices of the last."""

PATIENCE = 60
"""Passes after which the interior-point method takes over: usual markets need 12 to 25."""

LARGEST_DENSE_SIDE = 1500
"""Largest min(users, servers) for the interior-point method, whose steps cost its cube."""

_ROOT_RANGE = (np.sqrt(np.finfo(np.float64).tiny), np.sqrt(np.finfo(np.float64).max))
"""Numbers between these have squares within the range of floating point."""


@dataclass(frozen=True)
class Equilibrium:
    """Prices and cores that a solver of the Amdahl market found.

    Attributes:
        prices: Price per core of each server, in units of the budgets, shape (m,); 0 on a server
            without jobs, and on one with enough cores for all its jobs' maximums.
        cores: Cores of each job, real numbers, shape (k,); they add up to the capacity of each
            server with a price.
        iterations: Passes over the market, Newton steps included.
        price_error: Proven bound on the largest relative error of any price; infinity where nothing
            could be proven.
        minimum: Minimums of cores that hold, shape (k,); None if none was given.
        maximum: Maximums of cores, shape (k,); None if none was given.
        affordable: Whether each user's minimums hold, shape (n,); None if none was given.
        known_residual: Residual, if the solver has computed it.
    """

    market: AmdahlMarket
    prices: Floats
    cores: Floats
    solver: str
    iterations: int
    price_error: float
    tolerance: float
    minimum: Floats | None = None
    maximum: Floats | None = None
    affordable: Bools | None = None
    known_residual: float | None = None

    @cached_property
    def residual(self) -> float:
        """Largest relative violation of an equilibrium condition; see `kkt_residual`."""
        if self.known_residual is not None:
            return self.known_residual
        return kkt_residual(
            self.market, self.prices, self.cores, minimum=self.minimum, maximum=self.maximum
        )

    @property
    def converged(self) -> bool:
        """Whether the price error, or else the residual, is within the tolerance."""
        return self.price_error <= self.tolerance or self.residual <= self.tolerance

    @cached_property
    def bids(self) -> Floats:
        """Cost of each job's cores, b = x p, shape (k,) (V-C)."""
        return self.cores * self.prices[self.market.server]

    @cached_property
    def unspent(self) -> Floats:
        """Money left to users whose jobs all have their maximum, shape (n,); else rounding."""
        return self.market.budgets - self.market.sum_by_user(self.bids)


def find_equilibrium(
    market: AmdahlMarket,
    *,
    kept: ArrayLike | None = None,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
    tolerance: float = 1e-6,
    max_passes: int = 1000,
    start: Floats | None = None,
) -> Equilibrium:
    """Find the prices at which every user's best purchase sells every core (eq. 5 to 8).

    Users and servers respond in turn (`_alternation`) until the largest relative price error is
    proven to be within ``tolerance``. Markets for which that takes more than 60 passes, because
    jobs are all but perfectly parallel, go to an interior-point method (`_interior`) if the smaller
    side of the market has at most 1500 members.

    With bounds, every user makes the best purchase within them: once a job has its maximum, the
    budget goes to the user's other jobs, and money that none of them can use is left over. A server
    with enough cores for all its maximums gives them away at price 0. A user pays for its jobs'
    minimums. One that cannot pay for all of them buys as if it had none (``affordable``); minimums
    of at most b / B of each server can always be paid for. Cores that a job keeps whatever they
    cost (``kept``) are never given up: its user then buys nothing else. Users still do at least as
    well as by their entitlement cut to the same maximums. Prices need not be unique then, and no
    price error is proven: ``residual`` certifies the result (`_bounded`).

    Args:
        market: Users, servers and jobs.
        kept: Cores that each job has even if its user cannot pay for them, shape (k,); 0 if not
            given.
        minimum: Fewest cores of each job if its user can pay for them, shape (k,); ``kept`` if not
            given.
        maximum: Most cores of each job, shape (k,); infinite if not given.
        tolerance: Largest relative error of prices; with bounds, largest residual.
        max_passes: Passes after which the alternation gives up; ``converged`` may be False then.
        start: Prices to start from, as those of a similar market solved before, shape (m,).

    Returns:
        The equilibrium; ``converged`` is False if it was not reached.

    Raises:
        TypeError: The market is none.
        MarketError: A bound has the wrong shape or is outside its range, the prices to start from
            have the wrong shape, or the tolerance or the number of passes is not positive.
    """
    check_kind("market", market, AmdahlMarket)
    check_positive("tolerance", tolerance, MarketError)
    check_whole("max_passes", max_passes, 1, MarketError)
    if start is not None and np.shape(start) != market.capacities.shape:
        raise MarketError(
            f"start has shape {np.shape(start)}: {len(market.capacities)} prices are needed, "
            "one for each server"
        )
    if not (kept is None and minimum is None and maximum is None):
        held, upper = check_bounds(market, kept, maximum, "kept")
        check_room(market, held)
        lower = held if minimum is None else check_bounds(market, minimum, maximum)[0]
        lower = np.maximum(lower, held)
        return _solve_within_bounds(market, held, lower, upper, tolerance, max_passes, start)
    if market.jobs == 0:
        nothing = np.zeros(len(market.capacities))
        return Equilibrium(market, nothing, np.zeros(0), "none", 0, 0.0, tolerance)
    dense = min(len(market.budgets), len(market.capacities)) <= LARGEST_DENSE_SIDE
    patience = min(PATIENCE, max_passes) if dense else max_passes
    alternated = _solve_by_alternation(market, tolerance, patience, start)
    if not dense or alternated.price_error <= tolerance:
        return alternated
    refined = _solve_by_interior_point(market, tolerance, alternated.iterations)
    if not np.isfinite(refined.cores).all():
        return alternated
    return min(refined, alternated, key=lambda result: (result.price_error, result.residual))


def price_error(market: AmdahlMarket, prices: Floats) -> float:
    """Return a bound on the relative error of ``prices``, or infinity if none can be proven.

    Balls of growing radius, from 1e-12 to 1, are tried until one is proven to hold the equilibrium
    (`_alternation.certify`).
    """
    if market.fraction.max(initial=0.0) > LARGEST_ALTERNATING_FRACTION:
        return float("inf")
    users, servers = _job_layouts(market, LARGEST_ALTERNATING_FRACTION)
    root = np.sqrt(prices)
    root[root == 0] = 1.0  # servers without jobs
    mu = np.full(len(market.budgets), np.inf)
    alternation.answer_prices(users, root, mu)
    next_root = root.copy()
    alternation.answer_users(servers, mu, next_root)
    for radius in 10.0 ** np.arange(-12, 1):
        bound = alternation.certify(users, servers, root, mu, next_root, radius)
        if bound <= radius:
            return float(np.expm1(bound))
    return float("inf")


def _job_layouts(
    market: AmdahlMarket, largest: float
) -> tuple[alternation.UserSide, alternation.ServerSide]:
    """Return the jobs by user and by server, with fractions of at most ``largest``."""
    fraction = np.clip(market.fraction, SMALLEST_FRACTION, largest)
    users = alternation.user_side(
        *market.by_user, market.server, fraction, market.work, market.budgets
    )
    servers = alternation.server_side(
        *market.by_server, market.user, fraction, market.work, market.capacities
    )
    return users, servers


def _solve_within_bounds(
    market: AmdahlMarket,
    kept: Floats,
    lower: Floats,
    upper: Floats,
    tolerance: float,
    max_passes: int,
    start: Floats | None,
) -> Equilibrium:
    """Solve within bounds, in stages where jobs are all but perfectly parallel.

    Returns the result with the smallest residual, which is that of the market as given.
    """
    prices = _initial_root_prices(market, start) ** 2
    most_parallel = min(market.fraction.max(initial=0.5), LARGEST_BOUNDED_FRACTION)
    smoother = [largest for largest in SMOOTHER_FRACTIONS if largest < most_parallel]
    stages = [*smoother, most_parallel]
    if 0 < len(smoother) < 3:
        stages.insert(0, most_parallel)  # mostly solved at once
    passes = 0
    results: list[Equilibrium] = []
    for largest in stages:
        fraction = np.clip(market.fraction, SMALLEST_FRACTION, largest)
        patience = max(max_passes // len(stages), 1)
        found = solve_bounded(market, kept, lower, upper, fraction, prices, tolerance, patience)
        passes += found.passes
        if largest < most_parallel:
            prices = np.where(found.prices > 0, found.prices, prices)
        one = Equilibrium(
            market,
            np.where(np.diff(market.by_server.start) > 0, found.prices, 0.0),
            found.cores,
            "bounded alternation",
            passes,
            float("inf"),
            tolerance,
            np.where(found.affordable[market.user], lower, kept),
            upper,
            found.affordable,
            found.residual,
        )
        results.append(one)
        if one.converged:
            break
    best = min(results, key=lambda result: result.residual)
    return best if best.iterations == passes else replace(best, iterations=passes)


def _initial_root_prices(market: AmdahlMarket, start: Floats | None) -> Floats:
    """Return the square roots of ``start`` where it is known, else of the prices of even bids."""
    root = alternation.even_bids(market)
    if start is not None:
        known = np.isfinite(start) & (start > 0)
        root[known] = np.sqrt(start[known])
    return root


def _solve_by_alternation(
    market: AmdahlMarket, tolerance: float, max_passes: int, start: Floats | None
) -> Equilibrium:
    """Solve by `_alternation`; the price error is infinite for f beyond its range."""
    largest = LARGEST_ALTERNATING_FRACTION
    users, servers = _job_layouts(market, largest)
    root = _initial_root_prices(market, start)
    mu = np.full(len(market.budgets), np.inf)
    log_tolerance = np.log1p(tolerance)
    passes, bound = alternation.alternate(users, servers, root, mu, log_tolerance, max_passes)
    lowest, highest = _ROOT_RANGE
    if not ((root > lowest) & (root < highest)).all():
        root = alternation.even_bids(market)
    alternation.answer_prices(users, root, mu)
    cores = alternation.cores_of_jobs(
        market.user,
        market.server,
        np.clip(market.fraction, SMALLEST_FRACTION, largest),
        market.work,
        mu,
        root,
        market.capacities,
    )
    prices = np.where(np.diff(market.by_server.start) > 0, root**2, 0.0)
    exact = bool(market.fraction.max() <= largest)
    error = float(np.expm1(bound)) if exact else float("inf")
    return Equilibrium(market, prices, cores, "alternation", passes, error, tolerance)


def _solve_by_interior_point(market: AmdahlMarket, tolerance: float, passes: int) -> Equilibrium:
    """Solve by the interior-point method, from the prices of a market with smoother demand."""
    busy_users = np.diff(market.by_user.start) > 0
    busy_servers = np.diff(market.by_server.start) > 0
    budgets = market.budgets[busy_users]
    capacities = market.capacities[busy_servers]
    unit = capacities.sum() / budgets.sum()  # prices around 1
    user = (np.cumsum(busy_users) - 1)[market.user]
    best_work = np.zeros(len(budgets))
    np.maximum.at(best_work, user, market.work)
    compact = AmdahlMarket(
        budgets * unit,
        capacities,
        user,
        (np.cumsum(busy_servers) - 1)[market.server],
        np.clip(market.fraction, SMALLEST_FRACTION, LARGEST_FRACTION),
        market.work / best_work[user],
    )
    users, servers = _job_layouts(compact, 0.99)
    root = alternation.even_bids(compact)
    mu = np.full(len(budgets), np.inf)
    more, _ = alternation.alternate(users, servers, root, mu, tolerance, 15)
    point = solve_interior(compact, 2 * np.log(root), np.log(mu))
    prices = np.zeros(len(market.capacities))
    prices[busy_servers] = np.exp(point.log_price) / unit
    sold = compact.sum_by_server(point.cores)
    return Equilibrium(
        market,
        prices,
        point.cores * (capacities / sold)[compact.server],
        "interior point",
        passes + more + point.steps,
        price_error(market, prices),
        tolerance,
    )
