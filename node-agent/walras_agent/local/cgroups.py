"""Effects: creates, fills, kills and removes the cgroups of local jobs.

All groups of a run are below one, ``walras-<run>``, and only these are written; in v2 also the
parent's ``cgroup.subtree_control``, which is not restored. The enforcer sets their CPUs.

Rules of the kernel that this module follows (``cgroup-v1/cgroups.rst``, ``cpusets.rst`` and
``freezer-subsystem.rst``, ``cgroup-v2.rst``): a v1 group is a directory in each of several
hierarchies; a v1 cpuset accepts processes only once it has memory nodes and CPUs of its parent; a
v2 group other than the root cannot have both processes and children with controllers.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras_agent import procfs
from walras_agent.cpuset import CpuSet
from walras_agent.local.hierarchies import Hierarchy, read_hierarchies
from walras_agent.local.killing import kill_if
from walras_agent.local.runs import PREFIX, PlacementError, Run, container_of, is_over
from walras_agent.tree import (
    CONTROLLERS,
    CgroupError,
    CgroupFile,
    CgroupTree,
    Controller,
    read_cpu_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)

_NEEDED_V1: tuple[Controller, ...] = ("cpuset", "cpu", "cpuacct")
_NEEDED_V2: tuple[Controller, ...] = ("cpuset", "cpu")
_TOP = ""

# A killed process has to run once more to end, for which it waits on a busy machine.
_KILL_SECONDS = 60.0
_REMOVE_SECONDS = 60.0
_FREEZE_SECONDS = 0.5
_PAUSE_SECONDS = 0.005

# File to write, values that freeze and thaw; file to read, and the line that it shows when frozen.
_FREEZERS: dict[Literal[1, 2], tuple[str, str, str, str, str]] = {
    1: ("freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"),
    2: ("cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"),
}


@dataclass(frozen=True, slots=True)
class KernelGroups(CgroupTree):
    """The cgroups of local jobs below `mounts` (implements `placement.PlacementGroups`)."""

    @property
    def description(self) -> str:
        """Name of the mechanism in messages."""
        return f"cgroup v{self.version} cpuset"

    @property
    def weighs_threads(self) -> bool:
        """Whether each thread has a job's weight to itself: no, its threads divide it."""
        return False

    def make(self, pod: str) -> None:
        """Create the groups of a job, and before its first job the group of the run.

        The run gets the CPUs that this process may use, which limits all of its jobs.
        """
        run = pod.rpartition("/")[0]
        try:
            if self.identity(run) is None:
                self._make(run)
                allowed = CpuSet(os.sched_getaffinity(0))
                self.write(CgroupFile("cpuset", run, "cpuset.cpus"), str(allowed))
            self._make(pod)
            self._make(container_of(pod))
        except CgroupError as error:
            raise PlacementError(f"{pod} cannot be created: {error}") from error
        except OSError as error:
            raise PlacementError(f"{error.filename} cannot be created: {error.strerror}") from error

    def admit(self, pod: str, pid: int) -> None:
        """Move a process into the group of a job's processes."""
        for controller in self._hierarchies():
            self.write(CgroupFile(controller, container_of(pod), "cgroup.procs"), str(pid))

    def keep(self) -> None:
        """Do nothing: the kernel enforces cpusets."""

    def pids(self, group: str) -> tuple[int, ...]:
        """Return the process IDs in a group and all below it, ascending; empty if it is gone."""
        pids: set[int] = set()
        for controller, each in self._below(group):
            with suppress(CgroupError):  # removed meanwhile
                pids.update(
                    map(int, self.read(CgroupFile(controller, each, "cgroup.procs")).split())
                )
        # Processes of a PID namespace that is not visible from here are listed as 0.
        return tuple(sorted(pids - {0}))

    def cpu_seconds(self, group: str) -> float:
        """Return the CPU time in seconds of all processes that a group and its descendants had."""
        return read_cpu_seconds(self, group)

    def kill(self, group: str) -> None:
        """Kill every process in a group, which is frozen first if possible to stop forks.

        Raises:
            PlacementError: Some processes survive for a minute.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while pids := self.pids(group):
            if time.monotonic() > deadline:
                listed = ", ".join(map(str, pids[:5]))
                raise PlacementError(
                    f"{group}: processes {listed} survive SIGKILL; end them by hand"
                )
            with self._frozen(group):
                for pid in self.pids(group):
                    kill_if(pid, partial(procfs.is_in_cgroup, pid, group))
            time.sleep(_PAUSE_SECONDS)

    def remove(self, group: str) -> None:
        """Remove a group without processes and all below it, if it exists.

        The kernel returns EBUSY until the last task has finished exiting.

        Raises:
            PlacementError: A group is still in use after a minute.
        """
        deadline = time.monotonic() + _REMOVE_SECONDS
        while (error := self._try_to_remove(group)) is not None:
            if time.monotonic() > deadline:
                raise PlacementError(f"{group} cannot be removed: {error.strerror}") from error
            time.sleep(_PAUSE_SECONDS)

    def _make(self, group: str) -> None:
        above = group.rpartition("/")[0]
        if self.version == 2:
            control = CgroupFile("cpuset", above, "cgroup.subtree_control")
            offered = self.read(control).split()
            if lacking := [f"+{name}" for name in _NEEDED_V2 if name not in offered]:
                self.write(control, " ".join(lacking))
        for controller in self._hierarchies():
            Path(self.folder(controller, group)).mkdir()
        if self.version == 1:
            for kind in ("mems", "cpus"):
                inherited = self.read(CgroupFile("cpuset", above, f"cpuset.effective_{kind}"))
                self.write(CgroupFile("cpuset", group, f"cpuset.{kind}"), inherited)

    def _hierarchies(self) -> tuple[Controller, ...]:
        """Return one controller of each hierarchy; in v1 cpu and cpuacct usually share one."""
        return tuple({mount: name for name, mount in self.mounts.items()}.values())

    def _below(self, group: str) -> Iterator[tuple[Controller, str]]:
        """Yield a group and all below it in every hierarchy, children first."""
        for controller in self._hierarchies():
            for folder, _, _ in os.walk(self.folder(controller, group), topdown=False):
                yield controller, folder.removeprefix(self.mounts[controller])

    def _try_to_remove(self, group: str) -> OSError | None:
        for controller, each in self._below(group):
            try:
                Path(self.folder(controller, each)).rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                return error
        return None

    @contextmanager
    def _frozen(self, group: str) -> Iterator[None]:
        """Freeze a group, if that succeeds within half a second; the caller repeats its work."""
        file, frozen, thawed, state_file, frozen_line = _FREEZERS[self.version]
        deadline = time.monotonic() + _FREEZE_SECONDS
        try:
            with suppress(CgroupError, KeyError):  # removed, or no freezer
                self.write(CgroupFile("freezer", group, file), frozen)
                state = CgroupFile("freezer", group, state_file)
                while (
                    frozen_line not in self.read(state).splitlines() and time.monotonic() < deadline
                ):
                    time.sleep(_PAUSE_SECONDS / 5)
            yield
        finally:
            with suppress(CgroupError, KeyError):
                self.write(CgroupFile("freezer", group, file), thawed)


def kernel_groups() -> Iterator[KernelGroups]:
    """Yield the places where this process may be able to create cgroups, best first."""
    hierarchies = read_hierarchies()
    for hierarchy in hierarchies:
        for parent in _parents_v2(hierarchy) if hierarchy.version == 2 else ():
            groups = KernelGroups(2, dict.fromkeys(CONTROLLERS, str(parent)))
            if _offers_cpusets(groups):
                yield groups
    own = {name: str(h.own_group) for h in hierarchies for name in h.controllers & {*CONTROLLERS}}
    if own.keys() >= {*_NEEDED_V1}:
        names = (*_NEEDED_V1, "freezer") if "freezer" in own else _NEEDED_V1
        yield KernelGroups(1, {name: own[name] for name in names})


def remove_stale_runs() -> tuple[str, ...]:
    """Kill the jobs and remove the cgroups of runs whose process has ended.

    Returns:
        IDs of the runs that were removed. Runs of other users stay and are logged.
    """
    left: dict[tuple[str, Literal[1, 2]], dict[Controller, str]] = {}
    for hierarchy in read_hierarchies():
        version = hierarchy.version
        kept = [name for name in CONTROLLERS if version == 2 or name in hierarchy.controllers]
        for folder, names, _ in os.walk(hierarchy.mount):
            for name in names:
                run = name.removeprefix(PREFIX)
                if run != name and is_over(run):
                    left.setdefault((run, version), {}).update(dict.fromkeys(kept, folder))
    return tuple(
        run
        for (run, version), mounts in sorted(left.items())
        if _remove_run(KernelGroups(version, mounts), Run(run))
    )


def _remove_run(groups: KernelGroups, run: Run) -> bool:
    try:
        groups.kill(run.group)
        groups.remove(run.group)
    except PlacementError as error:
        _log.warning("run %s has ended but cannot be removed: %s", run.id, error)
        return False
    return True


def _parents_v2(hierarchy: Hierarchy) -> tuple[Path, ...]:
    """Return the possible parents of a run's group: the own group's parent, then the root.

    The own group contains this process, so it can be a parent only if it is the root.
    """
    beside = (
        hierarchy.mount if hierarchy.own_group == hierarchy.mount else hierarchy.own_group.parent
    )
    return tuple(dict.fromkeys((beside, hierarchy.mount)))


def _offers_cpusets(groups: KernelGroups) -> bool:
    try:
        return "cpuset" in groups.read(CgroupFile("cpuset", _TOP, "cgroup.controllers")).split()
    except CgroupError:
        return False
