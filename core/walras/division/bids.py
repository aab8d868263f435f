"""Bids of jobs for the cores and memory of nodes.

A job in Abacus is a MarketJob with all its pods, and a resource is the cores or the memory of one
node, here called a lot. The weight of a kind of resource is divided among the job's nodes in
proportion to their capacities. So the job's utility depends on its share of what all its nodes
have, however many they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from walras.mechanisms.abacus.minima import NO_MINIMUM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from walras.market.snapshot import Bid, Job, Node, Policy
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Bools, Floats, Integers

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
