"""Facts: the cgroups that the kubelet and the container runtime make for pods.

The kubelet makes a group for all pods, one for each QoS class but Guaranteed, and one for each
pod; the runtime makes one for each container inside (Kubernetes: node-allocatable design,
"Recommended Cgroups Setup"; kubelet flags ``--cgroup-driver`` and ``--cgroup-root``). How they are
called depends on who manages cgroups:

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

QosClass = Literal["Guaranteed", "Burstable", "BestEffort"]
Driver = Literal["cgroupfs", "systemd"]

_PODS = "kubepods"
_QOS_GROUPS: dict[QosClass, tuple[str, ...]] = {
    "Guaranteed": (),
    "Burstable": ("burstable",),
    "BestEffort": ("besteffort",),
}

# containerd, CRI-O and docker, as a scope of systemd or as a plain group. CRI-O's monitors
# (``crio-conmon-<container>.scope``) are no containers and do not match.
_CONTAINER = re.compile(r"(?:(?:cri-containerd|crio|docker)-)?([0-9a-f]{12,64})(?:\.scope)?")

_POD = re.compile(r"/pod([0-9a-zA-Z-]+)$|-pod([0-9a-zA-Z_]+)\.slice$")
_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")


@dataclass(frozen=True, slots=True)
class PodGroups:
    """The groups of one pod that are there now.

    Attributes:
        uid: What the kubelet calls the pod by in its cgroups (see `Layout.pod`).
        group: Of the pod.
        containers: Of its containers.
    """

    uid: str
    group: str
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the kubelet of this node calls its cgroups.

    Attributes:
        driver: Who manages them.
        root: The kubelet's ``--cgroup-root``.
    """

    driver: Driver
    root: str = "/"

    @classmethod
    def find(cls, cgroups: Cgroups, root: str = "/") -> Layout:
        """Tell the driver by which of the two groups for all pods is there.

        Raises:
            TreeError: None is, or both are.
        """
        drivers: tuple[Driver, ...] = ("cgroupfs", "systemd")
        layouts = [cls(driver, root) for driver in drivers]
        found = [each for each in layouts if cgroups.identity(each.pods) is not None]
        if len(found) != 1:
            looked = " and ".join(each.pods for each in layouts)
            how = "both are there" if found else "neither is there"
            raise TreeError(
                f"the pods' cgroup is not found: looked for {looked}, {how}; "
                "give the kubelet's --cgroup-driver and --cgroup-root"
            )
        return found[0]

    @property
    def pods(self) -> str:
        """The group of all pods."""
        return self._group(_PODS)

    def pod(self, uid: str, qos: QosClass) -> str:
        """The group of a pod.

        Args:
            uid: Its UID in the API; of a static pod the hash in its annotation
                ``kubernetes.io/config.hash`` (the API's UID is that of its mirror).
            qos: Its QoS class.

        Raises:
            ValueError: The UID cannot be part of a path.
        """
        if not _UID.fullmatch(uid):
            raise ValueError(f"{uid!r} is not the UID of a pod")
        return self._group(_PODS, *_QOS_GROUPS[qos], f"pod{uid}")

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """Find the groups of all pods that are there now, and in each those of its containers.

        The pause container and containers that are being started are among them.
        """
        found = []
        for qos in _QOS_GROUPS.values():
            for pod in cgroups.children(self._group(_PODS, *qos)):
                uid = _uid(pod)
                if uid is not None:
                    inside = cgroups.children(pod)
                    containers = tuple(each for each in inside if container_id(_last(each)))
                    found.append(PodGroups(uid, pod, containers))
        return tuple(found)

    def _group(self, *names: str) -> str:
        parts = [part for part in self.root.split("/") if part] + list(names)
        if self.driver == "systemd":
            escaped = [part.replace("-", "_") for part in parts]
            parts = ["-".join(escaped[: depth + 1]) + ".slice" for depth in range(len(escaped))]
        return "/" + "/".join(parts)


# A look every few seconds meets the same names again.
@lru_cache(maxsize=4096)
def _uid(group: str) -> str | None:
    """The UID of the pod whose group is called so; None for what is no pod's."""
    match = _POD.search(group)
    return (match[1] or match[2].replace("_", "-")) if match else None


@lru_cache(maxsize=4096)
def container_id(name: str) -> str | None:
    """The ID of the container whose group is called so; None for what is no container."""
    match = _CONTAINER.fullmatch(name)
    return match[1] if match else None


def _last(group: str) -> str:
    return group.rpartition("/")[2]
