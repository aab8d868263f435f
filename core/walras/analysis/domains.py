"""What pods have of the CPU time of a node on which all of them are busy.

With Walras, pods share the CPUs of a *domain* by weight of what they were granted: of the node, or,
if that has more than 16 CPUs, of at most 16 of one socket. A pod is put where it fits best, the
largest first; one that fits into no domain has several. Whole cores of isolated pods are their own.
Pods without a grant weigh what they requested, and run everywhere else. On plain Kubernetes, all
pods weigh what they requested, and run everywhere.

The kernel is taken to divide time ideally (`walras.analysis.cpu_time`).
"""

from __future__ import annotations

import math
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from walras.analysis.cpu_time import BusyGroup, cpu_time

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_SHARED = 16
"""CPUs of the largest domain, if its node has more."""

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
    granted = sorted(
        (number for number, pod in enumerate(pods) if pod.granted),
        key=lambda number: -pods[number].granted,
    )
    own = {each: _own(pods[each], at.threads, domains) for each in granted if pods[each].isolated}
    room = [float(len(cpus)) for cpus in domains]
    shared = {each: _place(pods[each].granted - len(own.get(each, ())), room) for each in granted}
    everywhere = [cpu for cpus in domains for cpu in cpus]
    return cpu_time(
        [
            BusyGroup(
                [*own.get(each, ()), *(cpu for domain in shared[each] for cpu in domains[domain])],
                _weight(pod.granted),
                pod.most,
            )
            if pod.granted
            else _without_grant(pod, everywhere)
            for each, pod in enumerate(pods)
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
    if at.cores * at.threads <= MOST_SHARED:
        return [list(chain(*cpus))]
    size = max(MOST_SHARED // at.threads, 1)
    ends = [at.cores * number // at.sockets for number in range(at.sockets + 1)]
    return [
        list(chain(*cpus[first : min(first + size, end)]))
        for begin, end in pairwise(ends)
        for first in range(begin, end, size)
    ]


def _own(pod: BusyPod, threads: int, domains: list[list[int]]) -> list[int]:
    """Take the whole cores of an isolated pod out of domains; one core stays shared."""
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


def _place(cpus: float, room: list[float]) -> list[int]:
    """Return the domains of a pod that needs the time of some CPUs, and take it from their room.

    The best is the fullest that has room; if none has, it has those with the most room.
    """
    if cpus <= 0:
        return []
    numbers = range(len(room))
    fitting = [each for each in numbers if room[each] >= cpus - 1e-9]
    if fitting:
        chosen = [min(fitting, key=lambda each: room[each])]
    else:
        by_room = sorted(numbers, key=lambda each: -room[each])
        sums = [sum(room[each] for each in by_room[: count + 1]) for count in numbers]
        enough = sum(total < cpus - 1e-9 for total in sums) + 1
        chosen = by_room[:enough]
    for each in chosen:
        taken = min(cpus, room[each])
        room[each] -= taken
        cpus -= taken
    return chosen
