"""Amdahl Bidding (V-E), the paper's own procedure, as a reference for the exact solver.

Every user bids b_ij, a server's price is the sum of the bids on it over its cores, and every user
then divides its budget anew in proportion to U_ij = sqrt(f w p) s(x).

**Erratum.** The paper prints sqrt(f p) w s, whose fixed point is the market's equilibrium only if
all w are 1: the KKT condition w f s**2 / x**2 = lambda p gives b = p x proportional to
sqrt(f w p) s. The paper also stops once prices change little. They may still be wrong by some
percent then, since jobs whose best bid is 0 lower their bids slowly. Here bidding goes on until
the error of the prices is proven small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.amdahl.satiation import SMALLEST_FRACTION
from walras.numerics.kernel import kernel
from walras_studies.amdahl.without_bounds import ProvenEquilibrium, price_error

if TYPE_CHECKING:
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Floats, Integers


def bid(
    market: AmdahlMarket,
    *,
    tolerance: float = 1e-6,
    step: float | None = None,
    absolute: bool = False,
    max_iterations: int = 100_000,
) -> ProvenEquilibrium:
    """Run Amdahl Bidding until the error of prices is proven small, or until they change little.

    Args:
        market: Users, servers and jobs.
        tolerance: Largest proven relative error of prices.
        step: The paper's stopping rule instead: the largest relative change of any price in an
            iteration at which to stop.
        absolute: Whether ``step`` is the largest change itself, in units of budget for a core: the
            paper stops when prices "change by less than a small threshold".
        max_iterations: Iterations after which to give up; ``converged`` of the result is False
            then.

    Returns:
        Prices and cores where bidding ended. Cores add up to capacities and bids to budgets after
        every iteration.
    """
    fraction = np.maximum(market.fraction, SMALLEST_FRACTION)
    jobs_of_user = market.sum_by_user(np.ones(market.jobs))
    bids = (market.budgets / np.maximum(jobs_of_user, 1))[market.user]
    prices = np.empty(len(market.capacities))
    _set_prices(market.server, market.capacities, bids, prices)
    threshold = tolerance if step is None else step
    done = 0
    error = np.inf
    while done < max_iterations:
        done += _iterate(
            market.user,
            market.server,
            fraction,
            market.work,
            market.budgets,
            market.capacities,
            bids,
            prices,
            threshold,
            step is not None and absolute,
            max_iterations - done,
        )
        error = price_error(market, prices)
        if error <= tolerance or step is not None or threshold < 1e-15:
            break
        threshold /= 10
    price = prices[market.server]
    return ProvenEquilibrium(
        market, prices, bids / price, "Amdahl bidding", done, tolerance, price_error=error
    )


@kernel
def _set_prices(server: Integers, capacities: Floats, bids: Floats, prices: Floats) -> None:
    """Set each server's price to the sum of its bids over its cores (eq. 8)."""
    for j in range(len(prices)):
        prices[j] = 0.0
    for job in range(len(server)):
        prices[server[job]] += bids[job]
    for j in range(len(prices)):
        prices[j] /= capacities[j]


@kernel
def _iterate(
    user: Integers,
    server: Integers,
    fraction: Floats,
    work: Floats,
    budgets: Floats,
    capacities: Floats,
    bids: Floats,
    prices: Floats,
    threshold: float,
    absolute: bool,
    max_iterations: int,
) -> int:
    """Change ``bids`` and ``prices`` until no price changes by ``threshold`` in an iteration.

    Changes are relative to prices unless ``absolute``.

    Returns:
        The number of iterations.
    """
    utility = np.empty(len(user))
    spread = np.empty(len(budgets))
    before = np.empty(len(prices))
    for iteration in range(1, max_iterations + 1):
        for i in range(len(spread)):
            spread[i] = 0.0
        for job in range(len(user)):
            p = prices[server[job]]
            f = fraction[job]
            x = bids[job] / p
            utility[job] = np.sqrt(f * work[job] * p) * x / (f + (1.0 - f) * x)
            spread[user[job]] += utility[job]
        for job in range(len(user)):
            i = user[job]
            bids[job] = budgets[i] * utility[job] / spread[i]
        for j in range(len(prices)):
            before[j] = prices[j]
        _set_prices(server, capacities, bids, prices)
        moved = 0.0
        for j in range(len(prices)):
            if prices[j] > 0.0:
                unit = 1.0 if absolute else prices[j]
                moved = max(moved, abs(before[j] - prices[j]) / unit)
        if moved < threshold:
            return iteration
    return max_iterations
