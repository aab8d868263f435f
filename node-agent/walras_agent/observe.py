"""Facts: reads the CPUs that the tasks of every pod may use now.

Cgroups may be deleted while they are read; these are left out.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from walras_agent.cpuset import CpuSet
from walras_agent.tree import CgroupError, CgroupFile, descendants

if TYPE_CHECKING:
    from walras_agent.kubepods import Layout, PodGroups
    from walras_agent.tree import Cgroups

EFFECTIVE: dict[Literal[1, 2], str] = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}
"""Name of the file with the CPUs that a group's tasks may really use, by cgroup version."""

_PAUSE = "pause"
_BEFORE_EXEC = "runc"  # runc and crun, until they become the container's program


@dataclass(frozen=True, slots=True)
class Group:
    """One cgroup and its CPUs.

    Attributes:
        name: Path of the cgroup.
        cpus: CPUs that its tasks may use.
    """

    name: str
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Container:
    """The cgroup of a container and, in v1, its descendants, parents first.

    In v2 descendants follow the container's cgroup by themselves.
    """

    group: Group
    inside: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """The cgroups of one pod as observed.

    Attributes:
        uid: UID of the pod, as in `kubepods.PodGroups`.
        group: Cgroup of the pod.
        containers: Containers of the pod, without the pause container.
    """

    uid: str
    group: str
    containers: tuple[Container, ...]


class PodSource(Protocol):
    """Interface to find the cgroups of pods: the kubelet's (`kubepods.Layout`), or others."""

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """Return the cgroups of all pods and their containers."""


@dataclass(slots=True)
class PodObserver:
    """Reads the pods of a node, and remembers which containers are pause containers.

    A pause container (https://kubernetes.io/docs/concepts/workloads/pods) only waits, and its
    cgroup is not changed. It is recognized by the name of its process; if the host's processes are
    not visible, it counts as any other container.

    Attributes:
        cgroups: Cgroups of the node.
        source: Finder of its pods.
        proc: Mount point of procfs.
        pauses: Whether there are pause containers at all.
    """

    cgroups: Cgroups
    source: PodSource
    proc: Path = Path("/proc")
    pauses: bool = True
    _pauses: dict[str, int] = field(default_factory=dict)
    _others: dict[str, int] = field(default_factory=dict)

    def observe(self) -> tuple[ObservedPod, ...]:
        """Read all pods of the node."""
        groups = self.source.scan(self.cgroups)
        there = {name for each in groups for name in each.containers}
        for known in (self._pauses, self._others):
            for gone in known.keys() - there:
                del known[gone]
        return tuple(self._pod(each) for each in groups)

    def _pod(self, groups: PodGroups) -> ObservedPod:
        found = (
            self._container(name)
            for name in groups.containers
            if not (self.pauses and self._is_pause(name))
        )
        return ObservedPod(groups.uid, groups.group, tuple(each for each in found if each))

    def _container(self, name: str) -> Container | None:
        group = read_group(self.cgroups, name)
        if group is None:
            return None
        if self.cgroups.version == 2:
            return Container(group)
        inside = (read_group(self.cgroups, each) for each in descendants(self.cgroups, name))
        return Container(group, tuple(each for each in inside if each))

    def _is_pause(self, name: str) -> bool:
        """Whether a cgroup is that of a pause container, by the names of its processes."""
        identity = self.cgroups.identity(name)
        if identity is None or self._others.get(name) == identity:
            return False
        if self._pauses.get(name) == identity:
            return True
        names = self._names(name)
        if names == {_PAUSE}:
            self._pauses[name] = identity
            return True
        if names and _BEFORE_EXEC not in names:
            self._others[name] = identity
        return False

    def _names(self, group: str) -> set[str]:
        """Return the names of a group's processes, up to a colon (``runc:[2:INIT]``)."""
        try:
            pids = self.cgroups.read(CgroupFile("cpuset", group, "cgroup.procs")).split()
        except CgroupError:
            return set()
        names = set()
        for pid in pids:
            try:
                names.add((self.proc / pid / "comm").read_text().strip().partition(":")[0])
            except OSError:
                continue  # ended, or in another PID namespace
        return names


def cpus_of_pods(cgroups: Cgroups, layout: Layout) -> CpuSet:
    """Return the CPUs of the cgroup of all pods, which are all that an agent may assign.

    In cgroup v1 a CPU that went offline and came back is not among them until somebody widens that
    cgroup: the kernel removes offline CPUs for good (``cgroup-v1/cpusets.rst``, section 1.2).

    Raises:
        CgroupError: The cgroup of all pods cannot be read.
    """
    text = cgroups.read(CgroupFile("cpuset", layout.pods, EFFECTIVE[cgroups.version]))
    return CpuSet.parse(text)


def read_group(cgroups: Cgroups, name: str) -> Group | None:
    """Read one cgroup; None if it was deleted.

    Raises:
        ControllerDisabledError: The cgroup exists, but has no files of the cpuset controller.
        CgroupError: The cgroup exists but cannot be read.
    """
    setting = CgroupFile("cpuset", name, EFFECTIVE[cgroups.version])
    try:
        text = cgroups.read(setting)
    except CgroupError as error:
        if error.kind != "gone":
            raise
        if cgroups.version == 2 and _lacks_cpuset(cgroups, name):
            raise ControllerDisabledError(setting) from error
        return None
    return Group(name, CpuSet.parse(text))


def _lacks_cpuset(cgroups: Cgroups, group: str) -> bool:
    """Whether a group may not use cpusets; one that is being deleted loses its files first."""
    try:
        text = cgroups.read(CgroupFile("cpuset", group, "cgroup.controllers"))
    except CgroupError:
        return False
    return "cpuset" not in text.split()


class ControllerDisabledError(CgroupError):
    """The cpuset controller is not enabled for a cgroup (v2).

    systemd may disable a controller that was enabled without asking it, for all pods of a node
    (kubernetes 122955, 131567).
    """

    def __init__(self, setting: CgroupFile) -> None:
        super().__init__(setting, errno.EOPNOTSUPP)

    def __str__(self) -> str:
        parent = self.setting.group.rpartition("/")[0]
        return (
            f"the cpuset controller is not enabled for {self.setting.group}: write +cpuset to "
            f"cgroup.subtree_control of {parent} and the cgroups above it, or restart the kubelet"
        )


def enable_cpuset(cgroups: Cgroups, group: str) -> None:
    """Enable the cpuset controller for a cgroup and those above it (v2).

    Raises:
        CgroupError: The kernel refuses.
    """
    names = group.strip("/").split("/")
    for depth in range(len(names)):
        above = "/" + "/".join(names[:depth])
        cgroups.write(CgroupFile("cpuset", above, "cgroup.subtree_control"), "+cpuset")
