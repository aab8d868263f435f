"""Pure: divides the CPUs of a node into domains, and chooses the domain of each pod.

A domain is a set of CPUs that pods share. The kernel gives what one pod leaves to another within
microseconds, but only on CPUs that both may use, and the farther these are apart, the more it costs
to move. So a small node is one domain; a larger one is cut by NUMA nodes and last-level caches.

A pod runs on one domain if one has room for what it bought: it stays where it is; otherwise it goes
where its partner is, or near its own CPUs, or to the fullest domain with room. A pod that fits in
none gets as few as have room together, or all.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walras_agent.topology import Topology

MOST_CPUS = 16
"""CPUs of the largest domain."""

LEAST_CPUS = 8
"""CPUs of a cache below which it is joined with the next one: virtual machines may show one for
each CPU."""

_ROOM = 1005  # thousandths of a CPU that fit on one: three rounded thirds may be one too many
_NOTHING = CpuSet()


class TimeDemand(NamedTuple):
    """Time on shared CPUs that one pod is to have.

    Attributes:
        pod: UID of the pod.
        milli: Time in thousandths of a CPU, more than 0.
        near: CPUs near which it should be: the pod's own.
        partner: UID of the pod whose domain it is to share if there is room; empty for none.
    """

    pod: str
    milli: int
    near: CpuSet = _NOTHING
    partner: str = ""


def domains_of(topology: Topology) -> tuple[CpuSet, ...]:
    """Return the domains of a machine, in assignment order; each CPU is in one of them."""
    if len(topology.cpus) <= MOST_CPUS:
        return (topology.cpuset,)
    return tuple(domain for cores in _neighbourhoods(topology) for domain in _cut(cores))


def _neighbourhoods(topology: Topology) -> Iterator[list[CpuSet]]:
    """Yield the cores of each last-level cache, or of several small ones of a NUMA node."""
    for _, node in groupby(topology.cpus, key=lambda cpu: cpu.numa):
        cores: list[CpuSet] = []
        for _, cache in groupby(node, key=lambda cpu: cpu.l3):
            by_core = groupby(cache, key=lambda cpu: cpu.core)
            more = [CpuSet(cpu.id for cpu in siblings) for _, siblings in by_core]
            if cores and (_size(cores) >= LEAST_CPUS or _size(cores + more) > MOST_CPUS):
                yield cores
                cores = []
            cores += more
        yield cores


def _cut(cores: Sequence[CpuSet]) -> list[CpuSet]:
    """Return the CPUs of some cores in as few parts of nearly one size as are small enough."""
    parts: dict[int, CpuSet] = {}
    for number in range(1, len(cores) + 1):
        parts, before = {}, 0
        for core in cores:
            part = before * number // _size(cores)
            parts[part] = parts.get(part, _NOTHING) | core
            before += len(core)
        if max(map(len, parts.values())) <= MOST_CPUS:
            break
    return list(parts.values())


def _size(cores: Iterable[CpuSet]) -> int:
    return sum(map(len, cores))


def place_on_domains(
    domains: Sequence[CpuSet],
    owned: CpuSet,
    demands: Iterable[TimeDemand],
    previous: Mapping[str, CpuSet],
) -> dict[str, CpuSet]:
    """Return the CPUs that each pod shares with others, by UID.

    The result does not depend on the order of the demands; with itself as ``previous``, it stays.

    Args:
        domains: The domains of the machine.
        owned: CPUs that pods have of their own, which no domain has, but not all that there are.
        demands: At most one for each pod.
        previous: Shared CPUs of each pod so far, by UID.

    Raises:
        ValueError: Two demands are of the same pod.
    """
    largest_first = sorted(demands, key=lambda each: (-each.milli, each.pod))
    by_pod = sorted(each.pod for each in largest_first)
    if twice := [one for one, other in pairwise(by_pod) if one == other]:
        raise ValueError(f"{twice[0]}: two demands are of this pod")
    placing = _Placing(domains, owned)
    moving = [
        each for each in largest_first if not placing.keep(each, previous.get(each.pod, _NOTHING))
    ]
    left = {each.pod: each.milli for each in moving}
    spanning = [each for each in moving if not placing.settle(each, left.get(each.partner, 0))]
    for each in spanning:
        placing.spread(each)
    return placing.cpus


class _Placing:
    """The domains of pods so far, and the room that these leave."""

    def __init__(self, domains: Sequence[CpuSet], owned: CpuSet) -> None:
        self.cpus: dict[str, CpuSet] = {}
        self._domains = domains
        self._shared = [domain - owned for domain in domains]
        self._room = [_ROOM * len(shared) for shared in self._shared]

    def keep(self, demand: TimeDemand, previous: CpuSet) -> bool:
        """Leave a pod on the only domain that it was on, if that has room."""
        was = [number for number, domain in enumerate(self._domains) if domain & previous]
        stays = len(was) == 1 and self._room[was[0]] >= demand.milli
        if stays:
            self._fill(demand, was)
        return stays

    def settle(self, demand: TimeDemand, partners: int) -> bool:
        """Place a pod on the best domain that has room for it, if one has.

        Args:
            demand: What the pod is to have.
            partners: Thousandths of a CPU that its partner is to have, if that is not placed yet.
        """
        fitting = [number for number, room in enumerate(self._room) if room >= demand.milli]
        beside = self.cpus.get(demand.partner, _NOTHING)

        def rank(number: int) -> tuple[bool, int, int]:
            domain, room = self._domains[number], self._room[number]
            alone = room < demand.milli + partners or bool(beside and not beside & domain)
            return alone, -len(domain & demand.near), room

        if fitting:
            self._fill(demand, [min(fitting, key=rank)])
        return bool(fitting)

    def spread(self, demand: TimeDemand) -> None:
        """Give a pod as few domains as have room for it, or all of them if they have too little."""
        roomiest = sorted(range(len(self._room)), key=lambda number: -self._room[number])
        chosen: list[int] = []
        while roomiest and sum(self._room[number] for number in chosen) < demand.milli:
            chosen.append(roomiest.pop(0))
        self._fill(demand, chosen)

    def _fill(self, demand: TimeDemand, chosen: Sequence[int]) -> None:
        left = demand.milli
        for number in chosen:
            taken = min(left, self._room[number])
            self._room[number] -= taken
            left -= taken
        self.cpus[demand.pod] = CpuSet(cpu for number in chosen for cpu in self._shared[number])
