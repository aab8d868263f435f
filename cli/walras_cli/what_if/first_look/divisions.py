"""Pure: the cores of pods today, by their users' shares of nodes alone, and in the market.

Today means plain Kubernetes: the kernel divides a node's time by the weights that the kubelet gives
groups for their requests. In the market it divides it by what pods bought. Either way, what a pod
does not use goes to the others (weighted max-min fairness), and limits hold.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.analysis.domain_of_pod import MOST_SHARED
from walras.analysis.domains import BusyPod, Processors, time_by_grants
from walras.clearing import cores_held
from walras.division.holdings import THOUSANDTH
from walras.market.snapshot import Entitlement, Job, Snapshot, identity
from walras.numerics.segments import group
from walras.numerics.water_filling import water_fill
from walras_api.assembly import policy_of
from walras_api.market import MarketSpec

if TYPE_CHECKING:
    from walras.market.snapshot import Node
    from walras.numerics.arrays import Floats, Integers
    from walras.numerics.segments import Grouping
    from walras_cli.what_if.first_look.population import Population

WEIGHT_OF_CORE = 1024.0
LEAST_WEIGHT = 2.0
"""Weights in ``cpu.shares``: of a request of one CPU, and of one of nothing."""

WANTS_MORE = 0.8
"""Part of what it could have that a pod uses if it would use more."""


class Columns(NamedTuple):
    """The pods of a population as arrays of shape (k,)."""

    user: Integers
    node: Integers
    weight: Floats
    limit: Floats
    quality: Integers

    @classmethod
    def of(cls, population: Population) -> Columns:
        """Return the columns of a population's pods."""
        pods = population.pods
        order = ("Guaranteed", "Burstable", "BestEffort")
        weight = [max(LEAST_WEIGHT, math.floor(pod.request * WEIGHT_OF_CORE)) for pod in pods]
        return cls(
            np.array([pod.user for pod in pods], np.int64),
            np.array([pod.node for pod in pods], np.int64),
            np.array(weight, np.float64),
            np.array([pod.limit for pod in pods], np.float64),
            np.array([order.index(pod.quality) for pod in pods], np.int64),
        )

    def pairs(self, population: Population) -> tuple[Integers, Integers, Integers]:
        """Return the pair of a user and a node of each pod, and user and node of each pair."""
        nodes = len(population.nodes)
        pairs, pair = np.unique(self.user * nodes + self.node, return_inverse=True)
        return (pair, *np.divmod(pairs, nodes))


def plain_kubernetes(population: Population, most: Floats) -> Floats:
    """Return the cores of pods on nodes that the kernel divides by requests, shape (k,).

    As the kubelet lays out control groups: Guaranteed pods beside a group of all Burstable pods,
    whose weight is the sum of theirs, and one of all BestEffort pods, whose weight is the least.

    Args:
        population: The pods.
        most: Most cores that each pod uses, shape (k,).
    """
    at = Columns.of(population)
    nodes = len(population.nodes)
    # Members of the upper level are pods, or the group of a quality on a node.
    member = np.where(at.quality == 0, np.arange(len(at.node)), 0)
    grouped = at.quality > 0
    member[grouped] = len(at.node) + 2 * at.node[grouped] + at.quality[grouped] - 1
    names, member = np.unique(member, return_inverse=True)
    where = np.zeros(len(names), np.int64)
    where[member] = at.node
    weight = np.bincount(member, at.weight, len(names)).astype(np.float64)
    weight[(names >= len(at.node)) & ((names - len(at.node)) % 2 == 1)] = LEAST_WEIGHT
    wants = np.bincount(member, most, len(names)).astype(np.float64)
    room = np.array([node.cores for node in population.nodes])
    upper = _divided(weight, wants, room, group(where, nodes))
    return _divided(at.weight, most, upper, group(member, len(names)))


def shares_alone(population: Population, most: Floats) -> Floats:
    """Return the cores of pods where every user has its share of every node alone, shape (k,).

    A user's pods on a node divide its share by their weights.

    Args:
        population: The pods.
        most: Most cores that each pod uses, shape (k,).
    """
    at = Columns.of(population)
    part = np.array(population.shares, np.float64)
    part /= part.sum()
    pair, user, node = at.pairs(population)
    room = part[user] * np.array([each.cores for each in population.nodes])[node]
    return _divided(at.weight, most, room, group(pair, len(user)))


def conserving_work(population: Population, bought: Floats, most: Floats) -> Floats:
    """Return the cores of pods on nodes that the kernel divides by what they bought, shape (k,).

    What a pod leaves, its user's other pods on the node use first, and then those of others. On a
    node of several domains, they use what is left in their own.

    Args:
        population: The pods.
        bought: Cores that each pod bought, shape (k,).
        most: Most cores that each pod uses, shape (k,).
    """
    at = Columns.of(population)
    pair, _, node = at.pairs(population)
    users = len(node)
    room = np.array([each.cores for each in population.nodes])
    weight, wants = (np.asarray(np.bincount(pair, of, users), np.float64) for of in (bought, most))
    upper = _divided(weight, wants, room, group(node, len(room)))
    cores = _divided(bought, most, upper, group(pair, users))
    for number in np.unique(at.node[most < bought]).tolist():
        if room[number] > MOST_SHARED:
            there = np.flatnonzero(at.node == number)
            cores[there] = _in_domains(population.nodes[number], bought[there], most[there])
    return cores


def _in_domains(node: Node, bought: Floats, most: Floats) -> list[float]:
    """Return the cores of the pods of a node whose domains divide their time each on its own."""
    cpus = max(int(node.cores), 1)
    pods = [
        BusyPod(granted=granted, most=wanted)
        for granted, wanted in zip(bought.tolist(), most.tolist(), strict=True)
    ]
    times = time_by_grants(Processors(cpus, 1, min(node.sockets, cpus)), pods)
    return [min(time * node.cores / cpus, pod.most) for time, pod in zip(times, pods, strict=True)]


def _divided(weight: Floats, most: Floats, room: Floats, groups: Grouping) -> Floats:
    return water_fill(weight, np.zeros(len(weight)), most, room, groups)


def wanted(population: Population) -> Floats:
    """Return the most cores that each pod would use, shape (k,).

    That is its limit; of a pod whose use is known, and far below what it could have today, it is
    what it uses.
    """
    at = Columns.of(population)
    today = plain_kubernetes(population, at.limit)
    used = np.array([math.nan if pod.used is None else pod.used for pod in population.pods])
    idle = used < WANTS_MORE * today
    return np.where(idle, np.minimum(np.maximum(used, 1e-3), at.limit), at.limit)


class Market:
    """The market of a population, by the rules that a new Market has.

    A CPU limit is the most that a pod buys.

    Args:
        population: Users, nodes and pods.
    """

    def __init__(self, population: Population) -> None:
        self._population = population
        namespaces: list[set[str]] = [set() for _ in population.users]
        for pod in population.pods:
            namespaces[pod.user].add(pod.namespace)
        self._entitlements = tuple(
            Entitlement(name, share, namespaces=frozenset(admitted))
            for name, share, admitted in zip(
                population.users, population.shares, namespaces, strict=True
            )
        )
        self._policy = policy_of(MarketSpec())
        self._job_names = [f"{each.kind}/{each.name}" for each in population.jobs]

    def cores(self, fractions: Floats) -> Floats:
        """Return the cores that pods buy, shape (k,); a thousandth where it is less.

        Args:
            fractions: Parallel fraction of each pod's job, shape (k,).
        """
        of = self._population
        jobs = tuple(
            Job(
                namespace=pod.namespace,
                name=self._job_names[pod.job],
                entitlement=of.users[pod.user],
                node=of.nodes[pod.node].name,
                fraction=fraction,
                max_cores=None if pod.limit == math.inf else pod.limit,
                pod=pod.name,
                requested=pod.request,
                floor=pod.request,
            )
            for pod, fraction in zip(of.pods, fractions.tolist(), strict=True)
        )
        held = cores_held(Snapshot(self._entitlements, of.nodes, jobs), self._policy)
        return np.array([held.get(identity(job), THOUSANDTH) for job in jobs])
