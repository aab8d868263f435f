"""Facts: reads the CFS quota and weight files of a granted pod and computes the writes they need.

A quota below the grant would throttle the pod on its exclusive CPUs. So the quotas of the pod and
its containers are removed (``Documentation/scheduler/sched-bwc.rst``; ``cpu.max`` and
``cpu.weight`` in ``Documentation/admin-guide/cgroup-v2.rst``). If the grant has a fraction, it is
the quota of

- the pod in v2. Containers come first: until the last write the pod's old quota still applies.
- each container in v1. The kernel refuses a quota above the parent's (EINVAL), so if the pod had
  the grant as its quota, no container with a higher limit could start. The pod comes first, since
  without a quota it accepts any of its containers.

Both versions refuse a burst above the quota, so the burst is set to 0 first.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import mul
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_agent.observe import limited_groups
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_agent.observe import ObservedPod
    from walras_agent.pod_cpus import PodCpus
    from walras_agent.tree import Cgroups, FileWrite

QUOTA_FILES: dict[Literal[1, 2], tuple[str, ...]] = {
    1: ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares"),
    2: ("cpu.max", "cpu.max.burst", "cpu.weight"),
}
"""The files that `quota_writes` reads, by cgroup version; bursts exist since Linux 5.14."""

CHECKED_FILES: dict[Literal[1, 2], tuple[str, ...]] = {
    version: tuple(file for file in files if "burst" not in file)
    for version, files in QUOTA_FILES.items()
}
"""The files of `QUOTA_FILES` whose texts tell whether any write is needed."""


class FilesToCheck(NamedTuple):
    """Those of `CHECKED_FILES` that are enforced for a pod, and for each of its containers."""

    pod: tuple[str, ...]
    containers: tuple[str, ...]


def files_to_check(version: Literal[1, 2], pod_cpus: PodCpus) -> FilesToCheck:
    """Return the files whose texts tell whether a pod needs any write."""
    quota, *period, weight = CHECKED_FILES[version]  # v2 has the period in the quota's file
    weighed = () if pod_cpus.milliweight is None else (weight,)
    bounded = () if pod_cpus.milliquota is None else period
    return FilesToCheck((quota, *weighed), (quota, *bounded))


WEIGHT_FILES = {version: files[-1] for version, files in CHECKED_FILES.items()}
"""The file with the weight of a group among those beside it, by cgroup version."""

CPUS_OF_LARGEST_WEIGHT = 256
"""CPUs whose request has the largest weight that the kernel takes, in both cgroup versions."""

_LEAST_QUOTA = 1000  # microseconds: min_cfs_quota_period of the kernel
_SHARES = (2, 262_144)  # the kernel's range
_MOST_WEIGHT = {1: _SHARES[1], 2: 10_000}  # the kernel's, by cgroup version
_PERIOD = "100000"  # microseconds, the default
_CLASS_TOLERANCE = 0.02
_UNCHANGED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CpuFiles:
    """The texts of a group's `QUOTA_FILES`, by file name, without those that do not exist."""

    group: str
    texts: Mapping[str, str]


def quota_writes(
    version: Literal[1, 2], pod: CpuFiles, containers: Sequence[CpuFiles], pod_cpus: PodCpus
) -> tuple[FileWrite, ...]:
    """Return the writes that are needed, in an order that the kernel accepts."""
    quota, weight = pod_cpus.milliquota, pod_cpus.milliweight
    if version == 2:
        lifted = ((each, _demands_v2(each.texts, None, None)) for each in containers)
        demands = [*lifted, (pod, _demands_v2(pod.texts, quota, weight))]
    else:
        bounded = ((each, _demands_v1(each.texts, quota, None)) for each in containers)
        demands = [(pod, _demands_v1(pod.texts, None, weight)), *bounded]
    return tuple(
        (CgroupFile("cpu", files.group, file), value)
        for files, wanted in demands
        for file, value in wanted.items()
        if files.texts.get(file, value) != value
    )


def _demands_v1(
    texts: Mapping[str, str], milliquota: int | None, milliweight: int | None
) -> dict[str, str]:
    wanted = {"cpu.cfs_quota_us": "-1"}
    if milliquota is not None:
        quota = _quota(milliquota, texts.get("cpu.cfs_period_us", _PERIOD))
        wanted = _without_burst(texts, "cpu.cfs_burst_us", quota)
        wanted["cpu.cfs_quota_us"] = str(quota)
    if milliweight is not None:
        wanted["cpu.shares"] = _weight(1, milliweight)
    return wanted


def _demands_v2(
    texts: Mapping[str, str], milliquota: int | None, milliweight: int | None
) -> dict[str, str]:
    period = texts.get("cpu.max", _PERIOD).split()[-1]
    wanted = {"cpu.max": f"max {period}"}
    if milliquota is not None:
        quota = _quota(milliquota, period)
        wanted = _without_burst(texts, "cpu.max.burst", quota)
        wanted["cpu.max"] = f"{quota} {period}"
    if milliweight is not None:
        wanted["cpu.weight"] = _weight(2, milliweight)
    return wanted


def _quota(milliquota: int, period: str) -> int:
    return max(milliquota * int(period) // 1000, _LEAST_QUOTA)


def _without_burst(texts: Mapping[str, str], file: str, quota: int) -> dict[str, str]:
    return {file: "0"} if int(texts.get(file, "0")) > quota else {}


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
    """Return the writes that enforce a pod's quota and weight, in order; none if all is enforced.

    Reads all `QUOTA_FILES` only if one of `CHECKED_FILES` differs.
    """
    if not _writes(cgroups, pod, pod_cpus, files_to_check(cgroups.version, pod_cpus)):
        return ()
    everything = QUOTA_FILES[cgroups.version]
    return _writes(cgroups, pod, pod_cpus, FilesToCheck(everything, everything))


def _writes(
    cgroups: Cgroups, pod: ObservedPod, pod_cpus: PodCpus, files: FilesToCheck
) -> tuple[FileWrite, ...]:
    containers = [_read(cgroups, each, files.containers) for each in limited_groups(cgroups, pod)]
    of_pod = _read(cgroups, pod.group, files.pod)
    return quota_writes(cgroups.version, of_pod, containers, pod_cpus)


def weight_writes(cgroups: Cgroups, pod: ObservedPod, pod_cpus: PodCpus) -> tuple[FileWrite, ...]:
    """Return the write that gives a pod its weight; none if it has it, or is to have none."""
    file = WEIGHT_FILES[cgroups.version]
    now = _read(cgroups, pod.group, [file])
    if pod_cpus.milliweight is None:
        return ()
    wanted = _weight(cgroups.version, pod_cpus.milliweight)
    is_right = now.texts.get(file, wanted) == wanted
    return () if is_right else ((CgroupFile("cpu", pod.group, file), wanted),)


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
        return new.get(of) or _read(cgroups, of, [file]).texts.get(file)

    now = weight(group)
    if now is None:
        return ()
    sizes = [int(weight(each) or 0) for each in pods]
    total = round(sum(map(mul, sizes, pods.values()))) or sum(sizes)
    # Above the kernel's maximum, the weight of 256 CPUs, a class lacks only what exceeds it.
    wanted = max(_SHARES[0], min(total, _MOST_WEIGHT[cgroups.version]))
    is_right = abs(wanted - int(now)) <= _CLASS_TOLERANCE * wanted
    return () if is_right else ((CgroupFile("cpu", group, file), str(wanted)),)


def _read(cgroups: Cgroups, group: str, files: Iterable[str]) -> CpuFiles:
    texts = {}
    for file in files:
        try:
            texts[file] = cgroups.read(CgroupFile("cpu", group, file))
        except CgroupError:
            continue  # an older kernel has no bursts; a deleted group has no files
    return CpuFiles(group, texts)
