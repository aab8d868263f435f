"""Run inside the guest by test_guest.py: 2 sockets x 12 cores x 2 threads, as root."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from walras_agent.cpuset import CpuSet
from walras_agent.local.placement import JobPlacer, PlacedJob, PlacementError, open_placer, run_id
from walras_agent.node_plan import EnforcedGrant, NodePlan
from walras_agent.topology import Topology, TopologyReader

VERSION = os.environ["WALRAS_CGROUP"]
ROOT = Path("/sys/fs/cgroup") if VERSION == "v2" else Path("/sys/fs/cgroup/cpuset")
NOBODY = 65534


@pytest.fixture
def placer() -> Iterator[JobPlacer]:
    placer = open_placer(run_id(), "cgroup")
    yield placer
    placer.close()


@pytest.fixture
def start() -> Iterator[Callable[[PlacedJob], int]]:
    """Start a program that sleeps as a job; returns its PID."""
    started: list[subprocess.Popen[bytes]] = []

    def start(job: PlacedJob) -> int:
        started.append(subprocess.Popen(["sleep", "600"]))
        job.admit(started[-1].pid)
        return started[-1].pid

    yield start
    for process in started:
        with process:
            process.kill()


def test_the_paper_s_node_is_read_as_it_is() -> None:
    topology = Topology.read()

    cores = topology.cores("core")
    assert [str(core) for core in cores] == [f"{2 * i}-{2 * i + 1}" for i in range(24)]
    for node, cpus in ((0, CpuSet(range(24))), (1, CpuSet(range(24, 48)))):
        assert CpuSet(cpu.id for cpu in topology.cpus if cpu.numa == node) == cpus
        assert CpuSet(cpu.id for cpu in topology.cpus if cpu.socket == node) == cpus
        assert CpuSet(cpu.id for cpu in topology.cpus if cpu.l3 == min(cpus)) == cpus


def test_an_offline_cpu_is_left_out_and_its_sibling_is_a_core() -> None:
    switch = Path("/sys/devices/system/cpu/cpu3/online")
    read = TopologyReader(lambda: CpuSet(range(48)))
    whole = read()
    switch.write_text("0")
    try:
        topology = read()
    finally:
        switch.write_text("1")

    assert topology.cpuset == CpuSet(range(48)) - CpuSet([3])
    assert CpuSet([2]) in topology.cores("core")
    assert read() == whole


def test_a_process_allowed_half_a_core_sees_half_a_core() -> None:
    everything = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(range(5)))
    try:
        topology = Topology.read()
    finally:
        os.sched_setaffinity(0, everything)

    assert [str(core) for core in topology.cores("core")] == ["0-1", "2-3", "4"]


def test_jobs_are_held_to_whole_cores_of_one_socket(
    placer: JobPlacer, start: Callable[[PlacedJob], int]
) -> None:
    assert placer.description == f"cgroup {VERSION} cpuset"
    topology = Topology.read()
    granted = {"a": 12, "b": 5, "c": 6, "d": 0, "e": 0}
    pids = {name: start(placer.open(name)) for name in granted}
    reconciler = placer.reconciler(lambda: topology)
    grants = (
        EnforcedGrant(name, name, 1000 * cores or 500, isolated=True)
        for name, cores in granted.items()
    )
    reconciler.offer(NodePlan(1, "enforce", tuple(grants)))
    assert reconciler.step(0.0).is_enforced

    for name, cores in granted.items():
        cpus = os.sched_getaffinity(pids[name])
        assert len({cpu // 24 for cpu in cpus}) == 1
        if cores:
            assert len(cpus) == 2 * cores
            assert all(cpu ^ 1 in cpus for cpu in cpus)
        else:  # half a core is time on the core that is left
            assert cpus == {46, 47}


@pytest.fixture
def inside_a_group() -> Iterator[Path]:
    """Move this process into the group /outer/inner, where /outer has the CPUs 0-7."""
    outer = ROOT / "outer"
    if VERSION == "v2":
        (ROOT / "cgroup.subtree_control").write_text("+cpuset +cpu")
    outer.mkdir()
    (outer / "cpuset.cpus").write_text("0-7")
    if VERSION == "v1":
        (outer / "cpuset.mems").write_text("0")
        (outer / "cgroup.clone_children").write_text("1")
    inner = outer / "inner"
    inner.mkdir()
    (inner / "cgroup.procs").write_text("0")
    yield inner
    (ROOT / "cgroup.procs").write_text("0")
    inner.rmdir()
    outer.rmdir()


def test_a_run_inside_a_group_makes_its_own_where_the_rules_allow(
    inside_a_group: Path, start: Callable[[PlacedJob], int]
) -> None:
    placer = open_placer(run_id(), "cgroup")
    try:
        beside = inside_a_group.parent if VERSION == "v2" else inside_a_group
        job = placer.open("default.a")
        run, _ = job.environment["WALRAS_RUN"].split("/")
        assert (beside / f"walras-{run}/job-default.a").is_dir()
        pid = start(job)
        job.place(CpuSet([2, 3]))
        assert os.sched_getaffinity(pid) == {2, 3}
        with pytest.raises(PlacementError, match="7-8"):
            job.place(CpuSet([7, 8]))
    finally:
        placer.close()


PLACE_AS_A_USER = """
import os, subprocess
from walras_agent.cpuset import CpuSet
from walras_agent.local.placement import open_placer, run_id
open("/sys/fs/cgroup/delegated/inner/cgroup.procs", "w").write("0")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
placer = open_placer(run_id())
job = placer.open("default.a")
process = subprocess.Popen(["sleep", "600"])
job.admit(process.pid)
job.place(CpuSet([4, 5]))
print(placer.description, sorted(os.sched_getaffinity(process.pid)))
placer.close()
"""


@pytest.fixture
def delegated() -> Iterator[Path]:
    """A subtree given to an ordinary user as cgroup-v2.rst, "Delegation", says."""
    (ROOT / "cgroup.subtree_control").write_text("+cpuset +cpu")
    folder = ROOT / "delegated"
    folder.mkdir()
    (folder / "inner").mkdir()
    for group in (folder, folder / "inner"):
        for path in (group, *(group / f"cgroup.{f}" for f in ("procs", "subtree_control"))):
            os.chown(path, NOBODY, NOBODY)
    yield folder
    (folder / "inner").rmdir()
    folder.rmdir()


if VERSION == "v2":

    def test_an_ordinary_user_places_by_cgroup_in_a_delegated_subtree(delegated: Path) -> None:
        answer = subprocess.run(
            [sys.executable, "-c", PLACE_AS_A_USER], check=False, capture_output=True, text=True
        )

        assert answer.stdout == "cgroup v2 cpuset [4, 5]\n", answer.stderr
        assert sorted(path.name for path in delegated.iterdir() if path.is_dir()) == ["inner"]
