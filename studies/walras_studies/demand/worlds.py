"""Random clusters of programs that always compute on some of their threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from walras.market.snapshot import Entitlement, Job, Node, Snapshot
from walras_studies.held.worlds import ClusterMonth, Pod, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARES, CORES = (1, 1, 2, 3, 5), (8, 16, 32)
"""Shares of users, and cores of nodes, to draw from."""

THREADS, IDLE = (1, 2, 4, 8, 16), (0, 0, 1, 7, 40)
"""Threads of a program that compute, and others of it, to draw from."""

STANDS_IN = (
    "Clusters have three to seven users with 1 to 5 shares, two to five nodes of 8 to 32 cores, "
    "and two to seven pods for each user, anywhere. Each pod always computes on 1 to 16 threads, "
    "and has up to 40 others that do nothing. Parallel fractions between 0.55 and 0.99 are known, "
    "numbers of threads are not: agents look at pods every ten seconds, and the market is cleared "
    "when that has shown something new. *Kubernetes* gives all pods equal weights. An ideal kernel "
    "divides the time of CPUs by weights, and a user's utility is the mean speed of its pods."
)
"""Data and assumptions of the study."""


@dataclass(frozen=True, slots=True)
class World:
    """A drawn cluster.

    Attributes:
        cluster: Users, nodes and pods, which never end.
        threads: All threads of each pod, by name.
    """

    cluster: ClusterMonth
    threads: Mapping[str, int]

    def assuming(self, fraction: float, every: int) -> World:
        """Return the cluster with another parallel fraction of each ``every``-th pod."""
        pods = tuple(
            replace(pod, fraction=pod.fraction if number % every else fraction)
            for number, pod in enumerate(self.cluster.pods)
        )
        return replace(self, cluster=replace(self.cluster, pods=pods))

    def snapshot(self, most: Mapping[str, float]) -> Snapshot:
        """Return the cluster, where pods can use some number of cores at most."""
        users = range(len(self.cluster.shares))
        return Snapshot(
            tuple(
                Entitlement(
                    name_of(user), self.cluster.shares[user], namespaces=frozenset({name_of(user)})
                )
                for user in users
            ),
            tuple(Node(f"node-{number}", cores) for number, cores in enumerate(self.cluster.cores)),
            tuple(
                Job(
                    name_of(pod.user),
                    pod.name,
                    name_of(pod.user),
                    f"node-{pod.node}",
                    pod.fraction,
                    pod=pod.name,
                    max_cores=most.get(pod.name),
                )
                for pod in self.cluster.pods
            ),
        )


def draw_world(seed: list[int]) -> World:
    """Draw a cluster."""
    random = np.random.default_rng(seed)
    shares = tuple(int(each) for each in random.choice(SHARES, int(random.integers(3, 8))))
    cores = tuple(int(each) for each in random.choice(CORES, int(random.integers(2, 6))))
    pods, threads = [], {}
    for user in range(len(shares)):
        for number in range(int(random.integers(2, 8))):
            name, computing = f"pod-{user}-{number}", int(random.choice(THREADS))
            node, fraction = int(random.integers(len(cores))), float(random.uniform(0.55, 0.99))
            pods.append(Pod(name, user, node, 0.0, float("inf"), fraction, computing, 0.0))
            threads[name] = computing + int(random.choice(IDLE))
    return World(ClusterMonth(shares, cores, tuple(pods)), threads)
