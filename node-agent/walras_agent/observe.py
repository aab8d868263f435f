"""Facts: reads the CPUs that the tasks of every pod may use now.

Cgroups may be deleted while they are read; these are left out.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from walras_agent.cpuset import CpuSet
from walras_agent.tree import CgroupError, CgroupFile, descendants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_agent.kubepods import PodGroups
    from walras_agent.tree import Cgroups

EFFECTIVE: dict[Literal[1, 2], str] = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}
"""Name of the file with the CPUs that a group's tasks may really use, by cgroup version."""


SUBGROUP = "container"
"""Name of the cgroup below a container's in which crun runs the container, with the same limits.

It does so with the cgroup driver ``systemd``, unless the annotation ``run.oci.systemd.subgroup`` is
empty, as OpenShift sets it since 4.18 (crun 305, machine-config-operator 4774).
"""


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

    In v2 descendants follow the container's cgroup by themselves. Before Linux 6.1, however, a
    group must keep the CPUs that its children list, so for some containers (`PodObserver.divided`)
    the descendants that list CPUs are here, with these CPUs.

    Attributes:
        group: Cgroup of the container.
        inside: Its descendants.
        error: Why one of them cannot be read; then the group's CPUs are the last that are known.
    """

    group: Group
    inside: tuple[Group, ...] = ()
    error: CgroupError | None = None


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """The cgroups of one pod as observed.

    Attributes:
        uid: UID of the pod, as in `kubepods.PodGroups`.
        group: Cgroup of the pod.
        containers: Containers of the pod, its pause container included.
    """

    uid: str
    group: str
    containers: tuple[Container, ...]

    @property
    def parent(self) -> str:
        """Cgroup that the pod's lies in: that of its QoS class, if this has one."""
        return self.group.rpartition("/")[0]

    @property
    def groups(self) -> tuple[str, ...]:
        """Cgroups of the pod and its containers, and the subgroups that these may have."""
        names = [each.group.name for each in self.containers]
        return (self.group, *names, *(f"{name}/{SUBGROUP}" for name in names))


class PodSource(Protocol):
    """Interface to find the cgroups of pods: the kubelet's (`kubepods.Layout`), or others."""

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """Return the cgroups of all pods and their containers."""


@dataclass(slots=True)
class PodObserver:
    """Reads the pods of a node.

    Pause containers (https://kubernetes.io/docs/concepts/workloads/pods) are treated like all
    others: nothing that an agent can see tells them from a program that only claims to be one.

    Attributes:
        cgroups: Cgroups of the node.
        source: Finder of its pods.
        divided: Containers (v2) of which the descendants that list CPUs are read, too.
        known: Last known CPUs of every container.
    """

    cgroups: Cgroups
    source: PodSource
    divided: set[str] = field(default_factory=set)
    known: dict[str, CpuSet] = field(default_factory=dict)
    _listed: tuple[PodGroups, ...] | None = None

    def observe(self, *, undisturbed: bool = False) -> tuple[ObservedPod, ...]:
        """Read all pods of the node.

        Args:
            undisturbed: Whether no group was made or removed since the last call, so that they need
                not be listed again.

        Raises:
            ControllerDisabledError: A pod may not use cpusets.
            CgroupError: The groups of a pod cannot be listed.
        """
        if self._listed is None or not undisturbed:
            self._listed = None  # if they cannot be listed
            self._listed = self.source.scan(self.cgroups)
        pods = tuple(self._pod(each) for each in self._listed)
        self.known = {each.group.name: each.group.cpus for pod in pods for each in pod.containers}
        self.divided &= self.known.keys()
        return pods

    def _pod(self, groups: PodGroups) -> ObservedPod:
        containers = map(self._container, groups.containers)
        return ObservedPod(groups.uid, groups.group, tuple(each for each in containers if each))

    def _container(self, name: str) -> Container | None:
        try:
            return self._read(name)
        except ControllerDisabledError:
            raise
        except CgroupError as error:
            return Container(Group(name, self.known.get(name, CpuSet())), error=error)

    def _read(self, name: str) -> Container | None:
        group = read_group(self.cgroups, name)
        if group is None:
            return None
        if self.cgroups.version == 2:
            return Container(group, tuple(self._listing(name)) if name in self.divided else ())
        inside = (read_group(self.cgroups, each) for each in descendants(self.cgroups, name))
        return Container(group, tuple(each for each in inside if each))

    def _listing(self, name: str) -> Iterator[Group]:
        """Yield the descendants that list CPUs, as far as their parents do, parents first."""
        for child in self.cgroups.children(name):
            try:
                text = self.cgroups.read(CgroupFile("cpuset", child, "cpuset.cpus"))
            except CgroupError as error:
                if error.kind != "gone":
                    raise
                continue
            if text:
                yield Group(child, CpuSet.parse(text))
                yield from self._listing(child)


def read_group(cgroups: Cgroups, name: str) -> Group | None:
    """Read one cgroup; None if it was deleted.

    In cgroup v1 a CPU that went offline and came back is not in the cgroup of all pods until
    somebody widens that: the kernel removes offline CPUs for good (``cgroup-v1/cpusets.rst``,
    section 1.2).

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


def limited_groups(cgroups: Cgroups, pod: ObservedPod) -> tuple[str, ...]:
    """Return the cgroups of a pod's containers that have limits: these, and their subgroups.

    What else is below a container is its user's.
    """
    names = [each.group.name for each in pod.containers]
    below = [f"{name}/{SUBGROUP}" for name in names] if cgroups.version == 2 else []
    return (*names, *(name for name in below if _exists(cgroups, name)))


def _exists(cgroups: Cgroups, group: str) -> bool:
    """Whether a group exists and may be looked at."""
    try:
        return cgroups.identity(group) is not None
    except CgroupError:
        return False


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
