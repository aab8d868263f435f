"""Pure: lends CPUs whose owners sleep to pods that could use more.

A CPU is lent while all pods that hold it sleep, to one guest at a time. The kernel gives it back at
once, by weight: a guest has the least weight there is, and who lends at least 200 times as much on
each CPU, where that takes no more than 16 times the weight of its grant. It is raised no further,
since the weight of all pods against programs outside is divided over CPUs by what runs there: one
large weight would leave pods on other CPUs little. At the next look the guest leaves.

A weight is of a pod and not of a CPU. So a guest would lose its part of a CPU that it shares with a
pod that is awake: it leaves such a CPU meanwhile, and is a guest only if it gets more in exchange.

A pod that is measured has no guests. If it has one core, it is lent a second one before all others,
or has the CPUs that it shares to itself, so that its speedup shows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_agent.pod_cpus import MeasurementLimit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from walras_agent.pod_cpus import NodeCpus

_RAISED = 16.0  # most times the weight of its grant, for a pod that lends
_UNUSED = 0.1  # of a CPU, for which no further one is lent
_NOTHING = CpuSet()


def find_guests(
    node_cpus: NodeCpus,
    asleep: Collection[str],
    wanted: Mapping[str, float],
    before: Mapping[str, CpuSet],
    refused: Collection[str] = (),
) -> dict[str, CpuSet]:
    """Return all CPUs that each guest may use, by pod UID.

    Guests keep CPUs that they had; others take turns by UID. A CPU that a guest leaves stays with
    the other pods there.

    Args:
        node_cpus: CPUs that pods hold; of those under measurement, none lends or is a guest, except
            one that borrows a core for it.
        asleep: Pods that lend.
        wanted: CPUs that pods would use if they had them.
        before: The last result.
        refused: Pods that can be no guests, since their weight cannot be written.
    """
    pods = node_cpus.pods
    if not wanted and not any(each.borrows for each in pods.values()):
        return {}
    free = lent_cpus(node_cpus, asleep)
    measured = _measured(node_cpus, asleep, free, before, refused)
    free -= CpuSet(cpu for cpus in measured.values() for cpu in cpus)
    stay, want = {}, {}
    for pod in sorted(wanted.keys() & pods.keys() - set(refused)):
        if pods[pod].limit is None and not pods[pod].borrows and pod not in asleep:
            stay[pod] = pods[pod].exclusive | _undisputed(pod, node_cpus, asleep)
            want[pod] = math.ceil(wanted[pod] - len(stay[pod]) - _UNUSED)
    borrowed = {
        pod: _first(before.get(pod, _NOTHING) & free, number) for pod, number in want.items()
    }
    free -= CpuSet(cpu for cpus in borrowed.values() for cpu in cpus)
    while hungry := [pod for pod in want if len(borrowed[pod]) < want[pod]]:
        for pod in sorted(hungry, key=lambda pod: len(borrowed[pod]))[: len(free)]:
            borrowed[pod] |= _first(free, 1)
            free -= borrowed[pod]
        if not free:
            break
    guests = {pod: stay[pod] | cpus for pod, cpus in borrowed.items() if cpus}
    for pod, cpus in guests.items():
        if len(cpus) < len(pods[pod].cpus):  # better off without
            rest = {other: wants for other, wants in wanted.items() if other != pod}
            return find_guests(node_cpus, asleep, rest, before, refused)
    return guests | measured


def _measured(
    node_cpus: NodeCpus,
    asleep: Collection[str],
    free: CpuSet,
    before: Mapping[str, CpuSet],
    refused: Collection[str],
) -> dict[str, CpuSet]:
    """Return the CPUs of each pod that borrows a core to be measured, as far as there is one."""
    measured = {}
    for pod, holds in sorted(node_cpus.pods.items()):
        if holds.borrows and pod not in refused:
            had, room = before.get(pod, _NOTHING), free | _undisputed(pod, node_cpus, asleep)
            lent = [core for core in node_cpus.cores if core <= room]
            if lent:
                core = max(lent, key=lambda core: len(core & had))
                measured[pod] = holds.exclusive | core
                free -= core
    return measured


def lent_cpus(node_cpus: NodeCpus, asleep: Collection[str]) -> CpuSet:
    """Return the CPUs that pods hold, all of which lend."""
    lent, kept = set[int](), set[int]()
    for pod, holds in node_cpus.pods.items():
        measured = holds.borrows or holds.limit is not None
        lends = pod in asleep and not measured and not holds.isolated
        (lent if lends else kept).update(holds.exclusive, holds.shared)
    return CpuSet(lent - kept)


def _undisputed(pod: str, node_cpus: NodeCpus, asleep: Collection[str]) -> CpuSet:
    """Return the shared CPUs of a pod if none of the pods beside it is awake."""
    shared = node_cpus.pods[pod].shared
    for other, holds in node_cpus.pods.items():
        if other != pod and other not in asleep and holds.shared & shared:
            return _NOTHING
    return shared


def _first(cpus: CpuSet, number: int) -> CpuSet:
    return CpuSet(sorted(cpus)[: max(number, 0)])


def with_guests(node_cpus: NodeCpus, guests: Mapping[str, CpuSet], least: int) -> NodeCpus:
    """Return the same CPUs with those of guests, and the weights of guests and of who lends.

    Args:
        node_cpus: CPUs of all pods.
        guests: CPUs that each guest may use, by UID.
        least: Weight that a pod needs on a CPU beside a guest, as `PodCpus.milliweight`.
    """
    if not guests:
        return node_cpus
    everywhere = CpuSet(cpu for cpus in guests.values() for cpu in cpus)
    pods, granted = dict(node_cpus.pods), {}
    for pod, holds in node_cpus.pods.items():
        if pod in guests:
            limit = MeasurementLimit(2, guests[pod]) if holds.borrows else None
            pods[pod] = replace(holds, guest=guests[pod], milliweight=0, limit=limit)
        elif holds.limit is None and holds.cpus & everywhere:
            granted[pod] = holds.milliweight
    # One factor for all, since they may share CPUs with each other.
    needed = (least * len(pods[pod].cpus) / weight for pod, weight in granted.items())
    factor = min(max(1.0, *needed), _RAISED) if granted else 1.0
    for pod, weight in granted.items():
        pods[pod] = replace(pods[pod], milliweight=round(factor * weight))
    return replace(node_cpus, pods=pods)
