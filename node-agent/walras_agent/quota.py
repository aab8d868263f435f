"""Pure choice: what a granted pod's CFS quota and weight files are to say.

A quota below the grant would throttle the pod on CPUs that are its own, so while it is granted the
quotas of its containers are lifted, and its own is lifted or, with a fraction in the grant, set to
the grant (``Documentation/scheduler/sched-bwc.rst``; ``cpu.max`` and ``cpu.weight`` in
``Documentation/admin-guide/cgroup-v2.rst``).

Containers come first: while theirs is lifted, the pod's still holds; and v1 refuses a quota of the
pod below one of a container's (EINVAL). A burst above the quota is refused as well, in both
versions, so it goes before the quota comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from walras_agent.tree import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_agent.holdings import Holding

QUOTA_FILES: dict[Literal[1, 2], tuple[str, ...]] = {
    1: ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares"),
    2: ("cpu.max", "cpu.max.burst", "cpu.weight"),
}
"""The files that `quota_writes` wants to know; those of bursts came with Linux 5.14."""

LOOKED_AT: dict[Literal[1, 2], tuple[str, ...]] = {
    version: tuple(file for file in files if "burst" not in file)
    for version, files in QUOTA_FILES.items()
}
"""Those that tell whether anything is to be written at all."""


def telling_files(version: Literal[1, 2], holding: Holding | None) -> tuple[str, ...]:
    """Of `LOOKED_AT` those that can differ from what a pod is to hold.

    Args:
        version: Of the cgroup interface.
        holding: Of the pod; None for the files of its containers, which only have to be unbound.
    """
    quota, *period, weight = LOOKED_AT[version]
    if holding is None:
        return (quota,)
    bounded = holding.milliquota is not None
    weighed = holding.milliweight is not None
    return (quota, *(period if bounded else ()), *((weight,) if weighed else ()))


_LEAST_QUOTA = 1000  # microseconds: min_cfs_quota_period of the kernel
_SHARES = (2, 262_144)  # the kernel's bounds
_PERIOD = "100000"  # microseconds, the default


@dataclass(frozen=True, slots=True)
class CpuFiles:
    """What a group's files say, of `QUOTA_FILES` those that are there."""

    group: str
    texts: Mapping[str, str]


def quota_writes(
    version: Literal[1, 2], pod: CpuFiles, containers: Sequence[CpuFiles], holding: Holding
) -> tuple[tuple[Setting, str], ...]:
    """The writes that are needed, in the order in which the kernel takes them."""
    demands = _demands_v2 if version == 2 else _demands_v1
    lifted = [(each, demands(each.texts, None, None)) for each in containers]
    held = (pod, demands(pod.texts, holding.milliquota, holding.milliweight))
    return tuple(
        (Setting("cpu", files.group, file), value)
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
    """What the kubelet would write for a request of so many thousandths of a CPU."""
    least, most = _SHARES
    return min(max(milliweight * 1024 // 1000, least), most)
