"""Division of cores by every mechanism: cores, prices and their accuracy.

There is one function for each mechanism. The one for linear utilities (`PriceAnticipating`) sees
users and servers only: a core on a server is worth to a user the work of its jobs there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.division.auctions import LARGEST_MATRIX, PricingError
from walras.market.bounds import bare_entitlement
from walras.mechanisms.amdahl.best_response import find_nash_equilibrium
from walras.mechanisms.amdahl.equilibrium import find_equilibrium
from walras.mechanisms.amdahl.metrics import job_progress
from walras.mechanisms.amdahl.satiation import reserve_price
from walras.mechanisms.amdahl.time_shared import pieces_of
from walras.mechanisms.amdahl.upper_bound import maximise, share_proportionally
from walras.mechanisms.price_anticipating.market import ShareMarket
from walras.mechanisms.price_anticipating.nash import find_share_market_equilibrium
from walras.numerics.water_filling import water_fill
from walras.speedup.amdahls_law import PROMISED

if TYPE_CHECKING:
    from walras.division.auctions import AuctionResults
    from walras.market.bounds import Bounds
    from walras.market.snapshot import Policy
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Floats, Integers


ROUNDING = 1e-9
"""Relative gap to its bound at which an optimum counts as found; arithmetic is not more exact."""

GAIN = 1e-3
"""Largest part of its utility that a user may gain by other bids at a Nash equilibrium."""

USABLE = 1e-2
"""Largest violation of an equilibrium condition at which a division is used."""


class PricingResult(NamedTuple):
    """Cores and prices that a mechanism found, for k jobs on m servers.

    Attributes:
        cores: Cores of each job, shape (k,).
        prices: Price of a core in units of the budgets, 0 if nothing is paid, shape (m,).
        residual: Distance from what defines the result: the largest relative violation of an
            equilibrium condition, the largest part of its utility that a user could gain by other
            bids, or the proven gap to the optimum.
        spends: Payment of each job, shape (k,); None if it is the price of its cores.
    """

    cores: Floats
    prices: Floats
    solver: str
    iterations: int
    residual: float
    converged: bool
    spends: Floats | None = None


def price(
    market: AmdahlMarket,
    bounds: Bounds,
    policy: Policy,
    auctioned: AuctionResults | None = None,
    parallelism: Integers | None = None,
) -> PricingResult:
    """Divide cores by the mechanism that ``policy`` names.

    Args:
        market: Users, servers and jobs.
        bounds: Bounds on the cores of jobs.
        policy: Policy that names the mechanism and its tolerance.
        auctioned: Outcome of auctions, if cores are auctioned.
        parallelism: Most servers that each user bids on under PriceAnticipating, shape (n,); no
            bound if not given.

    Raises:
        PricingError: The market is too large for the mechanism.
    """
    if market.jobs == 0:
        nothing = np.zeros(len(market.capacities))
        return PricingResult(np.zeros(0), nothing, "none", 0, 0.0, converged=True)
    if auctioned is not None and policy.cores == "Auction":
        return _auction(market, auctioned)
    match policy.cores:
        case "ProportionalSharing":
            return _proportional_sharing(market, bounds)
        case "BestResponse":
            return _best_response(market, policy.tolerance)
        case "Greedy":
            return _most_progress(market, bounds, np.ones(len(market.budgets)))
        case "UpperBound":
            return _most_progress(market, bounds, market.budgets)
        case "PriceAnticipating":
            return _price_anticipating(market, parallelism)
        case _:
            return _amdahl_bidding(market, bounds, policy.tolerance)


def _amdahl_bidding(market: AmdahlMarket, bounds: Bounds, tolerance: float) -> PricingResult:
    """Find the equilibrium, in which users stop where they are sated.

    Where that cannot be found, all spend their budgets; where no equilibrium can, everybody has
    what it is entitled to, which is always there, and what that leaves is divided in proportion.
    """
    pieces, bare = pieces_of(market, bounds.most), bare_entitlement(market, bounds)
    solve = partial(
        find_equilibrium,
        pieces.market,
        kept=pieces.within(bounds.kept),
        minimum=pieces.within(bounds.least),
        maximum=pieces.within(bounds.most),
        tolerance=tolerance,
    )
    promise = PROMISED * pieces.market.sum_by_user(job_progress(pieces.market, pieces.within(bare)))
    equilibrium = solve(promise=promise)
    if not equilibrium.converged:
        equilibrium = min(solve(), equilibrium, key=lambda each: each.residual)
    figures = equilibrium.iterations, equilibrium.residual, equilibrium.converged
    if equilibrium.residual > USABLE:
        cores = water_fill(bare, bounds.kept, bounds.most, market.capacities, market.by_server)
        average = market.budgets.sum() / market.capacities.sum()
        prices = np.full(len(market.capacities), average)
        return PricingResult(cores, prices, "entitlements, without trade", *figures)
    free = equilibrium.prices <= reserve_price(market) * (1 + ROUNDING)
    prices = np.where(free, 0.0, equilibrium.prices)
    return PricingResult(pieces.of_jobs(equilibrium.cores), prices, equilibrium.solver, *figures)


def _proportional_sharing(market: AmdahlMarket, bounds: Bounds) -> PricingResult:
    cores = share_proportionally(market, maximum=bounds.most)
    ones = np.ones(len(market.capacities))
    return PricingResult(cores, ones, "closed form", 1, 0.0, converged=True)


def _best_response(market: AmdahlMarket, tolerance: float) -> PricingResult:
    equilibrium = find_nash_equilibrium(market, tolerance=tolerance)
    figures = equilibrium.iterations, equilibrium.gain, equilibrium.converged
    return PricingResult(equilibrium.cores, equilibrium.prices, "best responses in turn", *figures)


def _most_progress(market: AmdahlMarket, bounds: Bounds, weights: Floats) -> PricingResult:
    """Divide cores so that the mean of users' progress, weighted, shape (n,), is largest."""
    pieces = pieces_of(market, bounds.most)
    work, of_pieces = (each.sum_by_user(each.work) for each in (market, pieces.market))
    share = np.divide(weights * of_pieces, work, out=np.ones(len(work)), where=work > 0)
    optimum = maximise(
        pieces.market,
        share / weights.sum(),
        whole=False,
        minimum=None,
        maximum=pieces.within(bounds.most),
    )
    free = np.zeros(len(market.capacities))
    gap = max(optimum.gap, 0.0)
    cores = pieces.of_jobs(optimum.cores)
    return PricingResult(cores, free, "marginal gains", 1, gap, gap < ROUNDING)


def _price_anticipating(market: AmdahlMarket, parallelism: Integers | None) -> PricingResult:
    users, servers, worth = _linear(market)
    limits = None if parallelism is None else parallelism[users]
    shares_sold = ShareMarket(market.budgets[users], worth[:, servers], limits)
    equilibrium = find_share_market_equilibrium(shares_sold, tolerance=GAIN)
    shares = np.zeros_like(worth)
    shares[:, servers] = equilibrium.shares
    prices = np.zeros(len(market.capacities))
    prices[servers] = equilibrium.prices / market.capacities[servers]
    figures = equilibrium.iterations, equilibrium.gain, equilibrium.converged
    return PricingResult(_to_jobs(market, users, shares), prices, equilibrium.solver, *figures)


def _auction(market: AmdahlMarket, auctioned: AuctionResults) -> PricingResult:
    paid = market.sum_by_server(auctioned.spends) / market.capacities
    figures = auctioned.iterations, auctioned.gain, auctioned.converged
    solver = "auctions by bids in turn"
    return PricingResult(auctioned.cores, paid, solver, *figures, auctioned.spends)


def _linear(market: AmdahlMarket) -> tuple[Integers, Integers, Floats]:
    """Return the users and the servers with jobs, and the worth of each server to each user."""
    users = np.flatnonzero(np.diff(market.by_user.start))
    servers = np.flatnonzero(np.diff(market.by_server.start))
    if len(users) * len(market.capacities) > LARGEST_MATRIX:
        raise PricingError(
            f"{len(users)} users on {len(market.capacities)} servers are too many for this "
            f"mechanism; AmdahlBidding and BestResponse take them"
        )
    row = np.zeros(len(market.budgets), np.int64)
    row[users] = np.arange(len(users))
    worth = np.zeros((len(users), len(market.capacities)))
    value = market.work * _parts(market) * market.capacities[market.server]
    np.add.at(worth, (row[market.user], market.server), value)
    return users, servers, worth


def _to_jobs(market: AmdahlMarket, users: Integers, shares: Floats) -> Floats:
    """Return the cores of each job, shape (k,): its part of its user's share of its server."""
    row = np.zeros(len(market.budgets), np.int64)
    row[users] = np.arange(len(users))
    held = shares[row[market.user], market.server] * market.capacities[market.server]
    return np.asarray(held * _parts(market))


def _parts(market: AmdahlMarket) -> Floats:
    """Return each job's part of what its user holds on its server, in proportion to its work."""
    _, member = np.unique(market.pair, return_inverse=True)
    return np.asarray(market.work / np.bincount(member, market.work)[member])
