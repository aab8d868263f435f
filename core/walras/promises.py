"""What jobs were promised in auctions, in whole cores, and whether that was kept (pure).

An auction promises utilities by shares in real numbers; pods hold whole cores and pages. Rounding
keeps promises where it can, and whether one was kept is judged by what pods hold in the end: only
then does a job pay (section 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.abacus.slo import SLACK
from walras.apportion import ALMOST
from walras.bidders import CORES, MEMORY
from walras.memory import PAGE
from walras.plan import BidOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket
    from walras.auctions import Auctioned
    from walras.bidders import Bids

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Bools = NDArray[np.bool_]


def promised_cores(auctioned: Auctioned, market: AmdahlMarket) -> Counts:
    """Return the whole cores that rounding must leave each pod, shape (k,); 0 where it is free.

    What utility a job in the pool has above its minimum may be taken from its cores, the same part
    of those on every node; of pods with a core and more, what is left of that is rounded up. Where
    a node has not enough for all its promises, the largest budgets come first.
    """
    bids = auctioned.bids
    needed = bids.of_pods(_needed(auctioned) * bids.capacity)[:, CORES]
    large = auctioned.cores >= ALMOST
    whole = np.where(large & (needed > 0), np.ceil(needed * ALMOST), 0.0).astype(np.int64)
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


def _needed(auctioned: Auctioned) -> Floats:
    """Return the shares of cores below which jobs in the pool miss their minimums, shape (p,)."""
    bids = auctioned.bids
    used = np.minimum(auctioned.shares, bids.useful)
    of_cores = np.where(bids.resource == CORES, bids.weight, 0.0)
    promised = auctioned.prolific & _has_minimum(bids)
    spare = np.where(promised, bids.utilities(auctioned.shares) - bids.minima, 0.0)
    worth = bids.by_job(of_cores * np.where(bids.logarithmic[bids.job], 1.0, used))
    part = np.divide(spare, worth, out=np.zeros(len(worth)), where=worth > 0)
    kept = np.where(bids.logarithmic, np.exp(-part), np.maximum(1 - part, 0.0))
    return np.asarray(np.where(promised, kept, 0.0)[bids.job] * used, np.float64)


def judge(
    auctioned: Auctioned, cores: Floats, memory: Sequence[int | None]
) -> tuple[BidOutcome, ...]:
    """Say what came of every job's bid, by what its pods hold.

    Args:
        auctioned: the auctions.
        cores: shape (k,), whole cores of pods or their parts of shared ones.
        memory: bytes granted to pods, k of them; None for those that take no part.
    """
    bids = auctioned.bids
    granted = np.array([float(each or 0) for each in memory])
    utilities = _told(bids, bids.utilities(bids.of_bids(cores, granted)))
    reach = _told(bids, bids.utilities(np.ones(len(bids.node))))
    minima, slack = _told(bids, bids.minima), _slack(bids)
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


def _told(bids: Bids, utilities: Floats) -> Floats:
    """Return utilities as people have them: of logarithmic jobs the product of shares to powers."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(bids.logarithmic, np.exp(utilities), utilities), np.float64)


def _slack(bids: Bids) -> Floats:
    """Return by how much jobs may miss a minimum, shape (b,): what solvers and pages leave."""
    page = np.where(bids.resource == MEMORY, PAGE * bids.pods / bids.capacity, 0.0)
    return bids.by_job(bids.weight * (SLACK + page))
