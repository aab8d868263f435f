"""Auctions of the cores and memory of nodes among jobs (Abacus).

The jobs of an entitlement divide its budget by the ``budget`` of their bids; a job's utility
depends on its shares of what is auctioned on the nodes of its pods. Nodes that no job connects are
auctioned separately. A minimum utility that a job demands moves money to it from the other jobs of
its entitlement (`walras.mechanisms.abacus.minima`), never from others: nobody can check it.

A job in Abacus is a MarketJob with all its pods, and a resource is the cores or the memory of one
node, here called a lot. The weight of a kind of resource is divided among the job's nodes in
proportion to their capacities. So the job's utility depends on its share of what all its nodes
have, however many they are.

An auction promises utilities by shares in real numbers; pods hold thousandths of cores and whole
pages. Whether a promise is kept depends on what pods hold in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from walras.division.holdings import THOUSANDTH
from walras.division.memory import PAGE
from walras.market.plan import BidOutcome
from walras.mechanisms.abacus.auction import Auction
from walras.mechanisms.abacus.minima import NO_MINIMUM, SLACK, run_auctions_with_minima
from walras.numerics.segments import group
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from walras.market.snapshot import Bid, Job, Node, Policy
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


CORES, MEMORY = 0, 1


@dataclass(frozen=True)
class Bids:
    """Bids of b jobs with k pods: p bids, each of one job for one lot.

    Attributes:
        jobs: First pod of each job, b of them.
        user: Number of the user that owns each job, shape (b,).
        budgets: Budget of each job, in units of the market's budgets, shape (b,).
        job: Index of the job that bids, ascending, shape (p,).
        node: Index of the node that has the lot, shape (p,).
        resource: CORES or MEMORY, whichever the lot is, shape (p,).
        weight: Utility of the whole lot to the job, shape (p,).
        useful: Part of the lot that the job's pods can use, at most 1, shape (p,).
        capacity: Cores or bytes of the lot, shape (p,).
        pods: Number of the job's pods that the bid is for, shape (p,).
        of_pod: Index of each pod's bid for cores and for memory, -1 for none, shape (k, 2).
    """

    jobs: tuple[Job, ...]
    user: Integers
    budgets: Floats
    job: Integers
    node: Integers
    resource: Integers
    weight: Floats
    useful: Floats
    capacity: Floats
    pods: Integers
    of_pod: Integers

    @cached_property
    def lot(self) -> Integers:
        """Number of each bid's lot, unique for a node and a resource, shape (p,)."""
        return 2 * self.node + self.resource

    @cached_property
    def logarithmic(self) -> Bools:
        """Whether each job's utility is logarithmic, shape (b,)."""
        return np.array([each.bid.utility == "Log" for each in self.jobs], np.bool_)

    @cached_property
    def minima(self) -> Floats:
        """Utility that each job demands, as a logarithm if it is logarithmic, shape (b,)."""
        return np.array([_least(each.bid) for each in self.jobs])

    def by_job(self, values: Floats) -> Floats:
        """Return the sum over each job's bids, shape (b,), of values of shape (p,)."""
        return np.asarray(np.bincount(self.job, values, len(self.jobs)), np.float64)

    def utilities(self, shares: Floats) -> Floats:
        """Return the utility of each job, shape (b,), for shares of lots, shape (p,)."""
        used = np.minimum(shares, self.useful)
        log = self.logarithmic[self.job]
        with np.errstate(divide="ignore"):
            return self.by_job(self.weight * np.where(log, np.log(used), used))

    def of_pods(self, values: Floats) -> Floats:
        """Return values of bids, shape (p,), divided evenly among their pods, shape (k, 2)."""
        padded = np.append(values / self.pods, 0.0)
        return np.asarray(padded[self.of_pod], np.float64)

    def of_bids(self, cores: Floats, memory: Floats) -> Floats:
        """Return shares of lots, shape (p,), for the cores and bytes of pods, shape (k,)."""
        held = np.zeros(len(self.node) + 1)
        np.add.at(held, self.of_pod, np.stack([cores, memory], axis=1))
        return np.asarray(held[:-1] / self.capacity, np.float64)

    def connected(self) -> Iterator[Integers]:
        """Yield the indices of the bids of each auction: of one connected set of jobs and nodes."""
        parent = np.arange(int(self.node.max(initial=-1)) + 1).tolist()

        def root(node: int) -> int:
            while parent[node] != node:
                parent[node] = node = parent[parent[node]]
            return node

        first = np.flatnonzero(np.diff(self.job, prepend=-1))
        for job, node in zip(self.job.tolist(), self.node.tolist(), strict=True):
            parent[root(node)] = root(int(self.node[first[job]]))
        label = np.array([root(node) for node in self.node.tolist()], np.int64)
        order = np.argsort(label, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
            if len(part):
                yield part


def _least(bid: Bid) -> float:
    if bid.minimum_utility is None:
        return NO_MINIMUM
    return float(np.log(bid.minimum_utility)) if bid.utility == "Log" else bid.minimum_utility


def gather_bids(
    market: AmdahlMarket, jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy
) -> Bids:
    """Return the bids of all jobs for the resources that the policy auctions.

    Args:
        market: Jobs, users and servers as arrays.
        jobs: The jobs of the market, one for each of k pods.
        nodes: The servers of the market.
        policy: Resources that are auctioned.
    """
    numbers, firsts = _numbered(jobs)
    rows = [
        (numbers[k], int(market.server[k]), resource, k, weight, useful, capacity)
        for k, job in enumerate(jobs)
        for resource, weight, useful, capacity in _lots(job, nodes[market.server[k]], policy)
    ]
    number, node, resource, pod, weight, useful, capacity = _columns(rows)
    bidding, job = np.unique(number, return_inverse=True)
    key, bid = np.unique((job * len(nodes) + node) * 2 + resource, return_inverse=True)
    first = np.zeros(len(key), np.int64)
    first[bid[::-1]] = np.arange(len(bid))[::-1]
    of_pod = np.full((len(jobs), 2), -1, np.int64)
    of_pod[pod, resource] = bid
    useful = np.minimum(np.bincount(bid, useful, len(key)) / capacity[first], 1.0)
    pods = [firsts[each] for each in bidding.tolist()]
    bids = Bids(
        jobs=tuple(jobs[each] for each in pods),
        user=market.user[np.array(pods, np.int64)],
        budgets=np.zeros(len(bidding)),
        job=job[first],
        node=node[first],
        resource=resource[first],
        weight=weight[first],
        useful=useful,
        capacity=capacity[first],
        pods=np.bincount(bid, minlength=len(key)),
        of_pod=of_pod,
    )
    return _with_budgets(bids, market)


def _numbered(pods: Sequence[Job]) -> tuple[list[int], list[int]]:
    """Return the number of each pod's job, and the index of each job's first pod."""
    number_of: dict[tuple[str, str, str], int] = {}
    numbers: list[int] = []
    firsts: list[int] = []
    for k, pod in enumerate(pods):
        number = number_of.setdefault((pod.entitlement, pod.namespace, pod.name), len(number_of))
        if number == len(firsts):
            firsts.append(k)
        numbers.append(number)
    return numbers, firsts


def _columns(rows: list[tuple[int, int, int, int, float, float, float]]) -> Sequence[NDArray[Any]]:
    number, node, resource, pod, *figures = zip(*rows, strict=True) if rows else [()] * 7
    integers = (np.array(each, np.int64) for each in (number, node, resource, pod))
    return *integers, *(np.array(each, np.float64) for each in figures)


def _with_budgets(bids: Bids, market: AmdahlMarket) -> Bids:
    """Return bids with budgets set, and with weights divided among nodes by their capacities."""
    asked = np.array([each.bid.budget for each in bids.jobs])
    together = np.bincount(bids.user, asked, len(market.budgets))
    whole = np.zeros((len(bids.jobs), 2))
    np.add.at(whole, (bids.job, bids.resource), bids.capacity)
    return replace(
        bids,
        budgets=market.budgets[bids.user] * asked / together[bids.user],
        weight=bids.weight * bids.capacity / whole[bids.job, bids.resource],
    )


def _lots(job: Job, node: Node, policy: Policy) -> Iterator[tuple[int, float, float, float]]:
    """Yield resource, weight, usable amount and capacity of each lot that a pod bids for."""
    if policy.cores == "Auction":
        most = node.cores if job.max_cores is None else job.max_cores
        yield CORES, job.bid.cores, float(most), float(node.cores)
    if policy.memory == "Auction" and job.memory is not None and node.memory > 0:
        yield MEMORY, job.bid.memory, float(job.memory.usable), float(node.memory)
