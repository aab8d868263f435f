"""A model of the kernel's cgroup files, for tests of the agent that fail and stop it anywhere.

It answers as Linux 6 does (``kernel/cgroup/cpuset.c``, ``kernel/cgroup/cpuset-v1.c``,
``kernel/sched/core.c``, ``mm/memcontrol.c``, ``mm/memcontrol-v1.c``), errno by errno:
test_model_kernel.py compares it with the kernel that the tests run on. There is no swap, there are
no CPU or memory partitions, and time passes only in `ModelKernel.elapse`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Literal, NamedTuple

from model_files import (
    FILES_V1,
    FILES_V2,
    PAGE,
    File,
    Group,
    Machine,
    Memory,
    Refused,
    charge,
    grow,
    write_cpuset,
)
from walras_agent.cpuset import CpuSet
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MIB", "Memory", "ModelKernel", "Stopped", "Write"]

MIB = 1 << 20
STALL_PER_PAGE = 0.0001  # seconds; a read from a fast disk


class Stopped(BaseException):
    """The end of the agent, as if it had been killed right before a write.

    It is no `Exception`, so that nothing in the agent handles it.
    """


class Write(NamedTuple):
    """An attempt of the agent to write a file.

    Attributes:
        setting: File of a cgroup.
        value: Value that it wrote.
        refused: Error number of the kernel; None if the write succeeded.
    """

    setting: CgroupFile
    value: str
    refused: int | None


class ModelKernel:
    """The cgroups of a node, as `walras_agent.tree.Cgroups`.

    Args:
        version: Version of the cgroup interface.
        cpus: Number of CPUs.
        numa: Number of NUMA nodes.
        nested: Whether v2 refuses to narrow a parent below a child, as kernels before 6.1 do.

    Attributes:
        writes: All writes that the agent tried, in order.
        oom_kills: Groups whose tasks were killed for want of memory, in order.
    """

    def __init__(
        self, version: Literal[1, 2], *, cpus: int = 8, numa: int = 1, nested: bool = False
    ) -> None:
        self.version = version
        self.writes: list[Write] = []
        self._machine = Machine(version, cpus, nested or version == 1)
        self.oom_kills = self._machine.oom_kills
        self._made = 0
        self._left: int | None = None
        self._failures: dict[tuple[str, CgroupFile], list[int]] = {}
        self._held: set[str] = set()
        self._root = self._new("/", None)
        self._root.own = {"cpus": CpuSet(range(cpus)), "mems": CpuSet(range(numa))}
        self._files = FILES_V1 if version == 1 else FILES_V2

    # What the agent sees.

    def read(self, setting: CgroupFile) -> str:
        """Return the content of a file, as `Cgroups` does."""
        try:
            self._fail("read", setting)
            return self._read(setting)
        except Refused as refused:
            raise CgroupError(setting, refused.errno) from None

    def write(self, setting: CgroupFile, value: str) -> None:
        """Write a file, as `Cgroups` does.

        Raises:
            Stopped: The writes that `stop_after` allows have happened.
        """
        if self._left is not None:
            if self._left == 0:
                raise Stopped
            self._left -= 1
        try:
            self._fail("write", setting)
            self._write(setting, value)
        except Refused as refused:
            self.writes.append(Write(setting, value, refused.errno))
            raise CgroupError(setting, refused.errno, value) from None
        self.writes.append(Write(setting, value, None))

    def identity(self, group: str) -> int | None:
        """Return a group's identity, as `Cgroups` does."""
        found = self._group(group)
        return found.identity if found else None

    def children(self, group: str) -> tuple[str, ...]:
        """Return a group's children, as `Cgroups` does."""
        found = self._group(group)
        return tuple(sorted(child.path for child in found.children.values())) if found else ()

    # What a test lets happen.

    def make(
        self,
        group: str,
        *,
        tasks: int = 0,
        cpus: str | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Make a group, and those above it, as the kubelet and a container runtime do.

        Args:
            group: Path of the group.
            tasks: Number of tasks that run in it.
            cpus: Content of its ``cpuset.cpus``; by default nothing in v2, and in v1, where tasks
                could not run with nothing, that of the parent.
            memory: Memory of its tasks.
        """
        made = self._root
        for name in group.strip("/").split("/"):
            parent = made
            if name not in parent.children:
                path = f"{parent.path.rstrip('/')}/{name}"
                parent.children[name] = self._new(path, parent)
                if self.version == 1:
                    parent.children[name].own = dict(parent.own)
            made = parent.children[name]
        if cpus is not None:
            write_cpuset("cpus")(self._machine, made, cpus)
        made.tasks += tasks
        if memory is not None:
            made.memory = memory

    def remove(self, group: str, *, while_open: bool = False) -> None:
        """Remove a group and all below it, with their tasks.

        Args:
            group: Path of the group.
            while_open: Whether the agent's next access has opened its file before the removal.
        """
        found = self._group(group)
        assert found is not None, group
        assert found.parent is not None, group
        del found.parent.children[group.rpartition("/")[2]]
        if while_open:
            self._held.add(group)

    def fail(
        self,
        setting: CgroupFile,
        number: int,
        times: int = 1,
        on: Literal["read", "write"] = "write",
    ) -> None:
        """Answer the next accesses to a file with an error."""
        self._failures.setdefault((on, setting), []).extend([number] * times)

    def heal(self) -> None:
        """Let all accesses succeed again."""
        self._failures.clear()

    def stop_after(self, writes: int) -> None:
        """Let a number of further writes happen, and no other one until `go_on`."""
        self._left = writes

    def go_on(self) -> None:
        """Let all writes happen again, after the agent has been restarted."""
        self._left = None

    def set_by_others(self, setting: CgroupFile, value: str) -> None:
        """Write a file as kubelet, runtime and systemd do, without an entry in ``writes``."""
        self._write(setting, value)

    def memory_of(self, group: str) -> Memory:
        """Return the memory of a group's own tasks, which a test may change."""
        found = self._group(group)
        assert found is not None, group
        return found.memory

    def tasks_of(self, group: str) -> int:
        """Return the number of tasks of a group."""
        found = self._group(group)
        assert found is not None, group
        return found.tasks

    def use(self, group: str, used: float, waited: float = 0.0) -> None:
        """Let the tasks below a group use CPUs, and one wait for a part of the time."""
        found = self._group(group)
        assert found is not None, group
        found.cpu_rates = used, waited

    def offline(self, cpus: Iterable[int]) -> None:
        """Take CPUs offline; v1 removes them from all groups for good (cpusets.rst, sec. 1.2)."""
        online = self._root.own["cpus"] - CpuSet(cpus)
        assert online
        if self.version == 2:
            self._root.own["cpus"] = online
            return
        for group in self._root.subtree():
            left = group.own["cpus"] & online
            if group.own["cpus"] and not left:
                refuge = next(above for above in group.lineage() if above.own["cpus"] & online)
                refuge.tasks, group.tasks = refuge.tasks + group.tasks, 0
        for group in self._root.subtree():
            group.own["cpus"] &= online

    def online(self, cpus: Iterable[int]) -> None:
        """Bring CPUs online again, for the groups that still list them."""
        self._root.own["cpus"] |= CpuSet(cpus)

    def elapse(self, seconds: float = 1.0) -> None:
        """Let time pass, in which tasks grow and read back reclaimed files that they need."""
        before = {group: group.stall for group in self._root.subtree()}
        for group in before:
            group.cpu_used += group.cpu_rates[0] * seconds
            group.cpu_waited += group.cpu_rates[1] * seconds
        for group in before:
            grow(self._machine, group)
            missing = group.memory.hot - group.memory.reclaimable
            if group.tasks and missing > 0:
                charge(self._machine, group, missing, "reclaimable")
                pages = -(-missing // PAGE)
                for each in group.lineage():
                    each.counters["refaults"] += pages
                    each.stall += pages * STALL_PER_PAGE
        for group, stall in before.items():
            group.recent = min(100.0, 100 * (group.stall - stall) / seconds)

    # How it is done.

    def _new(self, path: str, parent: Group | None) -> Group:
        self._made += 1
        return Group(path, self._made, parent, weight=1024 if self.version == 1 else 100)

    def _group(self, path: str) -> Group | None:
        group: Group | None = self._root
        for name in path.split("/"):
            if name and group is not None:
                group = group.children.get(name)
        return group

    def _find(self, setting: CgroupFile) -> tuple[Group, File]:
        if setting.group in self._held:
            self._held.remove(setting.group)
            raise Refused(errno.ENODEV)
        group = self._group(setting.group)
        file = self._files.get(setting.file)
        in_its_hierarchy = self.version == 2 or setting.file.startswith(f"{setting.controller}.")
        if group is None or file is None or not in_its_hierarchy:
            raise Refused(errno.ENOENT)
        if self.version == 2 and group.parent is None and not file.at_the_top:
            raise Refused(errno.ENOENT)
        return group, file

    def _read(self, setting: CgroupFile) -> str:
        group, file = self._find(setting)
        if file.read is None:
            raise Refused(errno.EINVAL)
        return file.read(self._machine, group)

    def _write(self, setting: CgroupFile, value: str) -> None:
        group, file = self._find(setting)
        if file.write is None:
            raise Refused(errno.EINVAL)
        file.write(self._machine, group, value.strip())

    def _fail(self, on: str, setting: CgroupFile) -> None:
        failures = self._failures.get((on, setting))
        if failures:
            raise Refused(failures.pop(0))
