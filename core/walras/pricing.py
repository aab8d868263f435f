"""What every mechanism makes of a market for cores: real numbers of cores, prices, and how sure.

One function a mechanism. The one for linear utilities (`PriceAnticipating`) sees users and servers
only: what a user holds on a server is worth, to its jobs there, their work a core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from walras.amdahl.best_response import find_nash_equilibrium
from walras.amdahl.equilibrium import find_equilibrium
from walras.amdahl.greedy import allocate_greedily
from walras.amdahl.proportional import share_proportionally
from walras.amdahl.upper_bound import maximise_progress
from walras.price_anticipating.market import ShareMarket
from walras.price_anticipating.nash import find_nash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket
    from walras.amdahl.upper_bound import Optimum
    from walras.auctions import Auctioned
    from walras.snapshot import Policy

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

LARGEST_MATRIX = 20_000_000
"""Users times servers that the mechanisms for linear utilities take; 160 MB a matrix."""

ROUNDING = 1e-9
"""Relative gap between an optimum and its bound that arithmetic leaves."""

GAIN = 1e-3
"""Part of its utility that a user of linear utility may still gain by other bids in the end."""


class PricingError(ValueError):
    """A market that a mechanism cannot take; says which one can."""


class Bounds(NamedTuple):
    """Fewest and most cores of each job, shape (k,); 0 and infinity where there is none."""

    least: Floats
    most: Floats

    @property
    def named(self) -> _Named:
        """The bounds as mechanisms take them, None where there are none."""
        return {
            "minimum": self.least if self.least.any() else None,
            "maximum": self.most if np.isfinite(self.most).any() else None,
        }


class _Named(TypedDict):
    minimum: Floats | None
    maximum: Floats | None


class Priced(NamedTuple):
    """What a mechanism decided.

    Attributes:
        cores: shape (k,), real numbers.
        prices: shape (m,), per core in units of the budgets; 0 where nothing is paid.
        solver: name of the method.
        iterations: that it took.
        price_error: proven bound on the relative error of prices; infinity if there is none.
        residual: how far the result is from what defines it: the largest relative violation of
            an equilibrium condition, the largest part of its utility that a user could gain by
            other bids, or the proven gap to the optimum.
        converged: whether the solver reached what was asked.
        spends: shape (k,), what jobs pay, where that is not the price of their cores.
    """

    cores: Floats
    prices: Floats
    solver: str
    iterations: int
    price_error: float
    residual: float
    converged: bool
    spends: Floats | None = None


def price(
    market: AmdahlMarket,
    bounds: Bounds,
    policy: Policy,
    auctioned: Auctioned | None = None,
    parallelism: Counts | None = None,
) -> Priced:
    """Divide cores by the mechanism that ``policy`` names.

    Args:
        market: users, servers and jobs.
        bounds: of the jobs' cores.
        policy: names the mechanism.
        auctioned: what auctions came to, if that is the mechanism.
        parallelism: shape (n,), most servers that each user bids on where utilities are linear;
            no bound if not given.

    Raises:
        PricingError: the market is too large for it.
    """
    if market.jobs == 0:
        nothing = np.zeros(len(market.capacities))
        return Priced(np.zeros(0), nothing, "none", 0, 0.0, 0.0, converged=True)
    if auctioned is not None and policy.cores == "Auction":
        return _auction(market, auctioned)
    match policy.cores:
        case "ProportionalSharing":
            return _proportional_sharing(market, bounds)
        case "BestResponse":
            return _best_response(market, policy.tolerance)
        case "Greedy":
            return _without_prices(allocate_greedily(market, **bounds.named))
        case "UpperBound":
            return _without_prices(maximise_progress(market, **bounds.named))
        case "PriceAnticipating":
            return _price_anticipating(market, parallelism)
        case _:
            return _amdahl_bidding(market, bounds, policy.tolerance)


def _amdahl_bidding(market: AmdahlMarket, bounds: Bounds, tolerance: float) -> Priced:
    found = find_equilibrium(market, tolerance=tolerance, **bounds.named)
    solver = found.solver
    if not found.converged and any(each is not None for each in bounds.named.values()):
        # Within bounds and at f near 1 an equilibrium may be beyond reach: better one without
        # bounds, which rounding brings in, than none.
        found = find_equilibrium(market, tolerance=tolerance)
        solver = f"{found.solver}, bounds at rounding"
    return Priced(
        found.cores,
        found.prices,
        solver,
        found.iterations,
        found.price_error,
        found.residual,
        found.converged,
    )


def _proportional_sharing(market: AmdahlMarket, bounds: Bounds) -> Priced:
    cores = share_proportionally(market, maximum=bounds.most)
    ones = np.ones(len(market.capacities))
    return Priced(cores, ones, "closed form", 1, 0.0, 0.0, converged=True)


def _best_response(market: AmdahlMarket, tolerance: float) -> Priced:
    found = find_nash_equilibrium(market, tolerance=tolerance)
    return Priced(
        found.cores,
        found.prices,
        "best responses in turn",
        found.iterations,
        float("inf"),
        found.gain,
        found.converged,
    )


def _without_prices(found: Optimum) -> Priced:
    free = np.zeros(len(found.market.capacities))
    gap = max(found.gap, 0.0)
    return Priced(found.cores, free, "marginal gains", 1, 0.0, gap, gap < ROUNDING)


def _price_anticipating(market: AmdahlMarket, parallelism: Counts | None) -> Priced:
    users, servers, worth = _linear(market)
    limits = None if parallelism is None else parallelism[users]
    shares_sold = ShareMarket(market.budgets[users], worth[:, servers], limits)
    found = find_nash(shares_sold, tolerance=GAIN)
    shares = np.zeros_like(worth)
    shares[:, servers] = found.shares
    prices = np.zeros(len(market.capacities))
    prices[servers] = found.prices / market.capacities[servers]
    return Priced(
        _to_jobs(market, users, shares),
        prices,
        found.solver,
        found.iterations,
        float("inf"),
        found.gain,
        found.converged,
    )


def _auction(market: AmdahlMarket, auctioned: Auctioned) -> Priced:
    paid = market.sum_by_server(auctioned.spends) / market.capacities
    return Priced(
        auctioned.cores,
        paid,
        "auctions by bids in turn",
        auctioned.iterations,
        float("inf"),
        auctioned.gain,
        auctioned.converged,
        auctioned.spends,
    )


def _linear(market: AmdahlMarket) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return the users and servers with jobs, and what each server is worth to each such user."""
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


def _to_jobs(market: AmdahlMarket, users: NDArray[np.int64], shares: Floats) -> Floats:
    """Divide what each user holds on each server among its jobs there."""
    row = np.zeros(len(market.budgets), np.int64)
    row[users] = np.arange(len(users))
    held = shares[row[market.user], market.server] * market.capacities[market.server]
    return np.asarray(held * _parts(market))


def _parts(market: AmdahlMarket) -> Floats:
    """Return each job's part of what its user holds on its server, in proportion to its work."""
    pair = market.user * len(market.capacities) + market.server
    _, member = np.unique(pair, return_inverse=True)
    return np.asarray(market.work / np.bincount(member, market.work)[member])
