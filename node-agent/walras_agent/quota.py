"""Facts: reads the CFS quota and weight files of a granted pod and computes the writes they need.

A quota below the grant would throttle the pod on its exclusive CPUs. So the quotas of its
containers are removed, and the quota of the pod is removed or, if the grant has a fraction, set to
the grant (``Documentation/scheduler/sched-bwc.rst``; ``cpu.max`` and ``cpu.weight`` in
``Documentation/admin-guide/cgroup-v2.rst``).

Containers come first: until the last write the pod's old quota still applies, and v1 refuses a
quota of the pod below one of a container (EINVAL). Both versions refuse a burst above the quota, so
the burst is set to 0 first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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


def files_to_check(version: Literal[1, 2], pod_cpus: PodCpus | None) -> tuple[str, ...]:
    """Return those of `CHECKED_FILES` that are enforced for a pod or its containers.

    Args:
        version: Version of the cgroup interface.
        pod_cpus: CPUs of the pod; None for a container, of which only the quota is removed.
    """
    quota, *period, weight = CHECKED_FILES[version]
    if pod_cpus is None:
        return (quota,)
    bounded = pod_cpus.milliquota is not None
    weighed = pod_cpus.milliweight is not None
    return (quota, *(period if bounded else ()), *((weight,) if weighed else ()))


_LEAST_QUOTA = 1000  # microseconds: min_cfs_quota_period of the kernel
_SHARES = (2, 262_144)  # the kernel's range
_PERIOD = "100000"  # microseconds, the default


@dataclass(frozen=True, slots=True)
class CpuFiles:
    """The texts of a group's `QUOTA_FILES`, by file name, without those that do not exist."""

    group: str
    texts: Mapping[str, str]


def quota_writes(
    version: Literal[1, 2], pod: CpuFiles, containers: Sequence[CpuFiles], pod_cpus: PodCpus
) -> tuple[FileWrite, ...]:
    """Return the writes that are needed, in an order that the kernel accepts."""
    demands = _demands_v2 if version == 2 else _demands_v1
    lifted = [(each, demands(each.texts, None, None)) for each in containers]
    held = (pod, demands(pod.texts, pod_cpus.milliquota, pod_cpus.milliweight))
    return tuple(
        (CgroupFile("cpu", files.group, file), value)
        for files, wanted in (*lifted, held)
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
        wanted["cpu.shares"] = str(_shares(milliweight))
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
        # As the kubelet and runc turn shares, of 2 to 262144, into a weight of 1 to 10000.
        wanted["cpu.weight"] = str(1 + (_shares(milliweight) - 2) * 9999 // 262_142)
    return wanted


def _quota(milliquota: int, period: str) -> int:
    return max(milliquota * int(period) // 1000, _LEAST_QUOTA)


def _without_burst(texts: Mapping[str, str], file: str, quota: int) -> dict[str, str]:
    return {file: "0"} if int(texts.get(file, "0")) > quota else {}


def _shares(milliweight: int) -> int:
    """Return the ``cpu.shares`` that the kubelet writes for a request in thousandths of a CPU."""
    least, most = _SHARES
    return min(max(milliweight * 1024 // 1000, least), most)


def bandwidth_writes(
    cgroups: Cgroups, pod: ObservedPod, pod_cpus: PodCpus
) -> tuple[FileWrite, ...]:
    """Return the writes that enforce a pod's quota and weight, in order; none if all is enforced.

    Reads all `QUOTA_FILES` only if one of `CHECKED_FILES` differs.
    """
    of_pod = files_to_check(cgroups.version, pod_cpus)
    of_containers = files_to_check(cgroups.version, None)
    if not _writes(cgroups, pod, pod_cpus, of_pod, of_containers):
        return ()
    everything = QUOTA_FILES[cgroups.version]
    return _writes(cgroups, pod, pod_cpus, everything, everything)


def _writes(
    cgroups: Cgroups,
    pod: ObservedPod,
    pod_cpus: PodCpus,
    files: Iterable[str],
    of_containers: Iterable[str],
) -> tuple[FileWrite, ...]:
    containers = [_read(cgroups, each, of_containers) for each in limited_groups(cgroups, pod)]
    return quota_writes(cgroups.version, _read(cgroups, pod.group, files), containers, pod_cpus)


def _read(cgroups: Cgroups, group: str, files: Iterable[str]) -> CpuFiles:
    texts = {}
    for file in files:
        try:
            texts[file] = cgroups.read(CgroupFile("cpu", group, file))
        except CgroupError:
            continue  # an older kernel has no bursts; a deleted group has no files
    return CpuFiles(group, texts)
