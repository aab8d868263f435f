"""Auctions of the cores and memory of nodes among jobs (Abacus).

The jobs of an entitlement divide its budget by the ``budget`` of their bids; a job's utility
depends on its shares of what is auctioned on the nodes of its pods. Nodes that no job connects are
auctioned separately. A minimum utility that a job demands moves money to it from the other jobs of
its entitlement (`walras.mechanisms.abacus.minima`), never from others: nobody can check it.

An auction promises utilities by shares in real numbers; pods hold thousandths of cores and whole
pages. Whether a promise is kept depends on what pods hold in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.division.bids import CORES, MEMORY, Bids, gather_bids
from walras.division.holdings import THOUSANDTH
from walras.division.memory import PAGE
from walras.market.plan import BidOutcome
from walras.mechanisms.abacus.auction import Auction
from walras.mechanisms.abacus.minima import SLACK, run_auctions_with_minima
from walras.numerics.segments import group
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.market.snapshot import Job, Node, Policy
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Bools, Floats, Integers

LARGEST_MATRIX = 20_000_000
"""Cells of one matrix, such as users times servers: 160 MB of floating-point numbers."""


@dataclass(frozen=True)
class AuctionResults:
    """Outcome of all auctions, for b jobs with p bids and k pods.

    Attributes:
        shares: Share of its lot that each bid wins, shape (p,).
        promised: Whether each job has a minimum that its entitlement's money pays for, shape (b,).
        cores: Cores of each pod before rounding, shape (k,); zeros unless cores were auctioned.
        memory: Bytes of each pod, shape (k,); zeros unless memory was auctioned.
        spends: Payment of each pod for cores, in units of the budgets, shape (k,).
        gain: Proven bound on the part of its utility that any job could gain by other bids.
    """

    bids: Bids
    shares: Floats
    promised: Bools
    cores: Floats
    memory: Floats
    spends: Floats
    iterations: int
    gain: float
    converged: bool


def hold_auctions(
    market: AmdahlMarket, jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy
) -> AuctionResults:
    """Auction the resources that ``policy`` names, on every node that sells cores.

    Args:
        market: Jobs, users and servers as arrays.
        jobs: The jobs of the market, one for each of k pods.
        nodes: The servers of the market.
        policy: Resources that are auctioned, and the exponent of bids.

    Raises:
        PricingError: Jobs connect more nodes than one auction can take.
    """
    bids = gather_bids(market, jobs, nodes, policy)
    drawn = [_auction(bids, some, policy) for some in bids.connected()]
    everyone = np.concatenate([np.zeros(0, np.int64), *(each.jobs for each in drawn)])
    outcome = run_auctions_with_minima(
        [each.auction for each in drawn],
        bids.user[everyone],
        bids.minima[everyone],
        _slack(bids)[everyone],
    )
    shares, spends = np.zeros((2, len(bids.node)))
    for each, result in zip(drawn, outcome.auctions, strict=True):
        shares[each.bids] = result.shares[each.row, each.column]
        spends[each.bids] = result.sub_budgets[each.row, each.column]
    promised = np.zeros(len(bids.jobs), np.bool_)
    promised[everyone] = outcome.promised
    budgets = np.zeros(len(bids.jobs))
    budgets[everyone] = outcome.budgets
    bids = replace(bids, budgets=budgets)
    cores = bids.of_pods(shares * bids.capacity)[:, CORES]
    memory = _memory(bids.of_pods(shares)[:, MEMORY], market, jobs, nodes, policy)
    paid = bids.of_pods(spends)[:, CORES]
    return AuctionResults(
        bids,
        shares,
        promised,
        cores,
        memory,
        paid,
        iterations=max((each.iterations for each in outcome.auctions), default=0),
        gain=max((each.gain for each in outcome.auctions), default=0.0),
        converged=all(each.converged for each in outcome.auctions),
    )


class _Drawn(NamedTuple):
    """One auction: a matrix of jobs times lots.

    Attributes:
        auction: The auction.
        jobs: Number of each job, a row each.
        bids: Number of each bid.
        row: Row of each bid's job.
        column: Column of each bid's lot.
    """

    auction: Auction
    jobs: Integers
    bids: Integers
    row: Integers
    column: Integers


def _auction(bids: Bids, some: Integers, policy: Policy) -> _Drawn:
    """Return the auction of the bids numbered ``some``."""
    who, row = np.unique(bids.job[some], return_inverse=True)
    lots, column = np.unique(bids.lot[some], return_inverse=True)
    if len(who) * len(lots) > LARGEST_MATRIX:
        raise PricingError(
            f"{len(who)} jobs with pods on {len(lots)} nodes that they share are too many for one "
            f"auction; AmdahlBidding takes them"
        )
    weights = np.zeros((len(who), len(lots)))
    weights[row, column] = bids.weight[some]
    limits = np.ones_like(weights)
    limits[row, column] = bids.useful[some]
    auction = Auction(
        bids.budgets[who],
        weights,
        logarithmic=bids.logarithmic[who],
        alpha=policy.exponent,
        limits=limits,
    )
    return _Drawn(auction, who, some, row, column)


def _memory(
    shares: Floats, market: AmdahlMarket, jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy
) -> Floats:
    """Return each pod's bytes by its share, shape (k,), minimums first if they fit the node.

    What a pod cannot use goes to the other pods of its node in proportion.
    """
    upper = np.array([0.0 if job.memory is None else float(job.memory.usable) for job in jobs])
    if policy.memory != "Auction":
        return np.zeros_like(upper)
    capacity = np.array([float(node.memory) for node in nodes])
    lower = np.array([0.0 if job.memory is None else float(job.memory.least) for job in jobs])
    crowded = market.sum_by_server(lower) > capacity
    lower[crowded[market.server]] = 0.0
    return water_fill(shares, lower, upper, capacity, group(market.server, len(nodes)))


class PricingError(ValueError):
    """A market that a mechanism cannot take; the message names mechanisms that can."""


def bid_outcomes(
    auctioned: AuctionResults, cores: Floats, memory: Sequence[int | None]
) -> tuple[BidOutcome, ...]:
    """Return the outcome of every job's bid, from what its pods hold.

    Args:
        auctioned: Outcome of the auctions.
        cores: Cores that each pod holds, shape (k,).
        memory: Bytes granted to each of k pods; None for pods without a demand.
    """
    bids = auctioned.bids
    granted = np.array([float(each or 0) for each in memory])
    utilities = _for_users(bids, bids.utilities(bids.of_bids(cores, granted)))
    reach = _for_users(bids, bids.utilities(bids.useful))
    met = utilities >= _for_users(bids, bids.minima) - _slack(bids)
    return tuple(
        BidOutcome(
            namespace=job.namespace,
            name=job.name,
            entitlement=job.entitlement,
            budget=float(bids.budgets[b]),
            weights=(job.bid.cores, job.bid.memory),
            utility=float(utilities[b]),
            reach=float(reach[b]),
            minimum=job.bid.minimum_utility,
            promised=bool(auctioned.promised[b]),
            met=bool(met[b]),
        )
        for b, job in enumerate(bids.jobs)
    )


def breaks_promise(auctioned: AuctionResults, before: Floats, after: Floats) -> Bools:
    """Return whether each pod's job has its minimum by some cores but not by earlier ones.

    Args:
        auctioned: Outcome of the auctions.
        before: Cores that each pod held before, shape (k,).
        after: Cores by which jobs have their minimums, shape (k,).
    """
    bids = auctioned.bids

    def kept(cores: Floats) -> Bools:
        utilities = bids.utilities(bids.of_bids(cores, auctioned.memory))
        return np.asarray(utilities >= bids.minima - _slack(bids), np.bool_)

    broken = kept(after) & ~kept(np.maximum(before, 0.0))
    job = np.append(bids.job, -1)[bids.of_pod[:, CORES]]
    return np.asarray(np.append(broken, False)[job], np.bool_)


def _for_users(bids: Bids, utilities: Floats) -> Floats:
    """Return utilities as users see them: the exponential of those that are logarithmic."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(bids.logarithmic, np.exp(utilities), utilities), np.float64)


def _slack(bids: Bids) -> Floats:
    """Return the utility that solvers and whole units may leave a job short of, shape (b,)."""
    unit = np.where(bids.resource == MEMORY, PAGE, THOUSANDTH)
    return bids.by_job(bids.weight * (SLACK + unit * bids.pods / bids.capacity))
