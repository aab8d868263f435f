"""Auctions of the cores and memory of nodes among jobs (Abacus).

A job's budget is its part of its entitlement's, by the ``budget`` of its bid; its utility is in its
shares of what is auctioned on the nodes of its pods (`walras.bidders`). Nodes that no job connects
hold auctions of their own. Where jobs demand a minimum of utility, those who pay best and can be
promised theirs come first (section 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.abacus.auction import Auction, run_auction
from walras.abacus.slo import run_pool_auction
from walras.bidders import CORES, MEMORY, NO_MINIMUM, Bids, gather
from walras.fill import fill
from walras.memory import could_use
from walras.pricing import LARGEST_MATRIX, PricingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket
    from walras.snapshot import Job, Node, Policy

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Auctioned:
    """What all auctions came to.

    Attributes:
        bids: of jobs, b of them, on p lots.
        shares: shape (p,), of the lots.
        prolific: shape (b,), whether a job is in the pool of those who were served by their bids.
        cores: shape (k,), real numbers; zeros unless cores were auctioned.
        memory: shape (k,), bytes; zeros unless memory was auctioned.
        spends: shape (k,), what pods bid for cores, in units of the budgets.
        iterations: of the longest auction.
        gain: largest part of its utility that any job could gain by other bids, as proven.
        converged: whether every auction came to rest.
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
) -> Auctioned:
    """Auction what ``policy`` says, on every node that sells cores.

    Args:
        market: jobs, users and servers as arrays.
        jobs: the same jobs: pods, k of them.
        nodes: the same servers.
        policy: which resources are auctioned, and by which exponent of bids.

    Raises:
        PricingError: nodes that jobs connect are too many for one auction.
    """
    bids = gather(market, jobs, nodes, policy)
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
    return Auctioned(
        bids, shares, prolific, cores, memory, paid, iterations, gain, converged=converged
    )


class _Result(NamedTuple):
    """One auction: what each of its bids won and cost, and the jobs that are in its pool."""

    shares: Floats
    spends: Floats
    prolific: Counts
    iterations: int
    gain: float
    converged: bool


def _hold(bids: Bids, some: Counts, policy: Policy) -> _Result:
    """Hold one auction, of ``some`` of the bids, laid out as jobs times lots."""
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
    """Return bytes by shares, shape (k,), minimums first where a node has room for all of them.

    What a pod cannot use goes to the others of its node in proportion.
    """
    upper = np.array([0.0 if job.memory is None else float(could_use(job.memory)) for job in jobs])
    if policy.memory != "Auction":
        return np.zeros_like(upper)
    capacity = np.array([float(node.memory) for node in nodes])
    lower = np.array([0.0 if job.memory is None else float(job.memory.least) for job in jobs])
    crowded = market.sum_by_server(lower) > capacity
    lower[crowded[market.server]] = 0.0
    return fill(shares, lower, upper, capacity, group(market.server, len(nodes)))
