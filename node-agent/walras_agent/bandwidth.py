"""Facts: what is to be written for a granted pod's quotas and weight, as `quota` chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_agent.quota import QUOTA_FILES, CpuFiles, quota_writes, telling_files
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras_agent.holdings import Holding
    from walras_agent.observe import Pod
    from walras_agent.tree import Cgroups

Write = tuple[Setting, str]


def bandwidth_writes(cgroups: Cgroups, pod: Pod, holding: Holding) -> tuple[Write, ...]:
    """The writes that bring a pod's quotas and weight to what it holds, in order.

    Where nothing is to be written, only the files that tell so are read.
    """
    telling = telling_files(cgroups.version, holding)
    of_containers = telling_files(cgroups.version, None)
    if not _writes(cgroups, pod, holding, telling, of_containers):
        return ()
    everything = QUOTA_FILES[cgroups.version]
    return _writes(cgroups, pod, holding, everything, everything)


def _writes(
    cgroups: Cgroups,
    pod: Pod,
    holding: Holding,
    files: Iterable[str],
    of_containers: Iterable[str],
) -> tuple[Write, ...]:
    containers = [_read(cgroups, each.group.name, of_containers) for each in pod.containers]
    return quota_writes(cgroups.version, _read(cgroups, pod.group, files), containers, holding)


def _read(cgroups: Cgroups, group: str, files: Iterable[str]) -> CpuFiles:
    texts = {}
    for file in files:
        try:
            texts[file] = cgroups.read(Setting("cpu", group, file))
        except CgroupError:
            continue  # an older kernel has no bursts; a group that is gone has nothing
    return CpuFiles(group, texts)
