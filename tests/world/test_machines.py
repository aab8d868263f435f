"""Machines whose kernel shows their CPUs in another way than most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walras_agent.cpuset import CpuSet
from walras_agent.topology import Topology, possible_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SYSTEM = "sys/devices/system"


def machine(root: Path, packages: Mapping[int, str], threads: int = 1, end: str = "\n") -> Path:
    """Write what a kernel shows of a machine.

    Args:
        root: Folder to write to.
        packages: Number of the package of each CPU, and its CPUs.
        threads: CPUs of a core.
        end: What ends each file.
    """
    files: dict[str, object] = {
        "cpu/online": CpuSet(packages),
        "cpu/possible": CpuSet(packages),
        "node/has_memory": 0,
        "node/node0/cpulist": CpuSet(packages),
    }
    for cpu, listed in packages.items():
        number, _, cpus = listed.partition(":")
        core = cpu // threads * threads
        files |= {
            f"cpu/cpu{cpu}/topology/core_cpus_list": CpuSet(range(core, core + threads)),
            f"cpu/cpu{cpu}/topology/package_cpus_list": cpus,
            f"cpu/cpu{cpu}/topology/physical_package_id": number,
            f"cpu/cpu{cpu}/cache/index0/level": 3,
            f"cpu/cpu{cpu}/cache/index0/shared_cpu_list": cpus,
        }
    for name, text in files.items():
        file = root / SYSTEM / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}{end}")
    return root


@pytest.mark.parametrize("end", ["\0", "\n\0", "\0\n", "\n", ""])
def test_a_nul_at_the_end_of_a_file_is_no_part_of_it(tmp_path: Path, end: str) -> None:
    root = machine(tmp_path, {0: "0:0-1", 1: "0:0-1"}, end=end)
    topology = Topology.read(root, CpuSet([0, 1]))
    assert topology.cpuset == CpuSet([0, 1])
    assert len(topology.cores()) == 2
    assert topology.memory == CpuSet([0])
    assert possible_cpus(root) == CpuSet([0, 1])


PACKAGES: dict[str, tuple[tuple[int, ...], Mapping[int, str]]] = {
    "two packages without a number": (
        (0, 0, 1, 1),
        {0: "-1:0-1", 1: "-1:0-1", 2: "-1:2-3", 3: "-1:2-3"},
    ),
    "packages that are not side by side": (
        (0, 1, 0, 1),
        {0: "-1:0,2", 1: "-1:1,3", 2: "-1:0,2", 3: "-1:1,3"},
    ),
    "one package without a number": ((0, 0), {0: "-1:0-1", 1: "-1:0-1"}),
    "no list either": ((0, 0), {0: "-1:", 1: "-1:"}),
    "only some without a number": (
        (0, 0, 1, 1),
        {0: "1:0-1", 1: "1:0-1", 2: "-1:2-3", 3: "-1:2-3"},
    ),
    "numbers with gaps are kept": (
        (36, 36, 56, 56),
        {0: "36:0-1", 1: "36:0-1", 2: "56:2-3", 3: "56:2-3"},
    ),
}


@pytest.mark.parametrize(("sockets", "packages"), PACKAGES.values(), ids=PACKAGES.keys())
@pytest.mark.parametrize("threads", [1, 2])
def test_sockets_are_packages_though_they_have_no_number(
    tmp_path: Path, sockets: tuple[int, ...], packages: Mapping[int, str], threads: int
) -> None:
    """As on POWER, s390 and sparc, where the kernel shows -1."""
    topology = Topology.read(machine(tmp_path, packages, threads), CpuSet(packages))
    assert tuple(each.socket for each in sorted(topology.cpus, key=lambda cpu: cpu.id)) == sockets
