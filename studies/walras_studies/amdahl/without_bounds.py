"""The equilibrium of the paper's market, without bounds, with a proven bound on its prices' error.

Where no job has bounds, the equilibrium is the only one, and how far prices are from it can be
proven. The Market of a cluster always has bounds, such as the least parts of pods, and is solved by
`walras.mechanisms.amdahl.equilibrium`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl.equilibrium import Equilibrium, even_bids
from walras.mechanisms.amdahl.market import AmdahlMarket, MarketError
from walras.mechanisms.amdahl.satiation import SMALLEST_FRACTION
from walras.numerics.checks import check_kind, check_positive, check_whole
from walras_studies.amdahl import _alternation as alternation
from walras_studies.amdahl._interior import solve_interior

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats

LARGEST_FRACTION = 1 - 1e-10
"""Stands for f = 1, where demand is a step; the effect on cores is invisible."""

LARGEST_ALTERNATING_FRACTION = 1 - 1e-6
"""Largest f for the alternation: beyond it x = a mu / sqrt(p) - g loses too many digits."""

PATIENCE = 60
"""Passes after which the interior-point method takes over: usual markets need 12 to 25."""

LARGEST_DENSE_SIDE = 1500
"""Largest min(users, servers) for the interior-point method, whose steps cost its cube."""

_ROOT_RANGE = (np.sqrt(np.finfo(np.float64).tiny), np.sqrt(np.finfo(np.float64).max))
"""Numbers between these have squares within the range of floating point."""


@dataclass(frozen=True)
class ProvenEquilibrium(Equilibrium):
    """An equilibrium without bounds.

    Attributes:
        price_error: Proven bound on the largest relative error of any price; infinity where nothing
            could be proven.
    """

    price_error: float = float("inf")

    @property
    def converged(self) -> bool:
        """Whether the price error, or else the residual, is within the tolerance."""
        return self.price_error <= self.tolerance or self.residual <= self.tolerance


def find_equilibrium(
    market: AmdahlMarket,
    *,
    tolerance: float = 1e-6,
    max_passes: int = 1000,
    start: Floats | None = None,
) -> ProvenEquilibrium:
    """Find the prices at which every user's best purchase sells every core (eq. 5 to 8).

    Users and servers respond in turn (`_alternation`) until the largest relative price error is
    proven to be within ``tolerance``. Markets for which that takes more than 60 passes, because
    jobs are all but perfectly parallel, go to an interior-point method (`_interior`) if the smaller
    side of the market has at most 1500 members.

    Args:
        market: Users, servers and jobs.
        tolerance: Largest relative error of prices.
        max_passes: Passes after which the alternation gives up; ``converged`` may be False then.
        start: Prices to start from, as those of a similar market solved before, shape (m,).

    Returns:
        The equilibrium; ``converged`` is False if it was not reached.

    Raises:
        TypeError: The market is none.
        MarketError: The prices to start from have the wrong shape, or the tolerance or the number
            of passes is not positive.
    """
    check_kind("market", market, AmdahlMarket)
    check_positive("tolerance", tolerance, MarketError)
    check_whole("max_passes", max_passes, 1, MarketError)
    if market.jobs == 0:
        nothing = np.zeros(len(market.capacities))
        return ProvenEquilibrium(
            market, nothing, np.zeros(0), "none", 0, tolerance, price_error=0.0
        )
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


def _root_prices(market: AmdahlMarket, start: Floats | None) -> Floats:
    """Return the square roots of ``start`` where it is known, else of the prices of even bids.

    Raises:
        MarketError: There is not one price for each server.
    """
    if start is not None and np.shape(start) != market.capacities.shape:
        raise MarketError(
            f"start has shape {np.shape(start)}: {len(market.capacities)} prices are needed, "
            "one for each server"
        )
    root = even_bids(market)
    if start is not None:
        known = np.isfinite(start) & (start > 0)
        root[known] = np.sqrt(start[known])
    return root


def _solve_by_alternation(
    market: AmdahlMarket, tolerance: float, max_passes: int, start: Floats | None
) -> ProvenEquilibrium:
    """Solve by `_alternation`; the price error is infinite for f beyond its range."""
    largest = LARGEST_ALTERNATING_FRACTION
    users, servers = _job_layouts(market, largest)
    root = _root_prices(market, start)
    mu = np.full(len(market.budgets), np.inf)
    log_tolerance = np.log1p(tolerance)
    passes, bound = alternation.alternate(users, servers, root, mu, log_tolerance, max_passes)
    lowest, highest = _ROOT_RANGE
    if not ((root > lowest) & (root < highest)).all():
        root = even_bids(market)
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
    return ProvenEquilibrium(
        market, prices, cores, "alternation", passes, tolerance, price_error=error
    )


def _solve_by_interior_point(
    market: AmdahlMarket, tolerance: float, passes: int
) -> ProvenEquilibrium:
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
    root = even_bids(compact)
    mu = np.full(len(budgets), np.inf)
    more, _ = alternation.alternate(users, servers, root, mu, tolerance, 15)
    point = solve_interior(compact, 2 * np.log(root), np.log(mu))
    prices = np.zeros(len(market.capacities))
    prices[busy_servers] = np.exp(point.log_price) / unit
    sold = compact.sum_by_server(point.cores)
    return ProvenEquilibrium(
        market,
        prices,
        point.cores * (capacities / sold)[compact.server],
        "interior point",
        passes + more + point.steps,
        tolerance,
        price_error=price_error(market, prices),
    )
