"""Who bids for what in auctions: jobs, for the cores and the memory of their pods' nodes (pure).

Abacus's job is a MarketJob with all its pods, and a resource is what one node has of one kind, here
called a lot. Of a kind that is on several of its nodes, a job's weight is divided among these as
their capacities are: its utility is in its share of what all its nodes have, on however many it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from walras.memory import could_use

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from walras.amdahl.market import AmdahlMarket
    from walras.snapshot import Bid, Job, Node, Policy

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Bools = NDArray[np.bool_]

CORES, MEMORY = 0, 1

NO_MINIMUM = -1e9
"""Utility that any job has; a job without a minimum demands it."""


@dataclass(frozen=True)
class Bids:
    """Jobs that bid, b of them, and what each bids for, p bids of one lot each.

    Attributes:
        jobs: the first pod of each job, b of them.
        budgets: shape (b,), of each job, in units of the market's.
        job: shape (p,), which job's bid it is; rising.
        node: Index of the node that has the lot, shape (p,).
        resource: CORES or MEMORY, whichever the lot is, shape (p,).
        weight: shape (p,), what all of the lot is worth to the job.
        useful: shape (p,), the part of the lot that the job's pods can use, at most 1.
        capacity: shape (p,), cores or bytes of the lot.
        pods: shape (p,), how many pods of the job the bid is for.
        of_pod: shape (k, 2), each pod's bid for cores and for memory, -1 where there is none.
    """

    jobs: tuple[Job, ...]
    budgets: Floats
    job: Counts
    node: Counts
    resource: Counts
    weight: Floats
    useful: Floats
    capacity: Floats
    pods: Counts
    of_pod: Counts

    @cached_property
    def lot(self) -> Counts:
        """Number of each bid's lot, shape (p,): equal exactly where node and resource are."""
        return 2 * self.node + self.resource

    @cached_property
    def logarithmic(self) -> Bools:
        """Shape (b,), whose utility is in logarithms."""
        return np.array([each.bid.utility == "Log" for each in self.jobs], np.bool_)

    @cached_property
    def minima(self) -> Floats:
        """Shape (b,), the utility that each job demands: of a logarithmic one, its logarithm."""
        return np.array([_least(each.bid) for each in self.jobs])

    def by_job(self, values: Floats) -> Floats:
        """Add up values of bids, shape (p,), job by job: shape (b,)."""
        return np.asarray(np.bincount(self.job, values, len(self.jobs)), np.float64)

    def utilities(self, shares: Floats) -> Floats:
        """Return the utility of each job, shape (b,), of what it can use of shares, shape (p,)."""
        used = np.minimum(shares, self.useful)
        log = self.logarithmic[self.job]
        with np.errstate(divide="ignore"):
            return self.by_job(self.weight * np.where(log, np.log(used), used))

    def of_pods(self, values: Floats) -> Floats:
        """Divide values of bids, shape (p,), evenly among their pods: shape (k, 2)."""
        padded = np.append(values / self.pods, 0.0)
        return np.asarray(padded[self.of_pod], np.float64)

    def of_bids(self, cores: Floats, memory: Floats) -> Floats:
        """Add up what pods hold, cores and bytes of shape (k,), to shares of lots, shape (p,)."""
        held = np.zeros(len(self.node) + 1)
        np.add.at(held, self.of_pod, np.stack([cores, memory], axis=1))
        return np.asarray(held[:-1] / self.capacity, np.float64)

    def connected(self) -> Iterator[Counts]:
        """Yield the bids of each auction: of jobs and nodes that have to do with each other."""
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
        for group in np.split(order, np.flatnonzero(np.diff(label[order])) + 1):
            if len(group):
                yield group


def _least(bid: Bid) -> float:
    if bid.minimum_utility is None:
        return NO_MINIMUM
    return float(np.log(bid.minimum_utility)) if bid.utility == "Log" else bid.minimum_utility


def gather(market: AmdahlMarket, jobs: Sequence[Job], nodes: Sequence[Node], policy: Policy) -> Bids:
    """Find out who bids for what.

    Args:
        market: jobs, users and servers as arrays.
        jobs: the same jobs: pods of jobs, k of them.
        nodes: the same servers.
        policy: which resources are auctioned.
    """
    numbers, firsts = _numbered(jobs)
    rows = [
        (numbers[k], int(market.server[k]), resource, k, weight, useful, capacity)
        for k, job in enumerate(jobs)
        for resource, weight, useful, capacity in _wishes(job, nodes[market.server[k]], policy)
    ]
    number, node, resource, pod, weight, useful, capacity = _columns(rows)
    bidding, job = np.unique(number, return_inverse=True)
    key, bid = np.unique((job * len(nodes) + node) * 2 + resource, return_inverse=True)
    first = np.zeros(len(key), np.int64)
    first[bid[::-1]] = np.arange(len(bid))[::-1]
    of_pod = np.full((len(jobs), 2), -1, np.int64)
    of_pod[pod, resource] = bid
    pods = [firsts[each] for each in bidding.tolist()]
    found = Bids(
        jobs=tuple(jobs[each] for each in pods),
        budgets=np.zeros(len(bidding)),
        job=job[first],
        node=node[first],
        resource=resource[first],
        weight=weight[first],
        useful=np.minimum(np.bincount(bid, useful, len(key)) / capacity[first], 1.0),
        capacity=capacity[first],
        pods=np.bincount(bid, minlength=len(key)),
        of_pod=of_pod,
    )
    return _weighed(found, market, market.user[np.array(pods, np.int64)])


def _numbered(pods: Sequence[Job]) -> tuple[list[int], list[int]]:
    """Number jobs: of each pod the number of its job, and of each job its first pod."""
    known: dict[tuple[str, str, str], int] = {}
    numbers: list[int] = []
    firsts: list[int] = []
    for k, pod in enumerate(pods):
        number = known.setdefault((pod.entitlement, pod.namespace, pod.name), len(known))
        if number == len(firsts):
            firsts.append(k)
        numbers.append(number)
    return numbers, firsts


def _columns(rows: list[tuple[int, int, int, int, float, float, float]]) -> Sequence[NDArray[Any]]:
    number, node, resource, pod, *figures = zip(*rows, strict=True) if rows else [()] * 7
    integers = (np.array(each, np.int64) for each in (number, node, resource, pod))
    return *integers, *(np.array(each, np.float64) for each in figures)


def _weighed(bids: Bids, market: AmdahlMarket, user: Counts) -> Bids:
    """Return bids with budgets, and with weights divided among nodes by their capacities."""
    asked = np.array([each.bid.budget for each in bids.jobs])
    together = np.bincount(user, asked, len(market.budgets))
    whole = np.zeros((len(bids.jobs), 2))
    np.add.at(whole, (bids.job, bids.resource), bids.capacity)
    return replace(
        bids,
        budgets=market.budgets[user] * asked / together[user],
        weight=bids.weight * bids.capacity / whole[bids.job, bids.resource],
    )


def _wishes(job: Job, node: Node, policy: Policy) -> Iterator[tuple[int, float, float, float]]:
    """Yield resource, weight, useful amount and capacity of what a pod bids for on its node."""
    if policy.cores == "Auction":
        most = node.cores if job.max_cores is None else job.max_cores
        yield CORES, job.bid.cores, float(most), float(node.cores)
    if policy.memory == "Auction" and job.memory is not None and node.memory > 0:
        yield MEMORY, job.bid.memory, float(could_use(job.memory)), float(node.memory)
