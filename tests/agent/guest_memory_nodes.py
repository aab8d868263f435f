"""Run inside the guest by test_guest.py: two NUMA nodes, and a program with memory on one."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from walras_agent.cpuset import CpuSet
from walras_agent.journal import Journal
from walras_agent.kubepods import Layout
from walras_agent.memory.numa import NumaEnforcer
from walras_agent.observe import PodObserver
from walras_agent.restore import restore
from walras_agent.tree import CgroupFile, CgroupTree

VERSION = os.environ["WALRAS_CGROUP"]
HOLDS_MEMORY = """
import mmap, os, sys, time
os.sched_setaffinity(0, {0})
held = mmap.mmap(-1, 32 << 20)
for page in range(0, len(held), 4096):
    held[page] = 1
print("ready", flush=True)
time.sleep(600)
"""


class Pods:
    """Two pods of a container each, as the kubelet and a runtime make their groups."""

    def __init__(self) -> None:
        self.tree = CgroupTree.at()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.folders: list[Path] = []
        for mount in set(self.tree.mounts.values()):
            self.delegate(Path(mount))
            for group in ("/kubepods", "/kubepods/burstable"):
                self.make(Path(mount + group))
            for pod in ("a", "b"):
                self.make(Path(mount + self.container(pod)).parent)
                self.make(Path(mount + self.container(pod)))

    def make(self, folder: Path) -> None:
        folder.mkdir()
        self.folders.append(folder)
        if (folder / "cpuset.cpus").exists() and VERSION == "v1":
            for file in ("cpuset.cpus", "cpuset.mems"):
                (folder / file).write_text((folder.parent / file).read_text())
        if len(folder.name) < 64:
            self.delegate(folder)

    def delegate(self, folder: Path) -> None:
        if VERSION == "v2":
            (folder / "cgroup.subtree_control").write_text("+cpuset +cpu +memory")

    def container(self, pod: str) -> str:
        return f"/kubepods/burstable/pod{pod}/{pod * 64}"

    def start(self, pod: str) -> int:
        """Start a program that has taken memory of node 0; returns its PID."""
        process = subprocess.Popen([sys.executable, "-c", HOLDS_MEMORY], stdout=subprocess.PIPE)
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for mount in set(self.tree.mounts.values()):
            Path(f"{mount}{self.container(pod)}/cgroup.procs").write_text(str(process.pid))
        return process.pid

    def close(self) -> None:
        for process in self.processes:
            with process:
                process.kill()
        for folder in reversed(self.folders):
            folder.rmdir()


@pytest.fixture
def pods() -> Iterator[Pods]:
    made = Pods()
    yield made
    made.close()


def memory_nodes(pid: int) -> str:
    """Return the memory nodes that a process may use by ``/proc/PID/status`` (proc(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith("Mems_allowed_list:")).split()[1]


def pages(pid: int) -> dict[str, int]:
    """Return how many pages of a large mapping a process has, by NUMA node (numa(7))."""
    found: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        placed = dict(re.findall(r"(N[0-9]+)=([0-9]+)", line))
        if sum(map(int, placed.values())) >= 8000:
            found = {node: int(count) for node, count in placed.items()}
    return found


def test_memory_follows_a_pods_cores_and_goes_back(pods: Pods, tmp_path: Path) -> None:
    """cgroup v2 moves the pages; v1 leaves them, and takes new ones from the right node."""
    pid, other = pods.start("a"), pods.start("b")
    assert pages(pid).get("N0", 0) >= 8000
    keeper = NumaEnforcer(pods.tree, Journal.open(tmp_path / "journal"))
    seen = PodObserver(pods.tree, Layout("cgroupfs")).observe()
    done = keeper.step(seen, {"a": CpuSet([1])}, 0.0)
    assert done.pods["a"].nodes == CpuSet([1]), done
    assert (memory_nodes(pid), memory_nodes(other)) == ("1", "0-1")
    assert pages(pid).get("N1" if VERSION == "v2" else "N0", 0) >= 8000
    assert len(done.writes) == 1
    assert keeper.step(seen, {"a": CpuSet([1])}, 10.0).writes == []
    assert keeper.step(seen, {"a": CpuSet([0])}, 20.0).pods["a"].nodes == CpuSet([0])
    assert memory_nodes(pid) == "0"
    keeper.step(seen, {}, 30.0)
    assert memory_nodes(pid) == "0-1"
    assert dict(keeper.journal.originals) == {}


@pytest.mark.parametrize("nodes_first", [False, True])
def test_cpus_and_memory_nodes_are_what_they_were(
    pods: Pods, tmp_path: Path, nodes_first: bool
) -> None:
    """They are restored one after the other, and v2 does not empty a cpuset that has tasks."""
    pid = pods.start("a")
    journal = Journal.open(tmp_path / "journal")
    keeper = NumaEnforcer(pods.tree, journal)
    cpus, nodes = (
        CgroupFile("cpuset", pods.container("a"), file) for file in ("cpuset.cpus", "cpuset.mems")
    )
    before = [pods.tree.read(each) for each in (cpus, nodes)]
    seen = PodObserver(pods.tree, Layout("cgroupfs")).observe()
    keeper.step(seen, {"a": CpuSet([1])}, 0.0)
    journal.record([(cpus, "1")], pods.tree)
    pods.tree.write(cpus, "1")
    assert (pods.tree.read(cpus), memory_nodes(pid)) == ("1", "1")
    for each in (nodes, cpus) if nodes_first else (cpus, nodes):
        restore(journal, pods.tree, [each])
    assert [pods.tree.read(each) for each in (cpus, nodes)] == before
    assert memory_nodes(pid) == "0-1"
    assert dict(journal.originals) == {}
