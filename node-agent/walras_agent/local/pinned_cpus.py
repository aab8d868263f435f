"""Pure: chooses the CPUs of jobs whose threads have weights of their own: nice values.

These divide the time of one CPU, but not that of several, since a job with more threads has more of
it there. So whole cores are a job's own, and the fraction beyond them is pinned to one shared CPU
if it fits there beside those of other jobs (bin packing); what does not fit gets as few CPUs as
have room for it. They fit if they add up to half a percent too much, as three rounded thirds may:
that is less than weights are off by on several CPUs.

A job stays where it is while it fits. The others take the emptiest CPU near their own ones, where
others leave most, or the fullest if more of them fit that way. All jobs are placed anew only if
that pins more of them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.cpuset import CpuSet
from walras_agent.pod_cpus import NodeCpus, allocate_cpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_agent.node_plan import EnforcedGrant
    from walras_agent.topology import Cpu, Topology, Unit

_MILLI = 1000  # of one CPU
_ROOM = 1005
_NOTHING = CpuSet()


def pin_cpus(
    topology: Topology,
    grants: Iterable[EnforcedGrant],
    previous: Mapping[str, CpuSet],
    unit: Unit = "core",
    reserved: CpuSet = _NOTHING,
    *,
    shared_before: Mapping[str, CpuSet],
    others: bool,
    limits: Mapping[str, int],
) -> NodeCpus:
    """Choose the CPUs of every grant as `pod_cpus.allocate_cpus` does, but pin fractions.

    What a pod bought is what its threads weigh beside those of others: the fraction of its grant,
    or a core if it has only CPUs of its own.
    """
    isolated = {grant.pod: replace(grant, isolated=True) for grant in grants}
    node_cpus = allocate_cpus(
        topology, isolated.values(), previous, unit, reserved, others=others, limits=limits
    )
    weighed = {}
    for pod, each in node_cpus.pods.items():
        grant = isolated[pod]
        rest = grant.millicores - (grant.whole_cores - each.missing) * _MILLI
        weighed[pod] = (rest or _MILLI) * each.milli // grant.millicores
    fractions = [
        Fraction(pod, weighed[pod], each.exclusive)
        for pod, each in node_cpus.pods.items()
        if each.shared
    ]
    pinned = place_fractions(topology, node_cpus.shared, fractions, shared_before, reserved)
    pods = {
        pod: replace(each, shared=pinned.get(pod, _NOTHING), milli=weighed[pod])
        for pod, each in node_cpus.pods.items()
    }
    return replace(node_cpus, pods=pods)


class Fraction(NamedTuple):
    """Time on shared CPUs that one pod is to get.

    Attributes:
        pod: UID of the pod.
        milli: Time in thousandths of a CPU, more than 0.
        near: CPUs near which it should be: the pod's own.
    """

    pod: str
    milli: int
    near: CpuSet = _NOTHING


def place_fractions(
    topology: Topology,
    shared: CpuSet,
    fractions: Iterable[Fraction],
    previous: Mapping[str, CpuSet],
    last_choice: CpuSet = _NOTHING,
) -> dict[str, CpuSet]:
    """Return the shared CPUs of each pod, by UID: one, or several for a fraction that fits on none.

    The result does not depend on the order of the fractions; with itself as ``previous``, it stays.

    Args:
        topology: The node's CPUs.
        shared: CPUs to choose from, at least one.
        fractions: At most one for each pod.
        previous: Shared CPUs of each pod so far, by UID.
        last_choice: Shared CPUs to use only where the others have no room.

    Raises:
        ValueError: Two fractions are of the same pod.
    """
    largest_first = sorted(fractions, key=lambda each: (-each.milli, each.pod))
    by_pod = sorted(each.pod for each in largest_first)
    if twice := [one for one, other in pairwise(by_pod) if one == other]:
        raise ValueError(f"{twice[0]}: two fractions are of this pod")

    def packed(kept: Mapping[str, CpuSet], *, emptiest: bool) -> _Packing:
        packing = _Packing(topology.cpus, shared, last_choice, emptiest=emptiest)
        moving = [
            each for each in largest_first if not packing.keep(each, kept.get(each.pod, _NOTHING))
        ]
        for each in moving:
            packing.pin(each, previous.get(each.pod, _NOTHING))
        return packing

    best = packed(previous, emptiest=True)
    possible = sum(each.milli <= _MILLI for each in largest_first)
    for kept in (previous, {}):
        if len(best.cpus) < possible:
            other = packed(kept, emptiest=False)
            best = other if len(other.cpus) > len(best.cpus) else best
    for each in largest_first:
        if each.pod not in best.cpus:
            best.spread(each, previous.get(each.pod, _NOTHING))
    return best.cpus


class _Packing:
    """The shared CPUs of some pods, and the room that they leave."""

    def __init__(
        self, cpus: Sequence[Cpu], shared: CpuSet, last_choice: CpuSet, *, emptiest: bool
    ) -> None:
        self.cpus: dict[str, CpuSet] = {}
        self._machine = {cpu.id: cpu for cpu in cpus}
        self._room = dict.fromkeys(shared, _ROOM)
        self._last_choice, self._emptiest = last_choice, emptiest

    def keep(self, fraction: Fraction, previous: CpuSet) -> bool:
        """Pin a pod to the only CPU that it had, if that has room and is not a last choice."""
        stays = len(previous - self._last_choice) == 1 == len(previous)
        if stays := stays and self._has_room(previous, fraction.milli):
            self._fill(fraction, previous)
        return stays

    def pin(self, fraction: Fraction, previous: CpuSet) -> None:
        """Pin a pod to the best CPU that has room for it, if one has."""
        fitting = [cpu for cpu, room in self._room.items() if room >= fraction.milli]
        if fitting:
            near = [self._machine[cpu] for cpu in fraction.near or previous if cpu in self._machine]
            self._fill(fraction, CpuSet([min(fitting, key=lambda cpu: self._rank(cpu, near))]))

    def spread(self, fraction: Fraction, previous: CpuSet) -> None:
        """Give a pod as few CPUs as have room for it, or all of them if they have too little."""
        roomiest = sorted(
            (cpu for cpu, room in self._room.items() if room),
            key=lambda cpu: (cpu in self._last_choice, -self._room[cpu], cpu),
        )
        chosen = CpuSet()
        while roomiest and not self._has_room(chosen, fraction.milli):
            chosen |= CpuSet([roomiest.pop(0)])
        if not self._has_room(chosen, fraction.milli):
            self.cpus[fraction.pod] = CpuSet(self._room)
        else:
            stays = len(previous) <= len(chosen) and self._has_room(previous, fraction.milli)
            self._fill(fraction, previous & CpuSet(self._room) if stays else chosen)

    def _rank(self, cpu: int, near: Sequence[Cpu]) -> tuple[object, ...]:
        distance = min((_distance(self._machine[cpu], each) for each in near), default=0)
        room = self._room[cpu]
        order = (distance, -room) if self._emptiest else (room, distance)
        return cpu in self._last_choice, *order, cpu

    def _has_room(self, cpus: CpuSet, milli: int) -> bool:
        return sum(self._room.get(cpu, 0) for cpu in cpus) >= milli

    def _fill(self, fraction: Fraction, cpus: CpuSet) -> None:
        left = fraction.milli
        for cpu in cpus:
            taken = min(left, self._room[cpu])
            self._room[cpu] -= taken
            left -= taken
        self.cpus[fraction.pod] = cpus


def _distance(one: Cpu, other: Cpu) -> int:
    """Return how far two CPUs are apart: 0 on one core, then cache, NUMA node and machine."""
    if one.numa != other.numa:
        return 3
    if one.l3 != other.l3:
        return 2
    return int(one.core != other.core)
