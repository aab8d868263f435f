"""Machines whose ``/sys`` others have recorded, and what their programs make of it.

The recordings and their results are test data of util-linux (lscpu) and hwloc, which nobody here
has made. `make verify STAGES=machines` unpacks Debian's source packages of both to the folder
`WALRAS_MACHINES`.
"""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

Parts = tuple[frozenset[int], ...]

LISTS: Mapping[str, str] = {
    "thread_siblings": "thread_siblings_list",
    "core_siblings": "core_siblings_list",
    "shared_cpu_map": "shared_cpu_list",
    "cpumap": "cpulist",
}
"""Files with CPUs as bits, and as a list, which the kernel has beside them but some recordings do
not."""

OF_ITS_OWN: Mapping[str, str] = {
    "16amd64-8n2c-cpusets": "hwloc leaves out CPUs that its own process may not use",
    "16em64t-4s2ca2c-cpusetreorder": "hwloc leaves out CPUs that its own process may not use",
    "4fake-4gr1nu1pu": "hwloc leaves out CPUs that its own process may not use",
    "32amd64-4s2n4c-cgroup2": "hwloc leaves out CPUs that its own process may not use",
    "64amd64-4s2n4ca2co": "to hwloc, the halves of a compute unit of this AMD are cores",
    "16ia64-8n2s": "hwloc believes other files than the kernel's lists of packages",
}
"""Recordings of which hwloc makes something else on purpose."""


@dataclass(frozen=True, slots=True)
class RecordedMachine:
    """A recording of a machine.

    Attributes:
        name: Name that its owner has given it.
        archive: File with its ``/sys``.
        expected: Parts into which the CPUs fall, by what they share (core, socket, numa).
    """

    name: str
    archive: Path
    expected: Mapping[str, Parts]

    def unpack(self, folder: Path) -> Path:
        """Unpack the recording below a folder, and return the folder that contains its ``sys``."""
        with tarfile.open(self.archive) as packed:
            packed.extractall(folder, filter="data")
        (root,) = (each.parent for each in folder.glob("*/sys"))
        for bits, listed in LISTS.items():
            for file in root.rglob(bits):
                beside = file.with_name(listed)
                if not beside.exists():
                    beside.write_text(f"{_cpus(file.read_text())}\n")
        system = root / "sys/devices/system/cpu"
        if not (system / "online").exists():  # kernels before 2.6.26
            known = (each for each in system.glob("cpu[0-9]*") if (each / "topology").exists())
            (system / "online").write_text(str(CpuSet(int(each.name[3:]) for each in known)))
        return root


def parts_of(pairs: Iterable[tuple[int, object]]) -> Parts:
    """Return the parts into which CPUs fall, given what each of them belongs to."""
    found: dict[object, set[int]] = {}
    for cpu, what in pairs:
        found.setdefault(what, set()).add(cpu)
    return tuple(sorted(map(frozenset, found.values()), key=min))


def recorded_machines(folder: Path) -> Iterator[RecordedMachine]:
    """Yield all recordings of which it is known what to make."""
    lscpu = folder / "util-linux" / "tests"
    for archive in sorted((lscpu / "ts/lscpu/dumps").glob("*.tar.gz")):
        name = archive.name.removesuffix(".tar.gz")
        expected = _of_lscpu((lscpu / f"expected/lscpu/lscpu-{name}").read_text())
        if expected:
            yield RecordedMachine(f"lscpu-{name}", archive, expected)
    for archive in sorted((folder / "hwloc/tests/hwloc/linux").glob("*.tar.bz2")):
        name = archive.name.removesuffix(".tar.bz2")
        result, changed = (archive.with_name(f"{name}.{end}") for end in ("output", "options"))
        if result.exists() and not changed.exists() and name not in OF_ITS_OWN:
            yield RecordedMachine(f"hwloc-{name}", archive, _of_hwloc(result.read_text()))


def _cpus(bits: str) -> CpuSet:
    number = int(bits.strip("\0\n ").replace(",", "") or "0", 16)
    return CpuSet(cpu for cpu in range(number.bit_length()) if number >> cpu & 1)


def _of_lscpu(text: str) -> dict[str, Parts]:
    """Read the first table that is made for programs: CPU, Core, Socket, Node."""
    table = text.partition("# CPU,Core,Socket,Node")[2].partition("#")[0]
    rows = [line.split(",") for line in table.splitlines()[1:] if line[:1].isdigit()]
    columns = {"core": 1, "socket": 2, "numa": 3}
    return {
        name: parts_of((int(row[0]), row[column]) for row in rows)
        for name, column in columns.items()
        if rows
    }


def _of_hwloc(text: str) -> dict[str, Parts]:
    """Read a tree in which a processing unit (PU) is within its core and package."""
    above: list[tuple[int, str, str | None]] = []
    found: dict[str, list[tuple[int, str]]] = {"PU": [], "Core": [], "Package": []}
    for line in text.splitlines():
        match = re.match(r"( *)(\w+)(?: L#(\d+))?(?: \(P#(\d+))?", line)
        if match is None:
            continue
        depth = len(match[1])
        above = [each for each in above if each[0] < depth] + [(depth, match[2], match[3])]
        for _, kind, number in above if match[2] == "PU" else ():
            if kind in found and number is not None:
                found[kind].append((int(match[4]), number))
    names = {"Core": "core", "Package": "socket"}
    # Where only some units show one, hwloc has left out the others.
    every = len(found["PU"])
    return {names[kind]: parts_of(found[kind]) for kind in names if len(found[kind]) == every}
