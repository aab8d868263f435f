"""Random clusters over a month: users with shares, and pods that come, request cores, and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.market.snapshot import Entitlement, Job, Node, Snapshot
from walras_studies.amdahl.populations import FRACTIONS

if TYPE_CHECKING:
    from numpy.random import Generator

SHARES, CORES = (1, 1, 2, 3, 5), (4, 8, 16, 32)
"""Shares of users, and cores of nodes, to draw from."""

THREADS, REQUESTS = (1, 2, 4, 8, 16), (0.0, 0.0, 0.0, 0.25, 0.5, 1.0, 2.0)
"""Threads of pods, and cores that pods would request, to draw from."""

PODS_OF_CORE = (0.25, 1.5)
"""Fewest and most pods of a cluster for each of its cores, on average over the month."""

LIFE_HOURS = 48.0
"""Mean life of a pod."""

LARGEST_REQUEST = 0.7
"""Part of its share of a node that a user's pods request there at most, together."""

STANDS_IN = (
    "Clusters have three to eight users with 1 to 5 shares, two to four nodes of 4 to 32 cores, "
    "and 0.25 to 1.5 pods for each core. Pods arrive at random, stay for 48 hours on average, "
    "always compute unless a part of the time is named, and have 1 to 16 threads and the fractions "
    "of `amdahl`, which the market knows. "
    "Four in seven request up to two cores, within seven tenths of their user's share of the node. "
    "A user's utility is the mean speed of its pods that compute, on the time that an ideal kernel "
    "gives them by weights on nodes of one NUMA node each: those that compute at a moment divide "
    "all CPUs. *Walras* has weights by grants; *Kubernetes* has weights by requests; *weights by "
    "shares* divide a user's shares equally among its pods on a node. "
    "*Static quotas* divide each user's share of a node equally among its pods; *whole cores* are "
    "Walras's purchases, rounded by Hamilton's method and lent to nobody (`isolated`). Gains are "
    "means over clusters, with the range."
)
"""Data and assumptions of the study."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod from its arrival to its end.

    Attributes:
        name: Name of the pod.
        user: Number of its user.
        node: Number of its node.
        start: Hour in which it arrives.
        end: First hour in which it is gone.
        fraction: Parallel fraction.
        threads: Most cores that it can use.
        request: Cores that it requests; 0 for none.
    """

    name: str
    user: int
    node: int
    start: float
    end: float
    fraction: float
    threads: int
    request: float


@dataclass(frozen=True, slots=True)
class ClusterMonth:
    """A drawn cluster over a month.

    Attributes:
        shares: Shares of each user.
        cores: Cores of each node.
        pods: All pods, sorted by arrival.
    """

    shares: tuple[int, ...]
    cores: tuple[int, ...]
    pods: tuple[Pod, ...]

    def present(self, hour: float) -> list[Pod]:
        """Return the pods that are present in an hour."""
        return [pod for pod in self.pods if pod.start <= hour < pod.end]

    def snapshot(self, hour: float) -> Snapshot:
        """Return the cluster in an hour, without what pods hold then."""
        return Snapshot(
            tuple(
                Entitlement(name_of(user), shares, namespaces=frozenset({name_of(user)}))
                for user, shares in enumerate(self.shares)
            ),
            tuple(Node(f"node-{number}", cores) for number, cores in enumerate(self.cores)),
            tuple(map(_job, self.present(hour))),
        )


def name_of(user: int) -> str:
    """Return the name of a user by its number."""
    return f"user-{user}"


def _job(pod: Pod) -> Job:
    user = name_of(pod.user)
    return Job(
        user,
        pod.name,
        user,
        f"node-{pod.node}",
        pod.fraction,
        pod=pod.name,
        max_cores=pod.threads,
        requested=pod.request,
        floor=pod.request,
    )


def draw_month(hours: float, seed: list[int]) -> ClusterMonth:
    """Draw a cluster, which begins with as many pods as it has on average."""
    random = np.random.default_rng(seed)
    shares = tuple(int(each) for each in random.choice(SHARES, int(random.integers(3, 9))))
    cores = tuple(int(each) for each in random.choice(CORES, int(random.integers(2, 5))))
    number = max(round(float(np.exp(random.uniform(*np.log(PODS_OF_CORE)))) * sum(cores)), 2)
    later = random.poisson(number * hours / LIFE_HOURS)
    starts = [0.0] * number + sorted(random.uniform(0.0, hours, later).tolist())
    pods: list[Pod] = []
    for start in starts:
        present = [pod for pod in pods if start < pod.end]
        pods.append(_arrival(f"pod-{len(pods)}", start, present, shares, cores, random))
    return ClusterMonth(shares, cores, tuple(pods))


def _arrival(
    name: str,
    start: float,
    present: list[Pod],
    shares: tuple[int, ...],
    cores: tuple[int, ...],
    random: Generator,
) -> Pod:
    """Return a pod on the less crowded of two random nodes; schedulers do not know the market."""
    user = int(random.integers(len(shares)))
    load = [0.0] * len(cores)
    for pod in present:
        load[pod.node] += 1 / cores[pod.node]
    first, second = (int(each) for each in random.integers(len(cores), size=2))
    node = first if load[first] <= load[second] else second
    threads = int(random.choice(THREADS))
    taken = sum(pod.request for pod in present if (pod.user, pod.node) == (user, node))
    room = LARGEST_REQUEST * shares[user] / sum(shares) * cores[node] - taken
    request = min(float(random.choice(REQUESTS)), float(threads))
    return Pod(
        name,
        user,
        node,
        start,
        start + float(random.exponential(LIFE_HOURS)),
        float(random.choice(FRACTIONS)),
        threads,
        request if request <= room else 0.0,
    )
