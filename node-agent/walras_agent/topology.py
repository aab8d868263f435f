"""Facts: reads the CPUs of this machine, and the cores, caches and NUMA nodes that they share.

Read from ``/sys/devices/system`` (``Documentation/admin-guide/cputopology.rst``,
``Documentation/ABI/stable/sysfs-devices-node``,
``Documentation/ABI/testing/sysfs-devices-system-cpu``). Containers and virtual machines hide parts
of it; the defaults are one core for each CPU, one socket, one NUMA node, and one last-level cache
for each socket.

Isolated CPUs (``isolcpus=`` in ``Documentation/admin-guide/kernel-parameters.txt``) are left out:
their threads are placed by hand. ``nohz_full=`` alone isolates no CPU.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Unit = Literal["core", "thread"]
"""The unit that the market sells: physical cores with all SMT siblings, or single CPUs."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU and its domains.

    Attributes:
        id: Number of the CPU.
        core: Physical core, as the number of its lowest online CPU (the kernel's ``core_id`` is
            unique only within a socket).
        socket: Physical package.
        numa: NUMA node.
        l3: Last-level cache, as the number of its lowest online CPU.
    """

    id: int
    core: int
    socket: int
    numa: int
    l3: int


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs of a machine that pods may use, and the NUMA nodes that have memory.

    Attributes:
        cpus: CPUs that may be assigned, in assignment order: by NUMA node, cache, core, number.
        isolated: Isolated CPUs, which are not assigned; pods without a grant may use them.
        memory: NUMA nodes that have memory; None if unknown.
    """

    cpus: tuple[Cpu, ...]
    isolated: CpuSet = field(default_factory=CpuSet)
    memory: CpuSet | None = None

    def __post_init__(self) -> None:
        ordered = sorted(self.cpus, key=lambda cpu: (cpu.numa, cpu.l3, cpu.core, cpu.id))
        object.__setattr__(self, "cpus", tuple(ordered))

    @classmethod
    def read(cls, root: Path = Path("/"), allowed: CpuSet | None = None) -> Topology:
        """Read the topology of the online CPUs.

        Args:
            root: Folder that contains ``sys``: ``/``, or the host's root in a container.
            allowed: CPUs to read, of which isolated ones are set apart. By default all CPUs that
                the calling process may use, none of which counts as isolated.

        Raises:
            ValueError: No CPU is usable, or a file is not in the kernel's format.
        """
        system = root / "sys/devices/system"
        online = _read_list(system / "cpu/online")
        isolated = CpuSet()
        if allowed is None:
            allowed = CpuSet(os.sched_getaffinity(0))
        else:
            isolated = _read_list(system / "cpu/isolated") or isolated
        # The file is missing only if /sys is; then the allowed CPUs are all that is known.
        present = allowed if online is None else allowed & online
        usable = present - isolated
        if not usable:
            raise ValueError(f"no CPU is usable: online are {online}, allowed are '{allowed}'")
        nodes = _numa_nodes(system / "node")
        cpus = _with_sockets(_read_cpu(system / f"cpu/cpu{cpu}", cpu, nodes) for cpu in usable)
        memory = _read_list(system / "node/has_memory") or None
        return cls(cpus, present & isolated, memory)

    @property
    def cpuset(self) -> CpuSet:
        """All CPUs that may be assigned."""
        return CpuSet(cpu.id for cpu in self.cpus)

    def sockets_of(self, cpus: CpuSet) -> tuple[int, ...]:
        """Return the numbers of the sockets that some of these CPUs belong to, ascending."""
        return tuple(sorted({cpu.socket for cpu in self.cpus if cpu.id in cpus}))

    def cores(self, unit: Unit = "core") -> tuple[CpuSet, ...]:
        """Return the CPUs of every unit that the market sells, in assignment order.

        A core of which only some siblings are allowed counts with these siblings.
        """
        if unit == "thread":
            return tuple(CpuSet([cpu.id]) for cpu in self.cpus)
        return tuple(
            CpuSet(cpu.id for cpu in siblings)
            for _, siblings in groupby(self.cpus, key=lambda cpu: (cpu.numa, cpu.l3, cpu.core))
        )


@dataclass(slots=True)
class TopologyReader:
    """Reads a node's topology, again only after CPUs or memory went online or offline.

    Attributes:
        allowed: Function that returns the CPUs that may be assigned now.
        root: Folder that contains ``sys``.
    """

    allowed: Callable[[], CpuSet]
    root: Path = Path("/")
    _last: tuple[object, Topology] | None = field(default=None, init=False)

    def __call__(self) -> Topology:
        """Return the present topology; see `Topology.read`."""
        system = self.root / "sys/devices/system"
        allowed = self.allowed()
        files = ("cpu/online", "cpu/isolated", "node/has_memory")
        now = (allowed, *(_read_text(system / file) for file in files))
        if self._last is None or self._last[0] != now:
            self._last = now, Topology.read(self.root, allowed)
        return self._last[1]


def possible_cpus(root: Path = Path("/")) -> CpuSet:
    """Return all CPUs that the machine may ever have, online or not; empty if unknown."""
    return _read_list(root / "sys/devices/system/cpu/possible") or CpuSet()


def _with_sockets(read: Iterable[tuple[Cpu, CpuSet]]) -> tuple[Cpu, ...]:
    """Return CPUs with numbers of sockets in place of the kernel's -1, which means unknown.

    POWER, s390 and sparc show it for all CPUs. The CPUs of a package are known there, too.

    Args:
        read: CPUs as the kernel shows them, each with the CPUs of its package.
    """
    cpus = list(read)
    if all(cpu.socket >= 0 for cpu, _ in cpus):
        return tuple(cpu for cpu, _ in cpus)
    first = [min(package, default=0) for _, package in cpus]
    numbers = {cpu: number for number, cpu in enumerate(sorted(set(first)))}
    return tuple(
        replace(cpu, socket=numbers[lowest]) for (cpu, _), lowest in zip(cpus, first, strict=True)
    )


def _read_cpu(folder: Path, cpu: int, nodes: dict[int, int]) -> tuple[Cpu, CpuSet]:
    """Return a CPU, whose socket may be unknown, and the CPUs of its package."""
    topology = folder / "topology"
    # Linux 5.3 renamed these files and kept the old names as deprecated.
    siblings = _read_first(topology / "core_cpus_list", topology / "thread_siblings_list")
    package = _read_first(topology / "package_cpus_list", topology / "core_siblings_list")
    cache = _last_level_cache(folder / "cache") or package
    facts = Cpu(
        id=cpu,
        core=min(siblings, default=cpu),
        socket=_read_int(topology / "physical_package_id"),
        numa=nodes.get(cpu, 0),
        l3=min(cache, default=0),
    )
    return facts, package


def _last_level_cache(folder: Path) -> CpuSet:
    """Return the CPUs that share the level-3 cache; empty if the machine does not show one."""
    for index in sorted(folder.glob("index*")):
        if _read_int(index / "level") == 3:
            return _read_list(index / "shared_cpu_list") or CpuSet()
    return CpuSet()


def _numa_nodes(folder: Path) -> dict[int, int]:
    """Return the NUMA node of each CPU."""
    return {
        cpu: int(node.name.removeprefix("node"))
        for node in sorted(folder.glob("node[0-9]*"))
        for cpu in _read_list(node / "cpulist") or ()
    }


def _read_first(*files: Path) -> CpuSet:
    """Return the CPUs of the first file that exists; empty if none does."""
    return next((cpus for file in files if (cpus := _read_list(file))), CpuSet())


def _read_list(file: Path) -> CpuSet | None:
    text = _read_text(file)
    return None if text is None else CpuSet.parse(text)


def _read_int(file: Path) -> int:
    text = _read_text(file)
    return int(text) if text else 0


def _read_text(file: Path) -> str | None:
    """Return the file's text; None if a container or virtual machine hides the file.

    Some kernels and virtual file systems end it with a NUL.
    """
    try:
        return file.read_text(encoding="ascii").strip("\0\n ")
    except OSError:
        return None
