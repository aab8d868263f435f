"""Auctions of the cores and memory of every node among its jobs (Abacus).

Each node is an auction of its own. A job's budget is its part of its entitlement's, by the
``budget`` of its bid; its utility is in its shares of the resources that are auctioned. Where jobs
demand a minimum of utility, those who pay best and can be promised theirs come first (section 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._segments import group
from walras.abacus.auction import Auction, run_auction
from walras.abacus.slo import run_pool_auction
from walras.fill import fill
from walras.memory import could_use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from walras.amdahl.market import Market
    from walras.snapshot import Job, Node, Policy

    Floats = NDArray[np.float64]

CORES, MEMORY = 0, 1

NO_MINIMUM = -1e9
"""Utility that any job has; a job without a minimum demands it."""


class Auctioned(NamedTuple):
    """What the auctions of all nodes came to.

    Attributes:
        cores: shape (k,), real numbers; zeros unless cores were auctioned.
        memory: shape (k,), bytes; zeros unless memory was auctioned.
        spends: shape (k,), what jobs pay for cores, in units of the budgets.
        iterations: of the longest auction.
        gain: largest part of its utility that any job could gain by other bids, as proven.
        converged: whether every auction came to rest.
    """

    cores: Floats
    memory: Floats
    spends: Floats
    iterations: int
    gain: float
    converged: bool


def hold_auctions(
    market: Market, jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy
) -> Auctioned:
    """Auction what ``policy`` says, on every node that sells cores.

    Args:
        market: jobs, users and servers as arrays.
        jobs: the same jobs.
        nodes: the same servers.
        policy: which resources are auctioned, and by which exponent of bids.
    """
    auctioned = np.array([policy.cores == "Auction", policy.memory == "Auction"])
    budgets = _budgets(market, jobs)
    weights = np.array([_weights(job) for job in jobs]).reshape(len(jobs), 2) * auctioned
    cores, memory, spends = np.zeros((3, len(jobs)))
    iterations, gain, converged = 0, 0.0, True
    start, order = market.by_server
    for server, node in enumerate(nodes):
        here = order[start[server] : start[server + 1]].astype(np.int64)
        here = here[weights[here].any(axis=1)]
        if not len(here):
            continue
        result = _hold([jobs[k] for k in here], budgets[here], weights[here], policy)
        cores[here] = result.shares[:, CORES] * node.cores
        memory[here] = _memory([jobs[k] for k in here], result.shares[:, MEMORY], node.memory)
        spends[here] = result.spends[:, CORES]
        iterations = max(iterations, result.iterations)
        gain = max(gain, result.gain)
        converged = converged and result.converged
    return Auctioned(cores, memory, spends, iterations, gain, converged)


class _Result(NamedTuple):
    """One node's auction: shares and spends have shape (jobs, 2)."""

    shares: Floats
    spends: Floats
    iterations: int
    gain: float
    converged: bool


def _hold(jobs: Sequence[Job], budgets: Floats, weights: Floats, policy: Policy) -> _Result:
    logarithmic = np.array([job.bid.utility == "Log" for job in jobs])
    auction = Auction(budgets, weights, logarithmic=logarithmic, alpha=policy.exponent)
    minima = [job.bid.minimum_utility for job in jobs]
    if all(least is None for least in minima):
        plain = run_auction(auction)
        return _Result(
            plain.shares, plain.sub_budgets, plain.iterations, plain.gain, plain.converged
        )
    least = [NO_MINIMUM if each is None else each for each in minima]
    pool = run_pool_auction(auction, least, seed=policy.seed)
    spends = np.zeros_like(weights)
    spends[pool.prolific] = pool.auction.sub_budgets
    spends[pool.charges == 0] = 0.0
    inner = pool.auction
    return _Result(pool.shares, spends, inner.iterations, inner.gain, inner.converged)


def _budgets(market: Market, jobs: Sequence[Job]) -> Floats:
    bids = np.array([job.bid.budget for job in jobs])
    return np.asarray(market.budgets[market.user] * bids / market.sum_by_user(bids)[market.user])


def _weights(job: Job) -> tuple[float, float]:
    return job.bid.cores, job.bid.memory if job.memory is not None else 0.0


def _memory(jobs: Sequence[Job], shares: Floats, memory: int) -> Floats:
    """Return bytes by shares; what a job cannot use goes to the others in proportion."""
    upper = [0.0 if job.memory is None else float(could_use(job.memory)) for job in jobs]
    return fill(
        shares,
        np.zeros(len(jobs)),
        np.array(upper),
        np.array([float(memory)]),
        group(np.zeros(len(jobs), np.int64), 1),
    )
