"""Facts: for how long tasks could not go on for want of a resource (pressure stall information).

``Documentation/accounting/psi.rst``: for the whole node ``/proc/pressure``, for a group of cgroup
v2 files of its own; cgroup v1 has none. ``some`` is the time in which at least one task waited.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_agent.observe import PodSource
    from walras_agent.tree import Cgroups

Resource = Literal["cpu", "memory"]

_SOME = re.compile(r"^some .*\btotal=(\d+)$", re.MULTILINE)
_RESOURCES: tuple[Resource, ...] = ("cpu", "memory")


class Stall(NamedTuple):
    """How long somebody waited.

    Attributes:
        pod: UID; empty for the whole node.
        resource: What was wanting.
        seconds: Since boot, or since the pod began.
    """

    pod: str
    resource: Resource
    seconds: float


def node_stalls(proc: Path = Path("/proc")) -> Iterator[Stall]:
    """Of the node; nothing from a kernel that does not measure it."""
    for resource in _RESOURCES:
        try:
            text = (proc / "pressure" / resource).read_text(encoding="ascii")
        except OSError:
            continue
        yield from _stall("", resource, text)


def pod_stalls(cgroups: Cgroups, pods: PodSource) -> Iterator[Stall]:
    """Of every pod that is there; a pod that goes meanwhile is left out."""
    if cgroups.version == 1:
        return
    for pod in pods.scan(cgroups):
        for resource in _RESOURCES:
            try:
                text = cgroups.read(Setting(resource, pod.group, f"{resource}.pressure"))
            except CgroupError:
                continue
            yield from _stall(pod.uid, resource, text)


def _stall(pod: str, resource: Resource, text: str) -> Iterator[Stall]:
    if found := _SOME.search(text):
        yield Stall(pod, resource, int(found[1]) / 1e6)
