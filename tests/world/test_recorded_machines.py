"""Machines that others recorded: cores, sockets and NUMA nodes are what lscpu and hwloc say.

Among them are POWER, s390, sparc, Itanium, ARM and virtual machines, and very old kernels.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recorded_machines import RecordedMachine, parts_of, recorded_machines
from walras_agent.cpuset import CpuSet
from walras_agent.topology import Topology

FOLDER = os.environ.get("WALRAS_MACHINES")
MACHINES = list(recorded_machines(Path(FOLDER))) if FOLDER else []
FEWEST = 40

pytestmark = pytest.mark.machines


def test_there_are_recordings() -> None:
    assert len(MACHINES) >= FEWEST


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_recorded_machine_is_read_as_its_owner_reads_it(
    machine: RecordedMachine, tmp_path: Path
) -> None:
    topology = Topology.read(machine.unpack(tmp_path), CpuSet(range(4096)))
    found = {
        "core": parts_of((cpu.id, cpu.core) for cpu in topology.cpus),
        "socket": parts_of((cpu.id, cpu.socket) for cpu in topology.cpus),
        "numa": parts_of((cpu.id, cpu.numa) for cpu in topology.cpus),
    }
    assert {name: found[name] for name in machine.expected} == machine.expected
