"""The equilibrium of the Amdahl market, and how far a solution is proven to be from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl import _alternation as alternation
from walras.amdahl._bounded import solve_bounded
from walras.amdahl._interior import solve_interior
from walras.amdahl.bounds import check_bounds
from walras.amdahl.conditions import kkt_residual
from walras.amdahl.market import Market, MarketError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Bools, Floats

SMALLEST_FRACTION = 1e-24
"""f = 0 stands for its limit f -> 0, in which money still has a best use; this is close enough."""

LARGEST_FRACTION = 1 - 1e-10
"""f = 1 makes demand a step; this slope is invisible in cores and keeps demand a function."""

LARGEST_ALTERNATING_FRACTION = 1 - 1e-6
"""Beyond it x = a mu / sqrt(p) - g cancels too many digits for the alternation."""

LARGEST_BOUNDED_FRACTION = 1 - 1e-8
"""The same within bounds, where no interior-point method takes over."""

SMOOTHER_FRACTIONS = (1 - 1e-2, 1 - 1e-3, 1 - 1e-4, 1 - 1e-6)
"""What larger ones are taken for at first, each stage starting from the prices of the last."""

PATIENCE = 60
"""Passes after which the interior-point method takes over: usual markets need 12 to 25."""

LARGEST_DENSE_SIDE = 1500
"""Largest min(users, servers) for the interior-point method, whose steps cost its cube."""

_SQUARABLE = (np.sqrt(np.finfo(np.float64).tiny), np.sqrt(np.finfo(np.float64).max))
"""Numbers between these have squares within the range of floating point."""


@dataclass(frozen=True)
class Equilibrium:
    """Prices and cores that a solver of the Amdahl market arrived at.

    Attributes:
        market: the market that was solved.
        prices: shape (m,), per core, in units of the budgets; 0 on a server without jobs, and on
            one that has enough for all its jobs' maximums.
        cores: shape (k,), real numbers; they add up to the capacity of each server with a price.
        solver: the name of the method.
        iterations: passes over the market (Newton steps included).
        price_error: proven bound on the largest relative error of any price, infinity where
            nothing could be proven.
        tolerance: what was asked for.
        minimum: shape (k,), the minimums of cores that hold; None if none was given.
        maximum: shape (k,), the maximums of cores; None if none was given.
        affordable: shape (n,), whether a user's minimums hold; None if none was given.
    """

    market: Market
    prices: Floats
    cores: Floats
    solver: str
    iterations: int
    price_error: float
    tolerance: float
    minimum: Floats | None = None
    maximum: Floats | None = None
    affordable: Bools | None = None

    @cached_property
    def residual(self) -> float:
        """Largest relative violation of an equilibrium condition; see `kkt_residual`."""
        return kkt_residual(
            self.market, self.prices, self.cores, minimum=self.minimum, maximum=self.maximum
        )

    @property
    def converged(self) -> bool:
        """Whether this is the equilibrium to tolerance: proven by price error, else by residual."""
        return self.price_error <= self.tolerance or self.residual <= self.tolerance

    @cached_property
    def bids(self) -> Floats:
        """Shape (k,): what each job's cores cost, b = x p (V-C)."""
        return self.cores * self.prices[self.market.server]

    @cached_property
    def unspent(self) -> Floats:
        """Shape (n,): money left to users whose jobs all have their maximum; else rounding."""
        return self.market.budgets - self.market.sum_by_user(self.bids)


def find_equilibrium(
    market: Market,
    *,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
    tolerance: float = 1e-6,
    max_passes: int = 1000,
    start: Floats | None = None,
) -> Equilibrium:
    """Find the prices at which every user's best purchase sells every core (eq. 5 to 8).

    Users and servers take turns (`_alternation`) until the largest relative price error is proven
    to be within ``tolerance``. Markets for which that takes more than 60 passes, because jobs are
    all but perfectly parallel, go to an interior-point method (`_interior`) if the smaller side
    of the market has at most 1500 members.

    With bounds, every user buys what is best for it among what keeps them: the budget goes to its
    other jobs once one has its maximum, and money that none of its jobs can use is left over. A
    server that has enough for all its maximums gives them away at price 0. A job's minimum is paid
    for by its user. Who cannot pay for all of them buys as if it had none (``affordable`` says so);
    minimums of at most b / B of each server can always be paid for. Users still do at least as
    well as by their entitlement cut to the same maximums. Prices need not be unique then, and no
    price error is proven: ``residual`` certifies the result (`_bounded`).

    Args:
        market: the market.
        minimum: shape (k,), fewest cores of each job; 0 if not given.
        maximum: shape (k,), most cores of each job; may be infinite, as if not given.
        tolerance: on the relative error of prices; with bounds, on the residual.
        max_passes: after which the alternation gives up; the result then says so.
        start: shape (m,), prices to start from, as those of a similar market solved before.

    Returns:
        The equilibrium; ``converged`` is False if it was not reached.

    Raises:
        MarketError: a bound has the wrong shape or is outside its range, or there is not one
            price to start from for each server.
    """
    if start is not None and np.shape(start) != market.capacities.shape:
        raise MarketError(
            f"start has shape {np.shape(start)}: {len(market.capacities)} prices are needed, "
            "one for each server"
        )
    if minimum is not None or maximum is not None:
        bounds = check_bounds(market, minimum, maximum)
        return _find_bounded(market, *bounds, tolerance, max_passes, start)
    if market.jobs == 0:
        nothing = np.zeros(len(market.capacities))
        return Equilibrium(market, nothing, np.zeros(0), "none", 0, 0.0, tolerance)
    dense = min(len(market.budgets), len(market.capacities)) <= LARGEST_DENSE_SIDE
    patience = min(PATIENCE, max_passes) if dense else max_passes
    outside = _alternate(market, tolerance, patience, start)
    if not dense or outside.price_error <= tolerance:
        return outside
    inside = _solve_inside(market, tolerance, outside.iterations)
    if not np.isfinite(inside.cores).all():
        return outside
    return min(inside, outside, key=lambda result: (result.price_error, result.residual))


def price_error(market: Market, prices: Floats) -> float:
    """Bound the relative distance of any ``prices`` from the equilibrium's, or return infinity.

    Balls of growing radius, from 1e-12 to 1, are tried until one is proven to hold the equilibrium
    (`_alternation.certify`).
    """
    if market.fraction.max(initial=0.0) > LARGEST_ALTERNATING_FRACTION:
        return float("inf")
    users, servers = _sides(market, LARGEST_ALTERNATING_FRACTION)
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


def _sides(market: Market, largest: float) -> tuple[alternation.UserSide, alternation.ServerSide]:
    fraction = np.clip(market.fraction, SMALLEST_FRACTION, largest)
    users = alternation.user_side(
        *market.by_user, market.server, fraction, market.work, market.budgets
    )
    servers = alternation.server_side(
        *market.by_server, market.user, fraction, market.work, market.capacities
    )
    return users, servers


def _find_bounded(
    market: Market,
    lower: Floats,
    upper: Floats,
    tolerance: float,
    max_passes: int,
    start: Floats | None,
) -> Equilibrium:
    """Solve within bounds, in stages where jobs are all but perfectly parallel.

    The result with the smallest residual, which is that of the market as it is, stands.
    """
    users, servers = _sides(market, LARGEST_ALTERNATING_FRACTION)
    prices = _first_root(users, servers, start) ** 2
    most_parallel = min(market.fraction.max(initial=0.5), LARGEST_BOUNDED_FRACTION)
    smoother = [largest for largest in SMOOTHER_FRACTIONS if largest < most_parallel]
    stages = [*smoother, most_parallel]
    if 0 < len(smoother) < 3:
        stages.insert(0, most_parallel)  # it usually can be cleared at once
    passes = 0
    results: list[Equilibrium] = []
    for largest in stages:
        fraction = np.clip(market.fraction, SMALLEST_FRACTION, largest)
        patience = max(max_passes // len(stages), 1)
        found = solve_bounded(market, lower, upper, fraction, prices, tolerance, patience)
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
            np.where(found.affordable[market.user], lower, 0.0),
            upper,
            found.affordable,
        )
        results.append(one)
        if one.converged:
            break
    best = min(results, key=lambda result: result.residual)
    return replace(best, iterations=passes)


def _first_root(
    users: alternation.UserSide, servers: alternation.ServerSide, start: Floats | None
) -> Floats:
    """Return the square roots of the prices to start from: those known, else of even bids."""
    root = alternation.even_bids(users, servers)
    if start is not None:
        known = np.isfinite(start) & (start > 0)
        root[known] = np.sqrt(start[known])
    return root


def _alternate(
    market: Market,
    tolerance: float,
    max_passes: int,
    start: Floats | None,
) -> Equilibrium:
    largest = LARGEST_ALTERNATING_FRACTION
    users, servers = _sides(market, largest)
    root = _first_root(users, servers, start)
    mu = np.full(len(market.budgets), np.inf)
    log_tolerance = np.log1p(tolerance)
    passes, bound = alternation.alternate(users, servers, root, mu, log_tolerance, max_passes)
    lowest, highest = _SQUARABLE
    if not ((root > lowest) & (root < highest)).all():
        root = alternation.even_bids(users, servers)
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


def _solve_inside(market: Market, tolerance: float, passes: int) -> Equilibrium:
    """Solve by the interior-point method, from the prices of a market with smoother demand."""
    busy_users = np.diff(market.by_user.start) > 0
    busy_servers = np.diff(market.by_server.start) > 0
    budgets = market.budgets[busy_users]
    capacities = market.capacities[busy_servers]
    unit = capacities.sum() / budgets.sum()  # prices around 1
    user = (np.cumsum(busy_users) - 1)[market.user]
    best_work = np.zeros(len(budgets))
    np.maximum.at(best_work, user, market.work)
    compact = Market(
        budgets * unit,
        capacities,
        user,
        (np.cumsum(busy_servers) - 1)[market.server],
        np.clip(market.fraction, SMALLEST_FRACTION, LARGEST_FRACTION),
        market.work / best_work[user],
    )
    users, servers = _sides(compact, 0.99)
    root = alternation.even_bids(users, servers)
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
