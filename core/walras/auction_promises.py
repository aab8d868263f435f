"""Promises of auctions in whole cores, and the outcome of every bid.

An auction promises utilities by shares in real numbers; pods hold whole cores and pages. Rounding
keeps promises where it can. Whether a promise is kept depends on what pods hold in the end; a job
pays only if it is (section 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.abacus.slo import SLACK
from walras.apportion import SHARING_THRESHOLD
from walras.auction_bids import CORES, MEMORY
from walras.memory import PAGE
from walras.plan import BidOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket
    from walras.auction_bids import Bids
    from walras.auctions import AuctionResults

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Bools = NDArray[np.bool_]


def promised_cores(auctioned: AuctionResults, market: AmdahlMarket) -> Counts:
    """Return the whole cores that rounding must leave each pod, shape (k,); 0 for no promise.

    Rounding may take from a job in the pool the utility above its minimum, the same part of its
    cores on every node. The remaining cores of pods with a core or more are rounded up. Where a
    node has too few cores for all promises, the largest budgets come first.
    """
    bids = auctioned.bids
    needed = bids.of_pods(_needed(auctioned) * bids.capacity)[:, CORES]
    large = auctioned.cores >= SHARING_THRESHOLD
    whole = np.where(large & (needed > 0), np.ceil(needed * SHARING_THRESHOLD), 0.0).astype(
        np.int64
    )
    servers = len(market.capacities)
    room = market.capacities - np.bincount(market.server[large], minlength=servers)
    room -= np.bincount(market.server[~large], minlength=servers) > 0
    budget = np.append(bids.budgets, 0.0)[np.append(bids.job, -1)[bids.of_pod[:, CORES]]]
    for pod in np.argsort(-budget, kind="stable").tolist():
        more, server = max(int(whole[pod]) - 1, 0), int(market.server[pod])
        if more > room[server]:
            whole[pod] = 0
        else:
            room[server] -= more
    return whole


def _needed(auctioned: AuctionResults) -> Floats:
    """Return the least shares of cores with which jobs keep their minimums, shape (p,)."""
    bids = auctioned.bids
    used = np.minimum(auctioned.shares, bids.useful)
    of_cores = np.where(bids.resource == CORES, bids.weight, 0.0)
    promised = auctioned.prolific & _has_minimum(bids)
    spare = np.where(promised, bids.utilities(auctioned.shares) - bids.minima, 0.0)
    worth = bids.by_job(of_cores * np.where(bids.logarithmic[bids.job], 1.0, used))
    part = np.divide(spare, worth, out=np.zeros(len(worth)), where=worth > 0)
    kept = np.where(bids.logarithmic, np.exp(-part), np.maximum(1 - part, 0.0))
    return np.asarray(np.where(promised, kept, 0.0)[bids.job] * used, np.float64)


def bid_outcomes(
    auctioned: AuctionResults, cores: Floats, memory: Sequence[int | None]
) -> tuple[BidOutcome, ...]:
    """Return the outcome of every job's bid, from what its pods hold.

    Args:
        auctioned: Outcome of the auctions.
        cores: Whole cores of each pod, or its part of shared cores, shape (k,).
        memory: Bytes granted to each of k pods; None for pods without a demand.
    """
    bids = auctioned.bids
    granted = np.array([float(each or 0) for each in memory])
    utilities = _for_users(bids, bids.utilities(bids.of_bids(cores, granted)))
    reach = _for_users(bids, bids.utilities(np.ones(len(bids.node))))
    minima, slack = _for_users(bids, bids.minima), _slack(bids)
    kept = (utilities >= minima - slack) & np.where(_has_minimum(bids), True, auctioned.prolific)
    return tuple(
        BidOutcome(
            namespace=job.namespace,
            name=job.name,
            entitlement=job.entitlement,
            budget=float(bids.budgets[b]),
            utility=float(utilities[b]),
            reach=float(reach[b]),
            minimum=job.bid.minimum_utility,
            prolific=bool(auctioned.prolific[b]),
            charge=float(bids.budgets[b]) if kept[b] else 0.0,
        )
        for b, job in enumerate(bids.jobs)
    )


def _has_minimum(bids: Bids) -> Bools:
    return np.array([job.bid.minimum_utility is not None for job in bids.jobs], np.bool_)


def _for_users(bids: Bids, utilities: Floats) -> Floats:
    """Return utilities as users see them: the exponential of those that are logarithmic."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(bids.logarithmic, np.exp(utilities), utilities), np.float64)


def _slack(bids: Bids) -> Floats:
    """Return the utility that solvers and whole pages may leave a job short of, shape (b,)."""
    page = np.where(bids.resource == MEMORY, PAGE * bids.pods / bids.capacity, 0.0)
    return bids.by_job(bids.weight * (SLACK + page))
