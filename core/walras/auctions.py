"""Auctions of the cores and memory of nodes among jobs (Abacus).

The jobs of an entitlement divide its budget by the ``budget`` of their bids; a job's utility
depends on its shares of what is auctioned on the nodes of its pods (`walras.auction_bids`). Nodes
that no job connects are auctioned separately. Where jobs demand a minimum utility, those that pay
best and can be promised theirs come first (section 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.abacus.auction import Auction, run_auction
from walras.abacus.slo import run_pool_auction
from walras.auction_bids import CORES, MEMORY, NO_MINIMUM, Bids, gather_bids
from walras.market_limits import LARGEST_MATRIX, PricingError
from walras.water_filling import water_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket
    from walras.snapshot import Job, Node, Policy

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class AuctionResults:
    """Outcome of all auctions, for b jobs with p bids and k pods.

    Attributes:
        bids: Bids of the jobs.
        shares: Share of its lot that each bid wins, shape (p,).
        prolific: Whether each job is in the prolific pool, whose members are served by their bids,
            shape (b,).
        cores: Cores of each pod before rounding, shape (k,); zeros unless cores were auctioned.
        memory: Bytes of each pod, shape (k,); zeros unless memory was auctioned.
        spends: Payment of each pod for cores, in units of the budgets, shape (k,).
        iterations: Iterations of the longest auction.
        gain: Proven bound on the part of its utility that any job could gain by other bids.
        converged: Whether every auction converged.
    """

    bids: Bids
    shares: Floats
    prolific: Bools
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
    shares, spends = np.zeros((2, len(bids.node)))
    prolific = np.zeros(len(bids.jobs), np.bool_)
    iterations, gain, converged = 0, 0.0, True
    for some in bids.connected():
        result = _hold(bids, some, policy)
        shares[some], spends[some] = result.shares, result.spends
        prolific[result.prolific] = True
        iterations = max(iterations, result.iterations)
        gain = max(gain, result.gain)
        converged = converged and result.converged
    cores = bids.of_pods(shares * bids.capacity)[:, CORES]
    memory = _memory(bids.of_pods(shares)[:, MEMORY], market, jobs, nodes, policy)
    paid = bids.of_pods(spends)[:, CORES]
    return AuctionResults(
        bids, shares, prolific, cores, memory, paid, iterations, gain, converged=converged
    )


class _Result(NamedTuple):
    """Outcome of one auction: shares and payments by bid, and the jobs in the prolific pool."""

    shares: Floats
    spends: Floats
    prolific: Counts
    iterations: int
    gain: float
    converged: bool


def _hold(bids: Bids, some: Counts, policy: Policy) -> _Result:
    """Hold one auction of the bids numbered ``some``, as a matrix of jobs times lots."""
    who, row = np.unique(bids.job[some], return_inverse=True)
    lots, column = np.unique(bids.lot[some], return_inverse=True)
    if len(who) * len(lots) > LARGEST_MATRIX:
        raise PricingError(
            f"{len(who)} jobs with pods on {len(lots)} nodes that they share are too many for one "
            f"auction; AmdahlBidding takes them"
        )
    weights = np.zeros((len(who), len(lots)))
    weights[row, column] = bids.weight[some]
    logarithmic, minima = bids.logarithmic[who], bids.minima[who]
    auction = Auction(bids.budgets[who], weights, logarithmic=logarithmic, alpha=policy.exponent)
    if (minima == NO_MINIMUM).all():
        plain = run_auction(auction)
        won, paid = plain.shares[row, column], plain.sub_budgets[row, column]
        return _Result(won, paid, who, plain.iterations, plain.gain, plain.converged)
    useful = np.ones_like(weights)
    useful[row, column] = bids.useful[some]
    pool = run_pool_auction(auction, minima, useful=useful, seed=policy.seed)
    paid = np.zeros_like(weights)
    paid[pool.prolific] = pool.auction.sub_budgets
    inner = pool.auction
    return _Result(
        pool.shares[row, column],
        paid[row, column],
        who[pool.prolific],
        inner.iterations,
        inner.gain,
        inner.converged,
    )


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
