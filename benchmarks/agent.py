"""Measure how long the node agent takes to reconcile a node, with and without changes.

There are two nodes, each with 110 pods (the kubelet's default limit) of one container. One is a
tree of plain files, like the cgroup v2 files of a node with 48 CPUs. The other, as root only,
consists of real cgroups of this machine, without processes.

The peer of a reconcile without changes is the minimum for any agent: to read the effective CPUs of
every container.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from harness import Case, one_thread, run

ALLOWED_CPUS = os.sched_getaffinity(0)
one_thread()
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from machines import machine  # noqa: E402
from walras_agent.cpuset import CpuSet  # noqa: E402
from walras_agent.enforce import CpuEnforcer  # noqa: E402
from walras_agent.journal import Journal  # noqa: E402
from walras_agent.kubepods import Layout  # noqa: E402
from walras_agent.memory.enforce import MemoryEnforcer  # noqa: E402
from walras_agent.memory.numa import NumaEnforcer  # noqa: E402
from walras_agent.moves import plan_moves  # noqa: E402
from walras_agent.node_plan import EnforcedGrant, NodePlan  # noqa: E402
from walras_agent.observe import EFFECTIVE, Container, Group, ObservedPod, PodObserver  # noqa: E402
from walras_agent.open_file_tree import OpenFileTree  # noqa: E402
from walras_agent.pod_cpus import allocate_cpus  # noqa: E402
from walras_agent.reconcile import Reconciler  # noqa: E402
from walras_agent.topology import Topology  # noqa: E402
from walras_agent.tree import CgroupFile, CgroupTree, TreeError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_agent.status import NodeStatus

PODS = 110
CHANGED = 30
IDLE_MS = 50  # half a percent of a core, at one reconcile every ten seconds
MOST_MIB = 80
PAPERS_NODE = machine(nodes=2, cores=12, threads=2)  # of the Amdahl-market paper


def ensure(holds: bool, complaint: str) -> None:
    """Stop the benchmark if it does not measure what it should."""
    if not holds:
        raise RuntimeError(complaint)


def name(number: int) -> str:
    """Return the UID of a pod."""
    return f"pod-{number:03}"


def container(layout: Layout, number: int) -> str:
    """Return the cgroup of a pod's container."""
    return f"{layout.pod(name(number), 'Burstable')}/{number:064x}"


def grants(millicores: int, some: range = range(PODS)) -> list[EnforcedGrant]:
    """Return equal grants for some pods."""
    return [EnforcedGrant(name(number), name(number), millicores) for number in some]


def reconciler(tree: CgroupTree, layout: Layout, folder: Path, topology: Topology) -> Reconciler:
    """Return the reconciler of an agent."""
    journal = Journal.open(folder / "journal")
    enforcer = CpuEnforcer(tree, PodObserver(tree, layout), journal)
    nodes = NumaEnforcer(tree, journal)
    return Reconciler(enforcer, MemoryEnforcer(tree, journal), nodes, lambda: topology, str)


class PlainTree(OpenFileTree):
    """A tree of plain files, which are replaced as a whole, as the kernel does with a value."""

    def write(self, setting: CgroupFile, value: str) -> None:
        """Replace the whole content of a file."""
        Path(self.folder(setting.controller, setting.group), setting.file).write_text(f"{value}\n")


def plain_files(folder: Path) -> CgroupTree:
    """Return a node of 48 CPUs, whose effective CPUs are always those that were written."""
    (folder / "cgroup.controllers").write_text("cpuset cpu memory\n")
    tree, layout = PlainTree.at(folder), Layout("cgroupfs")
    for number in range(PODS):
        group = container(layout, number)
        for each in (group.rpartition("/")[0], group):
            made = Path(tree.folder("cpuset", each))
            made.mkdir(parents=True)
            (made / "cpuset.cpus").write_text("0-47\n")
            (made / "cpuset.cpus.effective").symlink_to("cpuset.cpus")
            (made / "cgroup.procs").write_text(f"{os.getpid()}\n")
            (made / "cpu.max").write_text("max 100000\n")
            (made / "cpu.max.burst").write_text("0\n")
            (made / "cpu.weight").write_text("79\n")
    return tree


def read_all(tree: CgroupTree, groups: list[str]) -> list[str]:
    """Read the effective CPUs of each group."""
    return [tree.read(CgroupFile("cpuset", group, EFFECTIVE[tree.version])) for group in groups]


def nothing_changes(folder: Path) -> Case:
    """Return the case of a reconcile when all grants are enforced already."""
    (folder / "cgroup").mkdir()
    tree, layout = plain_files(folder / "cgroup"), Layout("cgroupfs")
    loop = reconciler(tree, layout, folder, PAPERS_NODE)
    whole = grants(1000, range(20))
    loop.offer(NodePlan(1, "enforce", (*whole, *grants(100, range(20, PODS)))))
    clock = cycle(range(10**9))

    def look() -> NodeStatus:
        status = loop.step(next(clock))
        ensure(status.settled, f"not settled: {status.failures}")
        return status

    look()
    ensure(look().writes == (), "something changes")
    groups = [container(layout, number) for number in range(PODS)]
    return Case(
        f"{PODS} pods, 48 CPUs: nothing to change",
        10,
        look,
        "reads, nothing else",
        partial(read_all, tree, groups),
        warm_peer=True,
    )


def plans(topology: Topology) -> Case:
    """Return the case of choosing CPUs and ordering moves for 110 pods with new grants."""
    pods = [
        ObservedPod(name(n), f"/{n}", (Container(Group(f"/{n}/c", topology.cpuset)),))
        for n in range(PODS)
    ]
    new = [*grants(1000, range(20)), *grants(100, range(20, PODS))]

    def plan() -> None:
        node_cpus = allocate_cpus(topology, new, {})
        ensure(len(plan_moves(pods, node_cpus, {}, {}).moves) == PODS, "not all pods move")

    return Case(f"{PODS} new grants, 48 CPUs: planning", 20, plan)


class RealNode:
    """Real cgroups of this machine, as created by a kubelet with ``--cgroup-root``."""

    def __init__(self, tree: CgroupTree) -> None:
        self.tree = tree
        self.layout = Layout("cgroupfs", f"/walras-bench-{os.getpid()}")
        for group in (self.layout.root, self.layout.pods, f"{self.layout.pods}/burstable"):
            self._make(group)
        for number in range(PODS):
            self._make(container(self.layout, number).rpartition("/")[0])
            self._make(container(self.layout, number))

    def _make(self, group: str) -> None:
        for mount in set(self.tree.mounts.values()):
            made = Path(mount + group)
            made.mkdir()
            if self.tree.version == 2:
                (made.parent / "cgroup.subtree_control").write_text("+cpuset +cpu +memory")
            elif (made / "cpuset.cpus").exists():
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (made / file).write_text((made.parent / file).read_text())

    def close(self) -> None:
        """Remove all groups."""
        for mount in set(self.tree.mounts.values()):
            for folder, _, _ in os.walk(mount + self.layout.root, topdown=False):
                Path(folder).rmdir()


def nothing_changes_in_real_cgroups(node: RealNode, folder: Path) -> Iterator[Case]:
    """Yield the cases of a reconcile of real cgroups without changes, without and with memory."""
    topology = Topology.read(allowed=CpuSet(ALLOWED_CPUS))
    for memory, target in ((None, 15), (1 << 30, IDLE_MS)):
        here = folder / f"idle-{memory}"
        here.mkdir()
        loop = reconciler(node.tree, node.layout, here, topology)
        granted = [
            EnforcedGrant(name(n), name(n), 1000 if n == 0 else 100, memory) for n in range(PODS)
        ]
        loop.offer(NodePlan(1, "enforce", tuple(granted)))
        clock = cycle(range(0, 10**9, 100))
        for _ in range(5):
            status = loop.step(next(clock))
        ensure(status.settled and not status.writes, f"not settled: {status.pods[0]}")
        what = "nothing to change" if memory is None else "memory too, idle"
        title = f"{PODS} pods, cgroup v{node.tree.version}: {what}"

        def look(loop: Reconciler = loop, clock: Iterator[int] = clock) -> None:
            loop.step(next(clock))

        yield Case(title, target, look)
        loop.offer(NodePlan(2, "enforce", ()))
        for _ in range(5):
            look()


def changes(node: RealNode, folder: Path) -> Iterator[Case]:
    """Yield the case of a plan that changes 30 of 110 pods, from the plan to the last write."""
    topology = Topology.read(allowed=CpuSet(ALLOWED_CPUS))
    loop = reconciler(node.tree, node.layout, folder, topology)
    epochs = cycle(range(1, 10**9))

    def plans_in_turn() -> Iterator[NodePlan]:
        rest = grants(100, range(CHANGED, PODS))
        while True:
            for millicores in (200, 300):
                changed = grants(millicores, range(CHANGED - 1))
                owner = (
                    [EnforcedGrant(name(CHANGED - 1), "owner", 1000)] if millicores == 300 else []
                )
                yield NodePlan(next(epochs), "enforce", (*changed, *owner, *rest))

    plan = plans_in_turn()

    def change() -> None:
        loop.offer(next(plan))
        status = loop.step(0.0)
        ensure(not status.failures, f"failed: {status.failures}")
        written = {setting.group for setting, _ in status.writes}
        ensure(len(written) >= CHANGED - 1, f"only {len(written)} groups were written")

    yield Case(f"{CHANGED} of {PODS} pods changed, cgroup v{node.tree.version}", 100, change)


def cases(folder: Path) -> Iterator[Case]:
    """Yield all cases; those of real cgroups need root and two CPUs."""
    yield nothing_changes(folder)
    yield plans(PAPERS_NODE)
    try:
        tree = OpenFileTree.at()
    except TreeError as error:
        print(f"skipped real cgroups: {error}")
        return
    if os.geteuid() != 0 or len(ALLOWED_CPUS) < 2:
        print("skipped real cgroups: they need root and two CPUs")
        return
    (folder / "real").mkdir()
    node = RealNode(tree)
    try:
        yield from nothing_changes_in_real_cgroups(node, folder / "real")
        yield from changes(node, folder / "real")
    finally:
        node.close()


def resident() -> float:
    """MiB that a process with all of the agent's modules has in memory."""
    program = (
        "import importlib, pkgutil, walras_agent\n"
        "for found in pkgutil.walk_packages(walras_agent.__path__, 'walras_agent.'):\n"
        "    if not found.name.endswith('__main__'): importlib.import_module(found.name)\n"
        "print(open('/proc/self/statm').read().split()[1])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return int(told.stdout) * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        met = run("Node agent", cases(Path(temporary)))
    mebibytes = resident()
    print(f"resident memory with all modules of the agent: {mebibytes:.0f} MiB, at most {MOST_MIB}")
    sys.exit(not (met and mebibytes <= MOST_MIB))
