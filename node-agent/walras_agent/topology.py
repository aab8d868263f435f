"""Facts: which CPUs this machine has and what they share.

Read from ``/sys/devices/system`` (``Documentation/admin-guide/cputopology.rst``,
``Documentation/ABI/stable/sysfs-devices-node``,
``Documentation/ABI/testing/sysfs-devices-system-cpu``). Containers and virtual machines hide
parts of it; what is missing is taken as the plainest machine that fits: every CPU a core of its
own, one socket, one NUMA node, one last-level cache per socket.

CPUs that were set apart from the scheduler when the machine started (``isolcpus=`` in
``Documentation/admin-guide/kernel-parameters.txt``) are no part of a node's: whoever is there has
placed every thread by hand. ``nohz_full=`` alone sets no CPU apart.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable

Unit = Literal["core", "thread"]
"""What the market sells: physical cores (with all their SMT siblings) or single CPUs."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU and the domains it belongs to.

    Attributes:
        id: The kernel's number of the CPU.
        core: The physical core, named by its lowest online CPU (the kernel's ``core_id`` repeats
            from socket to socket).
        socket: The physical package.
        numa: The NUMA node.
        l3: The last-level cache, named by its lowest online CPU.
    """

    id: int
    core: int
    socket: int
    numa: int
    l3: int


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs that may be handed out, in assignment order: by NUMA node, cache, core, number."""

    cpus: tuple[Cpu, ...]

    def __post_init__(self) -> None:
        ordered = sorted(self.cpus, key=lambda cpu: (cpu.numa, cpu.l3, cpu.core, cpu.id))
        object.__setattr__(self, "cpus", tuple(ordered))

    @classmethod
    def read(cls, root: Path = Path("/"), allowed: CpuSet | None = None) -> Topology:
        """Read the topology of the online CPUs.

        Args:
            root: Where ``sys`` is found: ``/``, or the host's root inside a container.
            allowed: The CPUs to keep, of which isolated ones are left out. By default those that
                the calling process may run on: on an isolated one only if it was put there.

        Raises:
            ValueError: No CPU is left, or a file is not in the kernel's format.
        """
        system = root / "sys/devices/system"
        online = _read_list(system / "cpu/online")
        if allowed is None:
            allowed = CpuSet(os.sched_getaffinity(0))
        elif isolated := _read_list(system / "cpu/isolated"):
            allowed -= isolated
        # The file is only missing where all of /sys is; the allowed ones are all to go by.
        usable = allowed if online is None else allowed & online
        if not usable:
            raise ValueError(f"no CPU is usable: online are {online}, allowed are '{allowed}'")
        nodes = _numa_nodes(system / "node")
        return cls(tuple(_read_cpu(system / f"cpu/cpu{cpu}", cpu, nodes) for cpu in usable))

    @property
    def cpuset(self) -> CpuSet:
        """All CPUs."""
        return CpuSet(cpu.id for cpu in self.cpus)

    def cores(self, unit: Unit = "core") -> tuple[CpuSet, ...]:
        """The units that the market sells, in assignment order.

        A core of which only some siblings are allowed is a unit of these siblings.
        """
        if unit == "thread":
            return tuple(CpuSet([cpu.id]) for cpu in self.cpus)
        return tuple(
            CpuSet(cpu.id for cpu in siblings)
            for _, siblings in groupby(self.cpus, key=lambda cpu: (cpu.numa, cpu.l3, cpu.core))
        )


@dataclass(slots=True)
class TopologyReader:
    """Reads a node's topology anew whenever CPUs came or went, and only then.

    Attributes:
        allowed: Tells the CPUs that may be handed out now.
        root: Where ``sys`` is found.
    """

    allowed: Callable[[], CpuSet]
    root: Path = Path("/")
    _last: tuple[object, Topology] | None = field(default=None, init=False)

    def __call__(self) -> Topology:
        """See `Topology.read`."""
        cpus = self.root / "sys/devices/system/cpu"
        allowed = self.allowed()
        now = (allowed, _read_text(cpus / "online"), _read_text(cpus / "isolated"))
        if self._last is None or self._last[0] != now:
            self._last = now, Topology.read(self.root, allowed)
        return self._last[1]


def possible_cpus(root: Path = Path("/")) -> CpuSet:
    """All CPUs that the machine may have as long as it runs, online or not; none if not told."""
    return _read_list(root / "sys/devices/system/cpu/possible") or CpuSet()


def _read_cpu(folder: Path, cpu: int, nodes: dict[int, int]) -> Cpu:
    topology = folder / "topology"
    # Linux 5.3 renamed these files and kept the old names as deprecated.
    siblings = _read_first(topology / "core_cpus_list", topology / "thread_siblings_list")
    package = _read_first(topology / "package_cpus_list", topology / "core_siblings_list")
    cache = _last_level_cache(folder / "cache") or package
    return Cpu(
        id=cpu,
        core=min(siblings, default=cpu),
        # Kernels that do not know the package say -1.
        socket=max(0, _read_int(topology / "physical_package_id")),
        numa=nodes.get(cpu, 0),
        l3=min(cache, default=0),
    )


def _last_level_cache(folder: Path) -> CpuSet:
    """The CPUs that share the level-3 cache; empty when the machine does not show one."""
    for index in sorted(folder.glob("index*")):
        if _read_int(index / "level") == 3:
            return _read_list(index / "shared_cpu_list") or CpuSet()
    return CpuSet()


def _numa_nodes(folder: Path) -> dict[int, int]:
    """The NUMA node of each CPU; nodes that hold only memory have none."""
    return {
        cpu: int(node.name.removeprefix("node"))
        for node in sorted(folder.glob("node[0-9]*"))
        for cpu in _read_list(node / "cpulist") or ()
    }


def _read_first(*files: Path) -> CpuSet:
    """The first of the lists that is there; empty when none is."""
    return next((cpus for file in files if (cpus := _read_list(file))), CpuSet())


def _read_list(file: Path) -> CpuSet | None:
    text = _read_text(file)
    return None if text is None else CpuSet.parse(text)


def _read_int(file: Path) -> int:
    text = _read_text(file)
    return 0 if text is None else int(text)


def _read_text(file: Path) -> str | None:
    """The file's text, or None where a container or virtual machine hides the file."""
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return None
