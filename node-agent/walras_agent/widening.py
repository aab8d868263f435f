"""Facts: what the groups above a container lack of the CPUs that it is to have.

They are only ever widened: containers that are created later inherit from them, and fail where
they cannot (koordinator 395, 546; kubernetes 104147).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_agent.moves import CPUS
from walras_agent.observe import read_group
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_agent.tree import Cgroups


def widening(cgroups: Cgroups, pod: str, cpus: CpuSet) -> Iterator[tuple[Setting, str]]:
    """The writes that let a pod's group, and all above it, have some CPUs, topmost first."""
    found = read_group(cgroups, pod)
    if found is None or cpus <= found.cpus:
        return
    parts = pod.strip("/").split("/")
    for depth in range(len(parts)):
        setting = Setting("cpuset", "/" + "/".join(parts[: depth + 1]), CPUS)
        try:
            own = CpuSet.parse(cgroups.read(setting))
        except CgroupError:
            continue
        if own and not cpus <= own:  # an empty one of v2 has all that its parent has
            yield setting, str(own | cpus)
