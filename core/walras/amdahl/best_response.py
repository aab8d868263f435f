"""Best Response (VI-A): the Nash equilibrium of users who anticipate what their bids do to prices.

A user's best response to the others' bids is closed form (`_answers`); the paper finds it by an
interior-point method. Users answer in turn, each to the latest bids of the others; simultaneous
answers circle where many share a server.

Who is alone on a server has no best response, since ever smaller bids still win all of it. Hence a
reserve: others' bids on a server count as at least ``reserve`` times its cores at the mean price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.amdahl._answers import blank, stake, take_turns
from walras.amdahl.market import MarketError

if TYPE_CHECKING:
    from walras._arrays import Floats, Integers
    from walras.amdahl.market import Market

PATIENCE = 40
"""Rounds after which users move half as far: answers in full may circle, rarely."""

LEAST_STEP = 1 / 64


@dataclass(frozen=True)
class NashEquilibrium:
    """Bids from which no user gains much by bidding otherwise.

    Attributes:
        market: the market.
        bids: shape (k,); they add up to every budget.
        prices: shape (m,), bids per core; 0 on a server without jobs.
        cores: shape (k,), in proportion to bids; they add up to each server's capacity, what the
            reserve keeps from bidders being theirs in the end.
        gain: largest relative gain of utility that any user could make by other bids, computed
            from its exact best response to the others.
        iterations: rounds in which all users answered.
        tolerance: what was asked for.
    """

    market: Market
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
    market: Market,
    *,
    reserve: float = 1e-3,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    start: Floats | None = None,
) -> NashEquilibrium:
    """Let users answer each other's bids in turn until prices stand still and nobody can gain.

    Args:
        market: the market.
        reserve: what others' bids on a server count as at least, as a part of what its cores cost
            at the mean price (all budgets over all cores); positive.
        tolerance: on the relative change of prices in a round, and on ``gain``.
        max_iterations: rounds after which to give up; ``converged`` then tells.
        start: shape (k,), bids to start from; even ones if not given.

    Raises:
        MarketError: the reserve is not positive and finite, or there is not one bid to start from
            for each job.
    """
    if start is not None and np.shape(start) != (market.jobs,):
        raise MarketError(
            f"start has shape {np.shape(start)}: {market.jobs} bids are needed, one for each job"
        )
    if not 0 < reserve < np.inf:
        raise MarketError(
            f"reserve = {reserve} is not positive: a user alone needs a price to meet"
        )
    if market.jobs == 0:
        nothing = np.zeros(0)
        unpriced = np.zeros(len(market.capacities))
        return NashEquilibrium(market, nothing, unpriced, nothing, 0.0, 0, tolerance)
    floor = reserve * market.capacities * (market.budgets.sum() / market.capacities.sum())
    stakes = stake(market, floor)
    bids = _first_bids(market, start)[stakes.job]
    totals = market.sum_by_server(_in_order(stakes.job, bids))
    nu = np.full(len(market.budgets), np.inf)
    lines = blank(market)
    rounds, gain = 0, np.inf
    while gain > tolerance and rounds < max_iterations:
        rounds += 1
        before = totals.copy()
        step = max(0.5 ** (rounds // PATIENCE), LEAST_STEP)
        take_turns(stakes, bids, totals, nu, lines, step)
        busy = totals > 0
        moved = float(np.abs(before[busy] / totals[busy] - 1).max()) / step
        if moved <= tolerance or rounds == max_iterations:
            gain = take_turns(stakes, bids, totals, nu, lines, 0.0)
    ordered = _in_order(stakes.job, bids)
    prices = totals / market.capacities
    # Where nobody meets the reserve, the cores are divided evenly for nothing.
    claims = np.where(totals[market.server] > 0, ordered, 1.0)
    cores = claims / market.sum_by_server(claims)[market.server]
    cores *= market.capacities[market.server]
    return NashEquilibrium(market, ordered, prices, cores, gain, rounds, tolerance)


def _first_bids(market: Market, start: Floats | None) -> Floats:
    """Return ``start`` scaled to the budgets; even bids for users without any in it."""
    bids = np.ones(market.jobs)
    if start is not None:
        bids = np.where(np.isfinite(start) & (np.asarray(start) > 0), start, 0.0)
    bids = np.where(market.sum_by_user(bids)[market.user] > 0, bids, 1.0)
    return bids * (market.budgets[market.user] / market.sum_by_user(bids)[market.user])


def _in_order(job: Integers, values: Floats) -> Floats:
    result = np.empty(len(values))
    result[job] = values
    return result
