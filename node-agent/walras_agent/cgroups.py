"""Apply: jobs held to CPUs by cgroups of their own.

All groups of a run are under one parent, ``walras-<run>``, and only they are ever written; on
v2 the group above has to offer its controllers, and goes on doing so. A group of cgroup v1 is a
directory in each of several hierarchies.

Rules of the kernel that shape this module (``cgroup-v1/cpusets.rst``, ``cgroup-v2.rst``): a v1
cpuset takes processes only once it has memory nodes and CPUs, of those its parent has; a v2
group other than the root cannot hold processes and offer controllers to its children; v2 takes
CPUs that are not to be had and ignores them, so what counts is read back.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from walras_agent import cgroupfs, runs
from walras_agent.cpuset import CpuSet
from walras_agent.hierarchies import Hierarchy, read_hierarchies
from walras_agent.runs import PlacementError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_log = logging.getLogger(__name__)

_PREFIX = "walras-"
_NEEDED_V1 = ("cpuset", "cpu", "cpuacct")
_NEEDED_V2 = ("cpuset", "cpu")


class _Interface(Protocol):
    """What differs between cgroup v1 and v2."""

    description: str

    def make(self, parents: Sequence[Path], name: str) -> tuple[Path, ...]:
        """Make the child ``name``, ready for processes, in each of the parents' folders."""

    def set_cpus(self, folders: Sequence[Path], cpus: CpuSet) -> CpuSet:
        """Set the CPUs and return those in effect."""

    def set_weight(self, folders: Sequence[Path], weight: int) -> None:
        """Set the weight, on the scale of v2."""

    def cpu_seconds(self, folders: Sequence[Path]) -> float:
        """User and system time of the group and all below it, in seconds."""


class CgroupPlacer:
    """Places jobs in cgroups; see ``placement.Placer``."""

    def __init__(self, interface: _Interface, parents: Sequence[Path], run: str) -> None:
        self.description = interface.description
        self._interface = interface
        self._run = runs.checked_name(run)
        self._groups: list[CgroupGroup] = []
        self._folders = interface.make(parents, _PREFIX + run)

    def open(self, name: str) -> CgroupGroup:
        """Make the group of one job."""
        # The prefix keeps names such as `cpu.weight` apart from the kernel's own files.
        folders = self._interface.make(self._folders, f"job-{runs.checked_name(name)}")
        group = CgroupGroup(self._interface, folders, name, runs.marker(self._run, name))
        self._groups.append(group)
        return group

    def close(self) -> None:
        """Kill what all groups still hold and remove them, also if one resists."""
        with ExitStack() as closing:
            # Called last to first: the run's own folders come after those of its jobs.
            closing.callback(cgroupfs.remove, self._folders)
            for group in self._groups:
                closing.callback(group.close)
        self._groups.clear()


class CgroupGroup:
    """One job's cgroup; see ``placement.Group``."""

    def __init__(
        self,
        interface: _Interface,
        folders: Sequence[Path],
        name: str,
        environment: Mapping[str, str],
    ) -> None:
        self.environment = environment
        self._interface = interface
        self._folders = folders
        self._name = name
        self._last_cpu_seconds = 0.0

    def admit(self, pid: int) -> None:
        """Move a process into the group."""
        for folder in self._folders:
            cgroupfs.write(folder / "cgroup.procs", str(pid))

    def place(self, cpus: CpuSet, weight: int = 100) -> None:
        """Set the group's CPUs and weight, and read the CPUs back."""
        if not cpus:
            raise ValueError(f"{self._name}: no CPU to be placed on")
        self._interface.set_weight(self._folders, runs.checked_weight(self._name, weight))
        effective = self._interface.set_cpus(self._folders, cpus)
        if effective != cpus:
            raise PlacementError(
                f"{self._name}: CPUs {cpus} were asked for, the kernel gives {effective}; "
                "choose among CPUs that are online and allowed"
            )

    def pids(self) -> tuple[int, ...]:
        """The processes in the group, ascending."""
        return cgroupfs.pids(self._folders[0])

    def cpu_seconds(self) -> float:
        """User and system time of all processes the group ever held."""
        if self._folders[0].exists():
            self._last_cpu_seconds = self._interface.cpu_seconds(self._folders)
        return self._last_cpu_seconds

    def kill(self) -> None:
        """Kill all processes in the group."""
        cgroupfs.kill(self._folders)

    def close(self) -> None:
        """Kill the group's processes and remove it."""
        self.kill()
        self.cpu_seconds()
        cgroupfs.remove(self._folders)


class _CgroupV1:
    """Hierarchies in the order of ``_NEEDED_V1``, then the freezer's where it is mounted."""

    description = "cgroup v1 cpuset"

    def make(self, parents: Sequence[Path], name: str) -> tuple[Path, ...]:
        folders = tuple(parent / name for parent in parents)
        made: list[Path] = []
        try:
            # cpu and cpuacct are one hierarchy on most systems.
            for folder in dict.fromkeys(folders):
                cgroupfs.make(folder)
                made.append(folder)
            for kind in ("mems", "cpus"):
                inherited = cgroupfs.read(parents[0] / f"cpuset.effective_{kind}")
                cgroupfs.write(folders[0] / f"cpuset.{kind}", inherited)
        except PlacementError:
            cgroupfs.remove(made)
            raise
        return folders

    def set_cpus(self, folders: Sequence[Path], cpus: CpuSet) -> CpuSet:
        _write_news(folders[0] / "cpuset.cpus", str(cpus))
        return CpuSet.parse(cgroupfs.read(folders[0] / "cpuset.effective_cpus"))

    def set_weight(self, folders: Sequence[Path], weight: int) -> None:
        # The default is 1024 here and 100 in v2; the kernel's least is 2.
        _write_news(folders[1] / "cpu.shares", str(max(2, round(weight * 1024 / 100))))

    def cpu_seconds(self, folders: Sequence[Path]) -> float:
        return int(cgroupfs.read(folders[2] / "cpuacct.usage")) / 1e9


class _CgroupV2:
    description = "cgroup v2 cpuset"

    def make(self, parents: Sequence[Path], name: str) -> tuple[Path, ...]:
        (parent,) = parents
        offered = cgroupfs.read(parent / "cgroup.subtree_control").split()
        wanted = [f"+{controller}" for controller in _NEEDED_V2 if controller not in offered]
        if wanted:
            cgroupfs.write(parent / "cgroup.subtree_control", " ".join(wanted))
        folder = parent / name
        cgroupfs.make(folder)
        return (folder,)

    def set_cpus(self, folders: Sequence[Path], cpus: CpuSet) -> CpuSet:
        _write_news(folders[0] / "cpuset.cpus", str(cpus))
        return CpuSet.parse(cgroupfs.read(folders[0] / "cpuset.cpus.effective"))

    def set_weight(self, folders: Sequence[Path], weight: int) -> None:
        _write_news(folders[0] / "cpu.weight", str(weight))

    def cpu_seconds(self, folders: Sequence[Path]) -> float:
        # The first line: `usage_usec` and the time.
        return int(cgroupfs.read(folders[0] / "cpu.stat").split()[1]) / 1e6


def cgroup_placers(run: str) -> Iterator[Callable[[], CgroupPlacer]]:
    """The ways to make a placer here, best first; each may raise PlacementError when called."""
    hierarchies = read_hierarchies()
    for hierarchy in hierarchies:
        if hierarchy.version == 2 and _offers_cpuset(hierarchy):
            for parent in _parents_v2(hierarchy):
                yield partial(CgroupPlacer, _CgroupV2(), (parent,), run)
    own = {controller: h.own for h in hierarchies for controller in h.controllers}
    if all(controller in own for controller in _NEEDED_V1):
        names = (*_NEEDED_V1, "freezer") if "freezer" in own else _NEEDED_V1
        yield partial(CgroupPlacer, _CgroupV1(), [own[name] for name in names], run)


def remove_stale_runs() -> tuple[str, ...]:
    """Kill and remove what runs whose process is gone have left in cgroups.

    Returns:
        The ids of the runs removed. Another user's are left and logged.
    """
    left: dict[str, list[Path]] = {}
    for hierarchy in read_hierarchies():
        for root, names, _ in os.walk(hierarchy.mount):
            for name in names:
                run = name.removeprefix(_PREFIX)
                if run != name and runs.is_over(run):
                    left.setdefault(run, []).append(Path(root, name))
    return tuple(run for run, folders in sorted(left.items()) if _remove_run(run, folders))


def _remove_run(run: str, folders: Sequence[Path]) -> bool:
    try:
        cgroupfs.kill(folders)
        cgroupfs.remove(folders)
    except PlacementError as error:
        _log.warning("run %s is over but stays: %s", run, error)
        return False
    return True


def _parents_v2(hierarchy: Hierarchy) -> tuple[Path, ...]:
    """Groups that may have our run as a child: beside our own group, then under the root.

    Our own group holds this process, so only as the root can it have children with controllers.
    """
    beside = hierarchy.mount if hierarchy.own == hierarchy.mount else hierarchy.own.parent
    return tuple(dict.fromkeys((beside, hierarchy.mount)))


def _offers_cpuset(hierarchy: Hierarchy) -> bool:
    try:
        return "cpuset" in cgroupfs.read(hierarchy.mount / "cgroup.controllers").split()
    except PlacementError:
        return False


def _write_news(file: Path, value: str) -> None:
    """Write unless that is what the file says: the placement is asserted every second."""
    if cgroupfs.read(file) != value:
        cgroupfs.write(file, value)
