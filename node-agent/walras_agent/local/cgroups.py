"""Apply: cgroups of one's own for jobs: made, filled, killed whole and removed.

All groups of a run are under one, ``walras-<run>``, and only they are ever written; on v2 the group
above has to offer its controllers, and goes on doing so. Which CPUs they have is the enforcer's
business, and so is the order in which that changes.

Rules of the kernel that shape this module (``cgroup-v1/cgroups.rst``, ``cpusets.rst`` and
``freezer-subsystem.rst``, ``cgroup-v2.rst``): a v1 group is a directory in each of several
hierarchies; a v1 cpuset takes processes only once it has memory nodes and CPUs, of those its
parent has; a v2 group other than the root cannot hold processes and offer controllers to its
children.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras_agent.cpuset import CpuSet
from walras_agent.local.hierarchies import Hierarchy, read_hierarchies
from walras_agent.local.runs import PREFIX, PlacementError, Run, container_of, is_over
from walras_agent.tree import CONTROLLERS, CgroupError, CgroupTree, Controller, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)

_NEEDED_V1: tuple[Controller, ...] = ("cpuset", "cpu", "cpuacct")
_NEEDED_V2: tuple[Controller, ...] = ("cpuset", "cpu")
_TOP = ""

# A process that is killed has to run once more to end, and on a busy machine waits for that.
_KILL_SECONDS = 60.0
_REMOVE_SECONDS = 60.0
_FREEZE_SECONDS = 0.5
_PAUSE_SECONDS = 0.005

# Where to write, what freezes and what thaws; where to read, and what says that all is frozen.
_FREEZERS: dict[Literal[1, 2], tuple[str, str, str, str, str]] = {
    1: ("freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"),
    2: ("cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"),
}


@dataclass(frozen=True, slots=True)
class KernelGroups(CgroupTree):
    """Cgroups below those that `mounts` names; see `placement.Groups`."""

    @property
    def description(self) -> str:
        """The mechanism's name for people."""
        return f"cgroup v{self.version} cpuset"

    def make(self, pod: str) -> None:
        """Make the groups of a job, and before the first one that of its run.

        The run has the CPUs that this process may use, so that nothing gets more than that.
        """
        run = pod.rpartition("/")[0]
        try:
            if self.identity(run) is None:
                self._make(run)
                allowed = CpuSet(os.sched_getaffinity(0))
                self.write(Setting("cpuset", run, "cpuset.cpus"), str(allowed))
            self._make(pod)
            self._make(container_of(pod))
        except CgroupError as error:
            raise PlacementError(f"{pod} cannot be made: {error}") from error
        except OSError as error:
            raise PlacementError(f"{error.filename} cannot be made: {error.strerror}") from error

    def admit(self, pod: str, pid: int) -> None:
        """Move a process into the group of a job's processes."""
        for controller in self._hierarchies():
            self.write(Setting(controller, container_of(pod), "cgroup.procs"), str(pid))

    def keep(self) -> None:
        """Hold every job to its CPUs: so does the kernel."""

    def pids(self, group: str) -> tuple[int, ...]:
        """The processes in a group and all below it, ascending; none when it is gone."""
        found: set[int] = set()
        for controller, each in self._below(group):
            with suppress(CgroupError):  # removed meanwhile
                found.update(map(int, self.read(Setting(controller, each, "cgroup.procs")).split()))
        # Processes of a PID namespace that cannot be seen from here are listed as 0.
        return tuple(sorted(found - {0}))

    def cpu_seconds(self, group: str) -> float:
        """User and system time of all processes that a group and those below it ever held."""
        if self.version == 1:
            return int(self.read(Setting("cpuacct", group, "cpuacct.usage"))) / 1e9
        # The first line: `usage_usec` and the time.
        return int(self.read(Setting("cpu", group, "cpu.stat")).split()[1]) / 1e6

    def kill(self, group: str) -> None:
        """Kill every process in a group, frozen first where possible so that none can fork away.

        Raises:
            PlacementError: Some outlive it for seconds.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while pids := self.pids(group):
            if time.monotonic() > deadline:
                listed = ", ".join(map(str, pids[:5]))
                raise PlacementError(
                    f"{group}: processes {listed} outlive SIGKILL; end them by hand"
                )
            with self._frozen(group):
                for pid in self.pids(group):
                    # It may be gone, or of another user: what is left is told above.
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE_SECONDS)

    def remove(self, group: str) -> None:
        """Remove a group without processes and all below it; one that is gone is fine.

        The kernel says EBUSY until the last task has finished exiting.

        Raises:
            PlacementError: One is still in use after seconds.
        """
        deadline = time.monotonic() + _REMOVE_SECONDS
        while (error := self._try_to_remove(group)) is not None:
            if time.monotonic() > deadline:
                raise PlacementError(f"{group} cannot be removed: {error.strerror}") from error
            time.sleep(_PAUSE_SECONDS)

    def _make(self, group: str) -> None:
        above = group.rpartition("/")[0]
        if self.version == 2:
            control = Setting("cpuset", above, "cgroup.subtree_control")
            offered = self.read(control).split()
            if lacking := [f"+{name}" for name in _NEEDED_V2 if name not in offered]:
                self.write(control, " ".join(lacking))
        for controller in self._hierarchies():
            Path(self.folder(controller, group)).mkdir()
        if self.version == 1:
            for kind in ("mems", "cpus"):
                inherited = self.read(Setting("cpuset", above, f"cpuset.effective_{kind}"))
                self.write(Setting("cpuset", group, f"cpuset.{kind}"), inherited)

    def _hierarchies(self) -> tuple[Controller, ...]:
        """A controller of each; cpu and cpuacct are one on most systems of v1."""
        return tuple({mount: name for name, mount in self.mounts.items()}.values())

    def _below(self, group: str) -> Iterator[tuple[Controller, str]]:
        """A group and all below it in every hierarchy, children first."""
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
        """Stop a group, if it can be within some time: what is missed is met again."""
        file, frozen, thawed, told_by, says = _FREEZERS[self.version]
        deadline = time.monotonic() + _FREEZE_SECONDS
        try:
            with suppress(CgroupError, KeyError):  # removed, or no freezer
                self.write(Setting("freezer", group, file), frozen)
                told = Setting("freezer", group, told_by)
                while says not in self.read(told).splitlines() and time.monotonic() < deadline:
                    time.sleep(_PAUSE_SECONDS / 5)
            yield
        finally:
            with suppress(CgroupError, KeyError):
                self.write(Setting("freezer", group, file), thawed)


def kernel_groups() -> Iterator[KernelGroups]:
    """The places where this process may be able to have groups of its own, best first."""
    hierarchies = read_hierarchies()
    for hierarchy in hierarchies:
        for parent in _parents_v2(hierarchy) if hierarchy.version == 2 else ():
            groups = KernelGroups(2, dict.fromkeys(CONTROLLERS, str(parent)))
            if _offers_cpusets(groups):
                yield groups
    own = {name: str(h.own) for h in hierarchies for name in h.controllers & {*CONTROLLERS}}
    if own.keys() >= {*_NEEDED_V1}:
        names = (*_NEEDED_V1, "freezer") if "freezer" in own else _NEEDED_V1
        yield KernelGroups(1, {name: own[name] for name in names})


def remove_stale_runs() -> tuple[str, ...]:
    """Kill and remove what runs whose process is gone have left in cgroups.

    Returns:
        The ids of the runs removed. Another user's are left and logged.
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
        _log.warning("run %s is over but stays: %s", run.id, error)
        return False
    return True


def _parents_v2(hierarchy: Hierarchy) -> tuple[Path, ...]:
    """Groups that may have our run as a child: beside our own group, then under the root.

    Our own group holds this process, so only as the root can it have children with controllers.
    """
    beside = hierarchy.mount if hierarchy.own == hierarchy.mount else hierarchy.own.parent
    return tuple(dict.fromkeys((beside, hierarchy.mount)))


def _offers_cpusets(groups: KernelGroups) -> bool:
    try:
        return "cpuset" in groups.read(Setting("cpuset", _TOP, "cgroup.controllers")).split()
    except CgroupError:
        return False
