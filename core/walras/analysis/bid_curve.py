"""The bid curve of a user: the cores that it would buy if all prices were other than they are.

All prices are multiplied by one factor, and the user's money stays the same. It makes the best
purchase at these prices (eq. 4 to 6), of which the weighted speedups have the largest sum within
its money and the bounds of its jobs, and stops where it is sated (`amdahl.satiation`). At a factor
of 1 that is what it buys in the market. The curve is the user's alone: it tells what the user would
do at other prices, and not which prices would sell all cores.

This module is plain Python, because `walras explain` runs where no numerical libraries are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING

from walras.speedup.amdahls_law import (
    FIRST_CORE,
    PROMISED,
    SPARED,
    speedup,
    speedup_in_hardware,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
"""Multiples of the present prices of which a curve tells."""

_LARGEST_FRACTION = 1 - 1e-9  # a job of f = 1 would buy all or nothing
_STEPS = 80


@dataclass(frozen=True, slots=True)
class PricedJob:
    """A pod that buys cores at a price.

    Attributes:
        cores: Cores that it has now; it keeps them if their price is 0.
        price: Price of a core on its node.
        fraction: Parallel fraction that it bids with, in (0, 1].
        work: Weight of its speedup among the user's.
        floor: Cores of them that it keeps whatever they cost.
        least: Fewest cores worth having; they count if the user can pay for those of all its jobs.
        most: Most cores that it can use or its node has.
    """

    cores: float
    price: float
    fraction: float
    work: float = 1.0
    floor: float = 0.0
    least: float = 0.0
    most: float = inf


@dataclass(frozen=True, slots=True)
class BidPoint:
    """A point of a bid curve.

    Attributes:
        factor: Multiple of the present prices.
        cores: Cores of all the user's jobs, with those that they keep.
        spend: Amount that the user pays for them, in the unit of prices.
        utility: Weighted mean of its jobs' speedups (eq. 4).
    """

    factor: float
    cores: float
    spend: float
    utility: float


def bid_curve(
    jobs: Sequence[PricedJob],
    money: float,
    factors: Sequence[float] = FACTORS,
    *,
    entitled: float = 0.0,
) -> tuple[BidPoint, ...]:
    """Return what a user would buy at multiples of the present prices.

    Args:
        jobs: All its pods in the market; at least one.
        money: Amount that it can spend.
        factors: Multiples, positive.
        entitled: Utility of its bare entitlement, which it is promised a part of.
    """
    return tuple(_point(jobs, money, factor, entitled) for factor in factors)


def _point(jobs: Sequence[PricedJob], money: float, factor: float, entitled: float) -> BidPoint:
    prices = [job.price * factor for job in jobs]
    cores = _purchase(jobs, prices, money, PROMISED * entitled)
    done = sum(
        job.work * speedup_in_hardware(x, job.fraction) for job, x in zip(jobs, cores, strict=True)
    )
    return BidPoint(
        factor,
        sum(cores),
        _cost(prices, cores),
        done / sum(job.work for job in jobs),
    )


def _purchase(
    jobs: Sequence[PricedJob], prices: Sequence[float], money: float, promise: float
) -> list[float]:
    """Return the cores of each job in the purchase with which a user is sated.

    At the optimum, the marginal speedup is the same multiple of the price for all jobs within their
    bounds: c / (c + (1 - c) x)^2 up to one core, with c the larger of f and `FIRST_CORE`, and
    f / (f + (1 - f) x)^2 beyond, each times the work. The search is for the inverse root of that
    multiple, with which cores, cost and utility grow.
    """
    least = [max(job.floor, job.least) for job in jobs]
    if _cost(prices, least) > money:
        least = [job.floor for job in jobs]

    def bought(root: float) -> list[float]:
        return [
            _bounded(job, price, lower, root)
            for job, price, lower in zip(jobs, prices, least, strict=True)
        ]

    most = [
        _bounded(job, price, lower, inf)
        for job, price, lower in zip(jobs, prices, least, strict=True)
    ]
    if bought(0.0) == most or _cost(prices, least) >= money:
        return bought(0.0)
    afford = _cost(prices, most) <= money
    root = _largest_root(
        lambda at: bought(at) != most if afford else _cost(prices, bought(at)) <= money
    )
    best = bought(root)
    reached = _worth(jobs, best)
    spared = SPARED * max(reached - 2 * _cost(prices, best) / root**2, 0.0)
    enough = max(reached - spared, min(promise * sum(job.work for job in jobs), reached))
    if enough >= reached:
        return best
    return bought(_largest_root(lambda at: _worth(jobs, bought(at)) <= enough))


def _largest_root(holds: Callable[[float], bool]) -> float:
    """Return the largest number, 0 or above, up to which something holds."""
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _worth(jobs: Sequence[PricedJob], cores: Sequence[float]) -> float:
    """Return the sum of weighted speedups, the first core of each job as the market sells it."""
    return sum(
        job.work
        * (speedup(x, job.fraction) if x >= 1 else speedup(x, max(job.fraction, FIRST_CORE)))
        for job, x in zip(jobs, cores, strict=True)
    )


def _bounded(job: PricedJob, price: float, lower: float, root: float) -> float:
    if price <= 0:
        return job.cores
    root *= sqrt(job.work / price)
    f = min(job.fraction, _LARGEST_FRACTION)
    first = max(f, FIRST_CORE)
    wanted = (root * sqrt(f) - f) / (1 - f)
    if wanted < 1:
        wanted = min((root * sqrt(first) - first) / (1 - first), 1.0)
    return float(min(max(wanted, lower), max(job.most, lower)))


def _cost(prices: Sequence[float], cores: Sequence[float]) -> float:
    return sum(price * x for price, x in zip(prices, cores, strict=True))
