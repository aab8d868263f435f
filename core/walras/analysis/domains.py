"""What pods have of the CPU time of a node on which all of them are busy.

With Walras, pods share the CPUs of a *domain* by weight of what they were granted
(`walras.analysis.domain_of_pod`); a socket is taken to be a NUMA node. Whole cores of isolated pods
are their own. Pods without a grant weigh what they requested, and run everywhere else. On plain
Kubernetes, all pods weigh what they requested, and run everywhere.

The kernel is taken to divide time ideally (`walras.analysis.cpu_time`).
"""

from __future__ import annotations

import math
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from walras.analysis.cpu_time import BusyGroup, cpu_time
from walras.analysis.domain_of_pod import MOST_SHARED, TimeDemand, place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MILLI = 1000

LEAST_WEIGHT = 2
"""Weight of a pod that requested nothing, where that of one CPU is 1000, as in cgroup v1."""


VISIBLE = 0.01
"""Part of its time, and CPUs, that a pod must lose for that to be told."""


class BusyPod(NamedTuple):
    """A pod that computes all the time.

    Attributes:
        granted: CPUs granted; 0 for a pod without a grant.
        requested: CPUs requested.
        most: CPUs that it can use at once.
        limit: CPUs to which its quota limits it, as long as it has no grant.
        isolated: Whether its whole cores are CPUs of its own.
    """

    granted: float = 0.0
    requested: float = 0.0
    most: float = math.inf
    limit: float = math.inf
    isolated: bool = False


class Processors(NamedTuple):
    """The CPUs of a node: cores of equal size, in sockets of equal size."""

    cores: int
    threads: int = 1
    sockets: int = 1


def time_by_requests(at: Processors, pods: Sequence[BusyPod]) -> list[float]:
    """Return the CPUs of which each pod has the time on plain Kubernetes."""
    everywhere = range(at.cores * at.threads)
    return cpu_time([_without_grant(pod, everywhere) for pod in pods])


def time_by_grants(at: Processors, pods: Sequence[BusyPod]) -> list[float]:
    """Return the CPUs of which each pod has the time with Walras."""
    domains = _domains(at)
    own = _own_cpus(pods, at.threads, domains)
    shared = _shared_cpus(pods, own, domains)
    everywhere = list(chain(*domains))
    return cpu_time(
        [
            BusyGroup([*own[number], *shared[number]], _weight(pod.granted), pod.most)
            if pod.granted
            else _without_grant(pod, everywhere)
            for number, pod in enumerate(pods)
        ]
    )


class Loss(NamedTuple):
    """A pod without a grant that has less with Walras than on plain Kubernetes.

    Attributes:
        pod: Its number.
        plain: CPUs of which it has the time on plain Kubernetes.
        least: The same with Walras.
    """

    pod: int
    plain: float
    least: float


def losses(at: Processors, pods: Sequence[BusyPod]) -> list[Loss]:
    """Return which pods without a grant have visibly less time with Walras."""
    plain, least = time_by_requests(at, pods), time_by_grants(at, pods)
    return [
        Loss(number, plain[number], least[number])
        for number, pod in enumerate(pods)
        if not pod.granted and plain[number] - least[number] > max(VISIBLE * plain[number], VISIBLE)
    ]


def _without_grant(pod: BusyPod, cpus: Sequence[int]) -> BusyGroup:
    return BusyGroup(cpus, _weight(pod.requested), min(pod.most, pod.limit))


def _weight(cpus: float) -> int:
    return max(round(cpus * MILLI), LEAST_WEIGHT)


def _domains(at: Processors) -> list[list[int]]:
    """Return the CPUs of each domain; those of a core follow each other."""
    cpus = [list(range(core * at.threads, (core + 1) * at.threads)) for core in range(at.cores)]
    sockets = at.sockets if at.cores * at.threads > MOST_SHARED else 1
    ends = [at.cores * number // sockets for number in range(sockets + 1)]
    return [list(chain(*cpus[first:end])) for first, end in pairwise(ends)]


def _own_cpus(
    pods: Sequence[BusyPod], threads: int, domains: Sequence[list[int]]
) -> dict[int, list[int]]:
    """Take the whole cores of isolated pods out of domains, and return them by the pod's number."""
    own: dict[int, list[int]] = {number: [] for number in range(len(pods))}
    for number in sorted(own, key=lambda number: -pods[number].granted):
        if pods[number].isolated:
            own[number] = _taken(pods[number], threads, domains)
    return own


def _taken(pod: BusyPod, threads: int, domains: Sequence[list[int]]) -> list[int]:
    """Take the whole cores of a pod out of domains; one core stays shared."""
    left = sum(map(len, domains)) - threads
    wanted = min(int(pod.granted / threads) * threads, left)
    own: list[int] = []
    while len(own) < wanted:
        lacking = wanted - len(own)
        fitting = [cpus for cpus in domains if len(cpus) >= lacking]
        chosen = min(fitting, key=len) if fitting else max(domains, key=len)
        taken = min(lacking, len(chosen))
        own += chosen[:taken]
        del chosen[:taken]
    return own


def _shared_cpus(
    pods: Sequence[BusyPod], own: Mapping[int, Sequence[int]], domains: Sequence[Sequence[int]]
) -> dict[int, list[int]]:
    """Return the CPUs of the domains of pods with a grant, by the pod's number."""
    times = {
        number: max(round(MILLI * (pod.granted - len(own[number]))), 0 if own[number] else 1)
        for number, pod in enumerate(pods)
        if pod.granted
    }
    demands = [TimeDemand(f"{number:06}", time) for number, time in times.items() if time]
    placed = place(map(len, domains), demands)
    return {
        number: [cpu for domain in placed.get(f"{number:06}", ()) for cpu in domains[domain]]
        for number in times
    }
