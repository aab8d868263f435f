"""Topology.read against fabricated /sys trees and against this machine."""

import os
import tempfile
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine, show
from walras_agent.cpuset import CpuSet
from walras_agent.topology import Cpu, Topology, TopologyReader, possible_cpus


def write(file: Path, text: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def two_sockets(
    root: Path, *, offline: str = "", numbering: str = "interleaved", old: bool = False
) -> Path:
    """2 sockets x 12 cores x 2 threads with a NUMA node and an L3 each.

    Interleaved numbering is a BIOS's (cores 0-23, then their second threads 24-47), adjacent is
    QEMU's (0 and 1 are one core). ``core_id`` has gaps and repeats per socket, as on Xeons.
    Like the kernel, lists leave out offline CPUs and offline CPUs have no topology.
    """
    system = root / "sys/devices/system"
    online = CpuSet(range(48)) - CpuSet.parse(offline)
    write(system / "cpu/online", online)

    def place(cpu: int) -> tuple[int, int]:
        core = cpu // 2 if numbering == "adjacent" else cpu % 24
        return core // 12, core

    names = ("thread_siblings_list", "core_siblings_list")
    core_list, package_list = names if old else ("core_cpus_list", "package_cpus_list")
    for cpu in online:
        socket, core = place(cpu)
        package = CpuSet(other for other in online if place(other)[0] == socket)
        folder = system / f"cpu/cpu{cpu}"
        write(folder / "topology" / core_list, CpuSet(o for o in online if place(o)[1] == core))
        write(folder / "topology" / package_list, package)
        write(folder / "topology/physical_package_id", socket)
        write(folder / "topology/core_id", core % 12 * 2)
        for index, level in enumerate([1, 1, 2]):
            write(folder / f"cache/index{index}/level", level)
            write(folder / f"cache/index{index}/shared_cpu_list", CpuSet([cpu]))
        write(folder / "cache/index3/level", 3)
        write(folder / "cache/index3/shared_cpu_list", package)
        write(system / f"node/node{socket}/cpulist", package)
    write(system / "node/node2/cpulist", "")  # a node with memory only
    return root


@pytest.mark.parametrize("old", [False, True], ids=["5.3 and newer", "older kernels"])
def test_two_sockets_are_read_with_their_siblings_caches_and_nodes(
    tmp_path: Path, old: bool
) -> None:
    topology = Topology.read(two_sockets(tmp_path, old=old), allowed=CpuSet(range(48)))

    assert topology.cpuset == CpuSet(range(48))
    assert Cpu(id=36, core=12, socket=1, numa=1, l3=12) in topology.cpus
    cores = topology.cores("core")
    assert cores[0] == CpuSet([0, 24])
    assert cores[12] == CpuSet([12, 36])
    assert len(cores) == 24
    assert topology.sockets_of(CpuSet([0, 36])) == (0, 1)
    assert topology.sockets_of(CpuSet([12, 36])) == (1,)


def test_offline_cpus_are_left_out(tmp_path: Path) -> None:
    root = two_sockets(tmp_path, offline="0,5,29")

    topology = Topology.read(root, allowed=CpuSet(range(48)))

    assert topology.cpuset == CpuSet(range(48)) - CpuSet([0, 5, 29])
    assert CpuSet([24]) in topology.cores("core")
    assert len(topology.cores("core")) == 23


def test_an_allowed_set_that_cuts_cores_in_half_leaves_half_cores(tmp_path: Path) -> None:
    topology = Topology.read(two_sockets(tmp_path), allowed=CpuSet.parse("0-3,24-25,60"))

    assert [str(core) for core in topology.cores("core")] == ["0,24", "1,25", "2", "3"]


def test_isolated_cpus_are_not_assigned(tmp_path: Path) -> None:
    """Set apart with isolcpus=, they belong to whoever places threads on them by hand."""
    root = two_sockets(tmp_path)
    write(root / "sys/devices/system/cpu/isolated", "2,26,40-47")

    topology = Topology.read(root, allowed=CpuSet(range(48)))

    assert topology.cpuset == CpuSet.parse("0-1,3-25,27-39")
    assert topology.isolated == CpuSet.parse("2,26,40-47")
    assert CpuSet([16]) in topology.cores("core")


def test_cpus_without_ticks_are_not_isolated(tmp_path: Path) -> None:
    root = two_sockets(tmp_path)
    write(root / "sys/devices/system/cpu/isolated", "")
    write(root / "sys/devices/system/cpu/nohz_full", "8-15")

    assert len(Topology.read(root, allowed=CpuSet(range(48))).cpuset) == 48


def test_a_process_put_on_an_isolated_cpu_may_use_it(tmp_path: Path) -> None:
    mine = CpuSet(os.sched_getaffinity(0))
    write(tmp_path / "sys/devices/system/cpu/online", mine)
    write(tmp_path / "sys/devices/system/cpu/isolated", mine)

    topology = Topology.read(tmp_path)
    assert (topology.cpuset, topology.isolated) == (mine, CpuSet())


@st.composite
def machines(draw: st.DrawFn) -> tuple[Topology, CpuSet, CpuSet, CpuSet]:
    whole = machine(
        nodes=draw(st.integers(1, 2)),
        caches=draw(st.integers(1, 2)),
        cores=draw(st.integers(1, 4)),
        threads=draw(st.integers(1, 2)),
    )
    some = st.sets(st.sampled_from(list(whole.cpuset))).map(CpuSet)
    # CPU 0 of most machines cannot go offline.
    return whole, CpuSet([0]) | draw(some), draw(some) - CpuSet([0]), CpuSet([0]) | draw(some)


@given(machines())
def test_any_machine_is_read_as_it_is(
    shown: tuple[Topology, CpuSet, CpuSet, CpuSet],
) -> None:
    whole, online, isolated, allowed = shown
    with tempfile.TemporaryDirectory() as folder:
        show(whole, Path(folder), online, isolated)
        topology = Topology.read(Path(folder), allowed)

    assert topology.cpuset == online & allowed - isolated
    assert topology.isolated == online & allowed & isolated
    of = {cpu.id: cpu for cpu in whole.cpus}
    for cpu in topology.cpus:
        assert (cpu.socket, cpu.numa) == (of[cpu.id].socket, of[cpu.id].numa)
    for domain in ("core", "l3"):
        for _, group in groupby(topology.cpus, key=lambda cpu: getattr(cpu, domain)):
            assert len({getattr(of[cpu.id], domain) for cpu in group}) == 1
    assert len(topology.cores()) == len({of[cpu].core for cpu in topology.cpuset})


def test_reader_follows_cpus_that_come_and_go(tmp_path: Path) -> None:
    whole, everything = machine(nodes=2, cores=2), CpuSet(range(4))
    allowed = [everything]
    read = TopologyReader(lambda: allowed[0], tmp_path)

    show(whole, tmp_path, online=everything, isolated=CpuSet())
    assert read().cpuset == everything
    show(whole, tmp_path, online=everything - CpuSet([2]), isolated=CpuSet())
    assert read().cpuset == CpuSet([0, 1, 3])
    show(whole, tmp_path, online=everything, isolated=CpuSet([1]))
    assert read().cpuset == CpuSet([0, 2, 3])
    allowed[0] = CpuSet([0, 3])
    assert read().cpuset == CpuSet([0, 3])


def test_nodes_with_memory_are_read_again_when_they_change(tmp_path: Path) -> None:
    show(machine(nodes=2, cores=1), tmp_path, online=CpuSet([0, 1]), isolated=CpuSet())
    read = TopologyReader(lambda: CpuSet([0, 1]), tmp_path)
    assert read().memory is None
    write(tmp_path / "sys/devices/system/node/has_memory", "0")
    assert read().memory == CpuSet([0])


def test_a_machine_without_topology_files_has_a_core_per_cpu(tmp_path: Path) -> None:
    write(tmp_path / "sys/devices/system/cpu/online", "0-3")

    topology = Topology.read(tmp_path, allowed=CpuSet(range(8)))

    assert topology.cpus == tuple(Cpu(id=i, core=i, socket=0, numa=0, l3=0) for i in range(4))


def test_without_any_sys_the_allowed_cpus_are_the_machine(tmp_path: Path) -> None:
    assert Topology.read(tmp_path, allowed=CpuSet([2, 5])).cpuset == CpuSet([2, 5])


def test_an_unknown_package_is_socket_zero(tmp_path: Path) -> None:
    write(tmp_path / "sys/devices/system/cpu/online", "0")
    write(tmp_path / "sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1")

    assert Topology.read(tmp_path, allowed=CpuSet([0])).cpus[0].socket == 0


def test_no_usable_cpu_is_an_error_with_both_sets(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="online are 0-47, allowed are '50'"):
        Topology.read(two_sockets(tmp_path), allowed=CpuSet([50]))


def test_possible_cpus_are_told_whether_online_or_not(tmp_path: Path) -> None:
    assert possible_cpus(tmp_path) == CpuSet()
    write(tmp_path / "sys/devices/system/cpu/possible", "0-63")
    assert possible_cpus(tmp_path) == CpuSet(range(64))
    assert CpuSet(os.sched_getaffinity(0)) <= possible_cpus()


def test_this_machine_has_the_cpus_this_process_may_use() -> None:
    topology = Topology.read()

    assert topology.cpuset == CpuSet(os.sched_getaffinity(0))
    for unit in ("core", "thread"):
        sold = topology.cores(unit)
        assert sum(len(cpus) for cpus in sold) == len(topology.cpuset)


def test_this_process_confined_to_one_cpu_sees_one() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert Topology.read().cpuset == CpuSet([min(before)])
    finally:
        os.sched_setaffinity(0, before)
