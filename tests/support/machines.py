"""Machines of any shape, for tests of who gets which CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_agent.topology import Cpu, Topology

if TYPE_CHECKING:
    from pathlib import Path


def machine(nodes: int = 1, caches: int = 1, cores: int = 4, threads: int = 1) -> Topology:
    """Return a machine whose sibling threads are numbered far apart, as by most firmware.

    Args:
        nodes: Number of NUMA nodes, each of which is a socket.
        caches: Number of L3 caches of each NUMA node.
        cores: Number of cores of each L3 cache.
        threads: Number of threads of each core.
    """
    total = nodes * caches * cores
    return Topology(
        tuple(
            Cpu(
                id=core + thread * total,
                core=core,
                socket=core // (caches * cores),
                numa=core // (caches * cores),
                l3=core // cores * cores,
            )
            for core in range(total)
            for thread in range(threads)
        )
    )


def show(machine: Topology, root: Path, online: CpuSet, isolated: CpuSet) -> None:
    """Write the files below ``root/sys`` in which a kernel shows a machine.

    As the kernel does it, lists leave out CPUs that are offline, and these have no topology; those
    that are isolated are like any others.
    """
    system = root / "sys/devices/system"
    _write(system / "cpu/online", online)
    _write(system / "cpu/isolated", isolated)
    cpus = [cpu for cpu in machine.cpus if cpu.id in online]
    for cpu in cpus:
        folder = system / f"cpu/cpu{cpu.id}"
        siblings = CpuSet(each.id for each in cpus if each.core == cpu.core)
        package = CpuSet(each.id for each in cpus if each.socket == cpu.socket)
        _write(folder / "topology/core_cpus_list", siblings)
        _write(folder / "topology/package_cpus_list", package)
        _write(folder / "topology/physical_package_id", cpu.socket)
        _write(folder / "cache/index3/level", 3)
        sharers = CpuSet(each.id for each in cpus if each.l3 == cpu.l3)
        _write(folder / "cache/index3/shared_cpu_list", sharers)
        node = CpuSet(each.id for each in cpus if each.numa == cpu.numa)
        _write(system / f"node/node{cpu.numa}/cpulist", node)


def _write(file: Path, text: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def show_memory(root: Path, free_mib: int, *nodes: int, cached_mib: int = 0) -> None:
    """Write the files below ``root/sys`` in which a kernel shows what NUMA nodes have free."""
    for node in nodes:
        lines = {"MemTotal": 1 << 20, "MemFree": free_mib, "Inactive(file)": cached_mib}
        text = "\n".join(
            f"Node {node} {name + ':':15} {mib << 10:8} kB" for name, mib in lines.items()
        )
        _write(root / f"sys/devices/system/node/node{node}/meminfo", text)
