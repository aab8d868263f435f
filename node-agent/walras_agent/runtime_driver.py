"""Facts: notices a container runtime whose cgroup driver is not the kubelet's.

A kubelet with the driver ``systemd`` names the slice of a pod to the runtime as the parent of its
containers. containerd with ``SystemdCgroup = false``, its own default, makes a plain group of that
text, below its own group or the root (kubernetes 106514):

    /system.slice/containerd.service/kubepods-burstable-pod<uid>.slice:cri-containerd:<container>

Such a container takes part in nothing that is written to its pod's group. It runs on all CPUs, also
on those that other pods own. The other way round, runc refuses to start containers.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_agent.kubepods import Layout
    from walras_agent.tree import Cgroups

LOOK_SECONDS = 30.0

_SERVICES = "/system.slice"
_STRAY = re.compile(r"/[^/]*kubepods[^/]*-pod[0-9a-zA-Z_]+\.slice(:[^/]+)?$")


@dataclass(slots=True)
class RuntimeDriver:
    """Looks for containers beside their pods' groups, every `LOOK_SECONDS`.

    Attributes:
        cgroups: Cgroups of the node.
        layout: Where the kubelet has pods.
        clock: Monotonic time in seconds.
    """

    cgroups: Cgroups
    layout: Layout
    clock: Callable[[], float] = time.monotonic
    _problem: str = ""
    _looked: float = field(default=float("-inf"))

    def conflict(self) -> str:
        """Return why grants cannot be enforced on this node; empty if they can."""
        if self.clock() - self._looked >= LOOK_SECONDS:
            self._looked = self.clock()
            stray = next(self._strays(), None)
            self._problem = "" if stray is None else _conflict_with(stray)
        return self._problem

    def _strays(self) -> Iterator[str]:
        if self.layout.driver != "systemd":
            return
        for parent in ("/", _SERVICES, *self.cgroups.children(_SERVICES)):
            yield from filter(_STRAY.search, self.cgroups.children(parent))


def _conflict_with(stray: str) -> str:
    return (
        f"the container runtime has the cgroup driver cgroupfs and the kubelet has systemd, so "
        f"containers are not in their pods' cgroups but in others, such as {stray}: in "
        "/etc/containerd/config.toml, set SystemdCgroup = true below "
        "containerd.runtimes.runc.options, restart containerd, and replace the node's pods"
    )
