"""Facts: reads the CFS quotas and the weight of a granted pod and computes the writes they need.

A quota would throttle the pod below its grant, or keep it from CPUs that others leave idle. So the
quotas of the pod and its containers are removed (``Documentation/scheduler/sched-bwc.rst``;
``cpu.max`` and ``cpu.weight`` in ``Documentation/admin-guide/cgroup-v2.rst``).
"""

from __future__ import annotations

from operator import mul
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from walras_agent.observe import limited_groups
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_agent.observe import ObservedPod
    from walras_agent.pod_cpus import PodCpus
    from walras_agent.tree import Cgroups, FileWrite

QUOTA_FILES: dict[Literal[1, 2], str] = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
"""The file with the quota of a group, by cgroup version."""

WEIGHT_FILES: dict[Literal[1, 2], str] = {1: "cpu.shares", 2: "cpu.weight"}
"""The file with the weight of a group among those beside it, by cgroup version."""

CPUS_OF_LARGEST_WEIGHT = 256
"""CPUs whose request has the largest weight that the kernel takes, in both cgroup versions."""

_SHARES = (2, 262_144)  # the kernel's range
_MOST_WEIGHT = {1: _SHARES[1], 2: 10_000}  # the kernel's, by cgroup version
_CLASS_TOLERANCE = 0.02
_UNCHANGED: Mapping[str, str] = MappingProxyType({})


def cpu_shares(milliweight: int) -> int:
    """Return the ``cpu.shares`` that the kubelet writes for a request in thousandths of a CPU."""
    least, most = _SHARES
    return min(max(milliweight * 1024 // 1000, least), most)


def _weight(version: Literal[1, 2], milliweight: int) -> str:
    shares = cpu_shares(milliweight)
    # As the kubelet and runc turn shares, of 2 to 262144, into a weight of 1 to 10000.
    return str(shares if version == 1 else 1 + (shares - 2) * 9999 // 262_142)


LEAST_WEIGHTS: dict[Literal[1, 2], str] = {1: _weight(1, 0), 2: _weight(2, 0)}
"""The text of the least weight of a group, by cgroup version."""

MILLIWEIGHTS_BESIDE_GUESTS: dict[Literal[1, 2], int] = {1: 400, 2: 5250}
"""Request in thousandths of a CPU with 200 times the least weight, by cgroup version."""


def bandwidth_writes(
    cgroups: Cgroups, pod: ObservedPod, pod_cpus: PodCpus
) -> tuple[FileWrite, ...]:
    """Return the writes that lift a pod's quotas and give it its weight; none if all is enforced.

    The kernel takes them in any order: it refuses no group a quota less.
    """
    file = QUOTA_FILES[cgroups.version]
    lifted = []
    for group in (pod.group, *limited_groups(cgroups, pod)):
        now = _read(cgroups, group, file)
        if now is not None and now != (none := _no_quota(now, cgroups.version)):
            lifted.append((CgroupFile("cpu", group, file), none))
    return (*lifted, *weight_writes(cgroups, pod, pod_cpus))


def _no_quota(text: str, version: Literal[1, 2]) -> str:
    """Return the text of a quota file without a quota, and in v2 with the period that it has."""
    return "-1" if version == 1 else f"max {text.rpartition(' ')[2]}"


def weight_writes(cgroups: Cgroups, pod: ObservedPod, pod_cpus: PodCpus) -> tuple[FileWrite, ...]:
    """Return the write that gives a pod its weight; none if it has it."""
    file = WEIGHT_FILES[cgroups.version]
    now = _read(cgroups, pod.group, file)
    wanted = _weight(cgroups.version, pod_cpus.milliweight)
    return () if now in {None, wanted} else ((CgroupFile("cpu", pod.group, file), wanted),)


def class_writes(
    cgroups: Cgroups, group: str, pods: Mapping[str, float], new: Mapping[str, str] = _UNCHANGED
) -> tuple[FileWrite, ...]:
    """Return the write that gives a QoS class the sum of its busy pods' weights.

    Classes divide CPU time by weights of their own, of which the kubelet gives BestEffort the
    least. With the sum, each pod has the part that its weight would have if there were no classes.
    While none is busy, it is the sum of all, for whichever is the next. A nearly right one stays.

    Args:
        cgroups: Cgroups of this node.
        group: Cgroup of the class.
        pods: Cgroups of its pods, with the part of the time in which each is busy.
        new: Weights that pods are about to get, by cgroup; those of others are read.
    """
    file = WEIGHT_FILES[cgroups.version]

    def weight(of: str) -> str | None:
        return new.get(of) or _read(cgroups, of, file)

    now = weight(group)
    if now is None:
        return ()
    sizes = [int(weight(each) or 0) for each in pods]
    total = round(sum(map(mul, sizes, pods.values()))) or sum(sizes)
    # Above the kernel's maximum, the weight of 256 CPUs, a class lacks only what exceeds it.
    wanted = max(_SHARES[0], min(total, _MOST_WEIGHT[cgroups.version]))
    is_right = abs(wanted - int(now)) <= _CLASS_TOLERANCE * wanted
    return () if is_right else ((CgroupFile("cpu", group, file), str(wanted)),)


def _read(cgroups: Cgroups, group: str, file: str) -> str | None:
    """Return the text of a file; None if the group was deleted."""
    try:
        return cgroups.read(CgroupFile("cpu", group, file))
    except CgroupError:
        return None
