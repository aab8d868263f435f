"""Facts: reads the CFS quotas of a granted pod and computes the writes that lift them.

A quota would throttle the pod below its grant, or keep it from CPUs that others leave idle
(``Documentation/scheduler/sched-bwc.rst``; ``cpu.max`` in
``Documentation/admin-guide/cgroup-v2.rst``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from walras_agent.observe import limited_groups
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from walras_agent.observe import ObservedPod
    from walras_agent.tree import Cgroups, FileWrite

QUOTA_FILES: dict[Literal[1, 2], str] = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
"""The file with the quota of a group, by cgroup version."""

WEIGHT_FILES: dict[Literal[1, 2], str] = {1: "cpu.shares", 2: "cpu.weight"}
"""The file with the weight of a group among those beside it, by cgroup version."""


def quota_writes(cgroups: Cgroups, pod: ObservedPod) -> tuple[FileWrite, ...]:
    """Return the writes that lift the quotas of a pod and its containers; none if there are none.

    The kernel takes them in any order: it refuses no group a quota less.
    """
    file = QUOTA_FILES[cgroups.version]
    lifted = []
    for group in (pod.group, *limited_groups(cgroups, pod)):
        setting = CgroupFile("cpu", group, file)
        try:
            now = cgroups.read(setting)
        except CgroupError:  # the group was deleted
            continue
        if now != (none := _no_quota(now, cgroups.version)):
            lifted.append((setting, none))
    return tuple(lifted)


def _no_quota(text: str, version: Literal[1, 2]) -> str:
    """Return the text of a quota file without a quota, and in v2 with the period that it has."""
    return "-1" if version == 1 else f"max {text.rpartition(' ')[2]}"
