"""Best Response (VI-A): the Nash equilibrium of users who anticipate how their bids move prices.

A user's best response to the others' bids has a closed form (`_responses`); the paper finds it by
an interior-point method. Users respond in turn, each to the latest bids of the others;
simultaneous responses cycle where many users share a server.

A user that is alone on a server has no best response: ever smaller bids still win all cores.
Hence a reserve: others' bids on a server count as at least ``reserve`` times its cores at the
mean price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl._responses import empty_lines, group_by_user, respond_in_turn
from walras.amdahl.market import MarketError

if TYPE_CHECKING:
    from walras._arrays import Floats, Integers
    from walras.amdahl.market import AmdahlMarket

PATIENCE = 40
"""Rounds after which users move half as far, since full best responses may cycle, rarely."""

LEAST_STEP = 1 / 64
"""Shortest move, as a part of the way to the best response."""


@dataclass(frozen=True)
class AmdahlNashEquilibrium:
    """Bids from which no user gains much by bidding otherwise.

    Attributes:
        market: Market that was solved.
        bids: Bid for each job, shape (k,); each user's add up to its budget.
        prices: Bids per core of each server, shape (m,); 0 on a server without jobs.
        cores: Cores of each job, shape (k,), in proportion to bids. They add up to each server's
            capacity, as cores that the reserve kept from bidders are given to them in the end.
        gain: Largest relative gain in utility that any user could make by other bids, computed from
            its exact best response.
        iterations: Rounds in which all users responded.
        tolerance: Tolerance that was asked for.
    """

    market: AmdahlMarket
    bids: Floats
    prices: Floats
    cores: Floats
    gain: float
    iterations: int
    tolerance: float

    @property
    def converged(self) -> bool:
        """Whether no user can gain more than the tolerance by bidding otherwise."""
        return self.gain <= self.tolerance


def find_nash_equilibrium(
    market: AmdahlMarket,
    *,
    reserve: float = 1e-3,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    start: Floats | None = None,
) -> AmdahlNashEquilibrium:
    """Let users respond to each other's bids in turn until prices settle and nobody gains.

    Args:
        market: Users, servers and jobs.
        reserve: Least total of others' bids on a server that a user reckons with, as a part of what
            its cores cost at the mean price (all budgets over all cores); positive.
        tolerance: Largest relative change of prices in a round, and largest ``gain``.
        max_iterations: Rounds after which to give up; ``converged`` of the result is False then.
        start: Bids to start from, shape (k,); even ones if not given.

    Raises:
        MarketError: The reserve is not positive and finite, or the bids to start from have the
            wrong shape.
    """
    if start is not None and np.shape(start) != (market.jobs,):
        raise MarketError(
            f"start has shape {np.shape(start)}: {market.jobs} bids are needed, one for each job"
        )
    if not 0 < reserve < np.inf:
        raise MarketError(f"reserve = {reserve} is not positive and finite")
    if market.jobs == 0:
        nothing = np.zeros(0)
        unpriced = np.zeros(len(market.capacities))
        return AmdahlNashEquilibrium(market, nothing, unpriced, nothing, 0.0, 0, tolerance)
    floor = reserve * market.capacities * (market.budgets.sum() / market.capacities.sum())
    jobs = group_by_user(market, floor)
    bids = _first_bids(market, start)[jobs.job]
    totals = market.sum_by_server(_scatter(jobs.job, bids))
    nu = np.full(len(market.budgets), np.inf)
    lines = empty_lines(market)
    rounds, gain = 0, np.inf
    while gain > tolerance and rounds < max_iterations:
        rounds += 1
        before = totals.copy()
        step = max(0.5 ** (rounds // PATIENCE), LEAST_STEP)
        respond_in_turn(jobs, bids, totals, nu, lines, step)
        busy = totals > 0
        moved = float(np.abs(before[busy] / totals[busy] - 1).max()) / step
        if moved <= tolerance or rounds == max_iterations:
            gain = respond_in_turn(jobs, bids, totals, nu, lines, 0.0)
    ordered = _scatter(jobs.job, bids)
    prices = totals / market.capacities
    # On servers without any bids, cores are divided evenly for free.
    claims = np.where(totals[market.server] > 0, ordered, 1.0)
    cores = claims / market.sum_by_server(claims)[market.server]
    cores *= market.capacities[market.server]
    return AmdahlNashEquilibrium(market, ordered, prices, cores, gain, rounds, tolerance)


def _first_bids(market: AmdahlMarket, start: Floats | None) -> Floats:
    """Return bids in proportion to ``start`` that spend every budget, even where it has none."""
    bids = np.ones(market.jobs)
    if start is not None:
        bids = np.where(np.isfinite(start) & (np.asarray(start) > 0), start, 0.0)
    bids = np.where(market.sum_by_user(bids)[market.user] > 0, bids, 1.0)
    return bids * (market.budgets[market.user] / market.sum_by_user(bids)[market.user])


def _scatter(job: Integers, values: Floats) -> Floats:
    result = np.empty(len(values))
    result[job] = values
    return result
