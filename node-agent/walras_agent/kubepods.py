"""Facts: finds the cgroups that the kubelet and the container runtime create for pods.

The kubelet creates a group for all pods, one for each QoS class except Guaranteed, and one for each
pod; the runtime creates one for each container in it (Kubernetes: node-allocatable design,
"Recommended Cgroups Setup"; kubelet flags ``--cgroup-driver`` and ``--cgroup-root``). Their names
depend on the cgroup driver:

======== ==============================================================================
cgroupfs ``/kubepods/burstable/pod<uid>/<container>``
systemd  ``/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/``
         ``cri-containerd-<container>.scope``, where the dashes of the UID are underscores,
         because a dash separates a slice from the one it lies in (systemd.slice(5))
======== ==============================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from walras_agent.tree import TreeError

if TYPE_CHECKING:
    from walras_agent.tree import Cgroups

Driver = Literal["cgroupfs", "systemd"]

_PODS = "kubepods"
_QOS_GROUPS: tuple[tuple[str, ...], ...] = ((), ("burstable",), ("besteffort",))

_POD = re.compile(r"/pod([0-9a-zA-Z-]+)$|-pod([0-9a-zA-Z_]+)\.slice$")


@dataclass(frozen=True, slots=True)
class PodGroups:
    """The cgroups of one pod.

    Attributes:
        uid: UID by which the kubelet names the pod's cgroup: that of the API, but for a static pod
            the hash of its manifest.
        group: Cgroup of the pod.
        containers: Cgroups of its containers.
    """

    uid: str
    group: str
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The naming scheme of the kubelet's cgroups on this node.

    Attributes:
        driver: Cgroup driver of the kubelet.
        root: The kubelet's ``--cgroup-root``.
    """

    driver: Driver
    root: str = "/"

    @classmethod
    def find(cls, cgroups: Cgroups, root: str = "/") -> Layout:
        """Find the driver by the name of the group for all pods.

        Where both groups exist, the one that contains containers counts: a kubelet leaves the other
        one behind when its driver is changed.

        Raises:
            TreeError: Neither driver's group exists, or it is not clear which one is used.
        """
        drivers: tuple[Driver, ...] = ("cgroupfs", "systemd")
        layouts = [cls(driver, root) for driver in drivers]
        existing = [each for each in layouts if cgroups.identity(each.pods) is not None]
        used = [each for each in existing if len(existing) == 1 or each._has_containers(cgroups)]
        if len(used) != 1:
            looked = " and ".join(each.pods for each in layouts)
            how = "neither exists"
            if existing:
                how = f"both exist, and {'both have' if used else 'neither has'} containers"
            raise TreeError(
                f"cannot find the cgroup of all pods: of {looked}, {how}; "
                "set --cgroup-driver and --cgroup-root to the kubelet's values"
            )
        return used[0]

    def _has_containers(self, cgroups: Cgroups) -> bool:
        return any(pod.containers for pod in self.scan(cgroups))

    @property
    def pods(self) -> str:
        """Cgroup of all pods."""
        return self._group(_PODS)

    @property
    def classes(self) -> tuple[str, ...]:
        """Cgroups of the QoS classes that have one."""
        return tuple(self._group(_PODS, *qos) for qos in _QOS_GROUPS if qos)

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """Return the cgroups of all pods and their containers.

        Every child of a pod's group counts as a container, whatever its name, which each runtime
        chooses. So pause containers, CRI-O's monitors and containers that are being started are
        included.
        """
        pods = []
        for qos in _QOS_GROUPS:
            for pod in cgroups.children(self._group(_PODS, *qos)):
                uid = _uid(pod)
                if uid is not None:
                    pods.append(PodGroups(uid, pod, cgroups.children(pod)))
        return tuple(pods)

    def _group(self, *names: str) -> str:
        parts = [part for part in self.root.split("/") if part] + list(names)
        if self.driver == "systemd":
            escaped = [part.replace("-", "_") for part in parts]
            parts = ["-".join(escaped[: depth + 1]) + ".slice" for depth in range(len(escaped))]
        return "/" + "/".join(parts)


# The same names are parsed every few seconds.
@lru_cache(maxsize=4096)
def _uid(group: str) -> str | None:
    """Return the UID of the pod with this cgroup; None if it is not the cgroup of a pod."""
    match = _POD.search(group)
    return (match[1] or match[2].replace("_", "-")) if match else None
