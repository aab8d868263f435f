"""Facts: which CPUs the tasks of every pod may use now.

Groups come and go while they are read; one that is gone by the time is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from walras_agent.cpuset import CpuSet
from walras_agent.tree import CgroupError, Setting, below

if TYPE_CHECKING:
    from walras_agent.kubepods import Layout, PodGroups
    from walras_agent.tree import Cgroups

EFFECTIVE: dict[Literal[1, 2], str] = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}
"""The file that tells on which CPUs a group's tasks may really run."""

_PAUSE = "pause"
_BEFORE_EXEC = "runc"  # runc and crun, until they become the container's program


@dataclass(frozen=True, slots=True)
class Group:
    """One group of tasks.

    Attributes:
        name: Its path.
        cpus: CPUs on which its tasks may run.
    """

    name: str
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Container:
    """The group of a container and, in cgroup v1, those that it made inside, parents first.

    In v2 these follow the container's group by themselves.
    """

    group: Group
    inside: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """What is there of one pod.

    Attributes:
        uid: See `kubepods.PodGroups`.
        group: The pod's own group.
        containers: All but the pause container.
    """

    uid: str
    group: str
    containers: tuple[Container, ...]


class PodSource(Protocol):
    """Knows where the groups of pods are: the kubelet's (`kubepods.Layout`), or others'."""

    def scan(self, cgroups: Cgroups) -> tuple[PodGroups, ...]:
        """Find the groups of all pods that are there now, and in each those of its containers."""


@dataclass(slots=True)
class Observer:
    """Reads the pods of a node; remembers which containers are pause containers.

    A pause container (https://kubernetes.io/docs/concepts/workloads/pods) only waits; it is left
    as the runtime made it. It is told by the name of its process, where this process sees those
    of the host; where it does not, a pause container counts as any other.

    Attributes:
        cgroups: Of the node.
        source: Knows where its pods are.
        proc: Where processes are found.
        pauses: Whether there are pause containers at all.
    """

    cgroups: Cgroups
    source: PodSource
    proc: Path = Path("/proc")
    pauses: bool = True
    _pauses: dict[str, int] = field(default_factory=dict)
    _others: dict[str, int] = field(default_factory=dict)

    def observe(self) -> tuple[Pod, ...]:
        """Read all pods that are there now."""
        groups = self.source.scan(self.cgroups)
        there = {name for each in groups for name in each.containers}
        for known in (self._pauses, self._others):
            for gone in known.keys() - there:
                del known[gone]
        return tuple(self._pod(each) for each in groups)

    def _pod(self, groups: PodGroups) -> Pod:
        found = (
            self._container(name)
            for name in groups.containers
            if not (self.pauses and self._is_pause(name))
        )
        return Pod(groups.uid, groups.group, tuple(each for each in found if each))

    def _container(self, name: str) -> Container | None:
        group = read_group(self.cgroups, name)
        if group is None:
            return None
        if self.cgroups.version == 2:
            return Container(group)
        inside = (read_group(self.cgroups, each) for each in below(self.cgroups, name))
        return Container(group, tuple(each for each in inside if each))

    def _is_pause(self, name: str) -> bool:
        """Whether a group is that of a pause container, as read once for each."""
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
        """The names of a group's processes, up to a colon (``runc:[2:INIT]``)."""
        try:
            pids = self.cgroups.read(Setting("cpuset", group, "cgroup.procs")).split()
        except CgroupError:
            return set()
        names = set()
        for pid in pids:
            try:
                names.add((self.proc / pid / "comm").read_text().strip().partition(":")[0])
            except OSError:
                continue  # gone, or another PID namespace's
        return names


def cpus_of_pods(cgroups: Cgroups, layout: Layout) -> CpuSet:
    """The CPUs that all pods together may use: an agent hands out no others.

    In cgroup v1 one that went offline and came back is not among them until somebody widens that
    group again: the kernel had taken it out for good (``cgroup-v1/cpusets.rst``, section 1.2).

    Raises:
        CgroupError: The group of all pods cannot be read.
    """
    text = cgroups.read(Setting("cpuset", layout.pods, EFFECTIVE[cgroups.version]))
    return CpuSet.parse(text)


def read_group(cgroups: Cgroups, name: str) -> Group | None:
    """Read one group; None when it is gone.

    Raises:
        CgroupError: It is there and cannot be read.
    """
    try:
        text = cgroups.read(Setting("cpuset", name, EFFECTIVE[cgroups.version]))
    except CgroupError as error:
        if error.kind == "gone":
            return None
        raise
    return Group(name, CpuSet.parse(text))
