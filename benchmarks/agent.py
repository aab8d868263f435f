"""Measure how long the node agent takes to reconcile a node, with and without changes.

There are two nodes, each with 110 pods (the kubelet's default limit) of one container. One is a
tree of plain files, like the cgroup v2 files of a node with 48 CPUs. The other, as root only,
consists of real cgroups of this machine, without processes.

The peer of a reconcile without changes is the minimum for any agent: to read the effective CPUs of
every container.

As root, the benchmark also starts the command ``walras-agent cluster`` on real cgroups, with the
ServiceAccount of a pod and an API server that has a NodeAllocation for all pods, and measures the
memory and the CPU time that the process takes while nothing changes, and then while programs spin
in 20 of the pods (``--rest``: this alone, in four minutes). Its peer is a Python process that only
watches the same object, by urllib3.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
from harness import Case, one_thread, run

ALLOWED_CPUS = os.sched_getaffinity(0)
one_thread()
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from faulty_proxy import CERTIFICATE  # noqa: E402
from machines import machine  # noqa: E402
from pod_groups import pod_group  # noqa: E402
from scripted_api import ScriptedServer  # noqa: E402
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
    from collections.abc import Callable, Iterator, Mapping

    from walras_agent.status import NodeStatus

PODS = 110
CHANGED = 30
IDLE_MS = 50  # half a percent of a core, at one reconcile every ten seconds
BUSY = 20  # pods whose programs spin while pods compete
MOST_MIB = 45
MOST_PERCENT = 0.3  # of a core, while nothing changes
MOST_MORE = 0.3  # percent of a core more than that while pods compete
SETTLING_SECONDS = 20.0
RESTING_SECONDS = 60.0
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
    return f"{pod_group(layout, name(number))}/{number:064x}"


def grants(millicores: int, some: range = range(PODS)) -> list[EnforcedGrant]:
    """Return equal grants for some pods."""
    return [EnforcedGrant(name(number), name(number), millicores) for number in some]


def reconciler(
    tree: CgroupTree,
    layout: Layout,
    folder: Path,
    topology: Topology,
    clock: Callable[[], float] = time.monotonic,
) -> Reconciler:
    """Return the reconciler of an agent."""
    journal = Journal.open(folder / "journal")
    observer = PodObserver(tree, layout)
    enforcer = CpuEnforcer(tree, observer, journal, classes=layout.classes, clock=clock)
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


def all_enforced(status: NodeStatus) -> bool:
    """Whether every grant is enforced, and no pod is absent."""
    return status.is_enforced and all(pod.state != "Absent" for pod in status.pods)


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
        ensure(all_enforced(status), f"not enforced: {status.failures}")
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
        ensure(all_enforced(status) and not status.writes, f"not enforced: {status.pods[0]}")
        what = "nothing to change" if memory is None else "memory too, idle"
        title = f"{PODS} pods, cgroup v{node.tree.version}: {what}"

        def look(loop: Reconciler = loop, clock: Iterator[int] = clock) -> None:
            loop.step(next(clock))

        yield Case(title, target, look)
        loop.offer(NodePlan(2, "enforce", ()))
        for _ in range(5):
            look()


@contextmanager
def spinning(node: RealNode) -> Iterator[None]:
    """Let programs spin in some of the pods."""
    with ExitStack() as programs:
        for number in range(BUSY):
            program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            programs.callback(program.wait)
            programs.callback(program.kill)
            for mount in set(node.tree.mounts.values()):
                group = Path(mount + container(node.layout, number))
                (group / "cgroup.procs").write_text(f"{program.pid}\n")
        yield


def corrections(node: RealNode, folder: Path) -> Iterator[Case]:
    """Yield the case of a correction of weights, where some of 110 pods are busy elsewhere."""
    topology = Topology.read(allowed=CpuSet(ALLOWED_CPUS - os.sched_getaffinity(0)))
    seconds = cycle(range(0, 10**9, 2))
    loop = reconciler(node.tree, node.layout, folder, topology, lambda: float(next(seconds)))
    with spinning(node):
        loop.offer(NodePlan(1, "enforce", tuple(grants(len(topology.cpus) * 1000 // PODS))))
        ensure(all_enforced(loop.step(0.0)), "not enforced")
        yield Case(f"{PODS} pods, {BUSY} busy: a correction", 6, lambda: loop.correct(0.0))
    loop.offer(NodePlan(2, "enforce", ()))
    loop.step(0.0)


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


def real_tree() -> CgroupTree | None:
    """Return this machine's cgroups; None where they cannot be used, and print why."""
    try:
        tree = OpenFileTree.at()
    except TreeError as error:
        print(f"skipped real cgroups: {error}")
        return None
    if os.geteuid() != 0 or len(ALLOWED_CPUS) < 2:
        print("skipped real cgroups: they need root and two CPUs")
        return None
    return tree


def cases(folder: Path) -> Iterator[Case]:
    """Yield all cases; those of real cgroups need root and two CPUs."""
    yield nothing_changes(folder)
    yield plans(PAPERS_NODE)
    tree = real_tree()
    if tree is None:
        return
    (folder / "real").mkdir()
    node = RealNode(tree)
    try:
        yield from nothing_changes_in_real_cgroups(node, folder / "real")
        (folder / "corrected").mkdir()
        yield from corrections(node, folder / "corrected")
        yield from changes(node, folder / "real")
    finally:
        node.close()


class Taken(NamedTuple):
    """The CPU time and memory that a process takes.

    Attributes:
        resident: Resident memory in MiB (RSS).
        proportional: The same, shared pages divided by the number of processes (PSS), in MiB.
        unique: Memory that no other process shares (USS), in MiB.
        percent: CPU time in percent of a core.
    """

    resident: float
    proportional: float
    unique: float
    percent: float


IN_POD = """
mount -t tmpfs tmpfs /run
mkdir -p /var/run/secrets/kubernetes.io
ln -s "$1" /var/run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"""
"""Program of a shell that gives a command the ServiceAccount in a folder, as in a pod."""

WATCHER = """
import json, sys, urllib3
pool = urllib3.PoolManager(ca_certs=sys.argv[2])
answer = pool.request("GET", sys.argv[1], fields={"watch": "true"}, preload_content=False)
for line in answer:
    json.loads(line)
"""


def api_server() -> ScriptedServer:
    """Start an API server with TLS that has a NodeAllocation of all pods, and never changes it."""
    cores = f"{len(ALLOWED_CPUS) * 1000 // PODS / 1000:.3f}"
    some = [
        {"podUID": name(n), "namespace": "bench", "name": name(n), "cores": cores, "memory": "1Gi"}
        for n in range(PODS)
    ]
    return ScriptedServer(
        {
            "apiVersion": "walras.dev/v1alpha1",
            "kind": "NodeAllocation",
            "metadata": {"name": "bench", "uid": "bench", "generation": 1},
            "spec": {"epoch": 1, "mode": "enforce", "grants": some},
        },
        certificate=CERTIFICATE,
    )


def service_account(folder: Path) -> Path:
    """Return a folder with the files of a ServiceAccount."""
    folder.mkdir()
    (folder / "token").write_text("token")
    (folder / "ca.crt").write_bytes((CERTIFICATE / "tls.crt").read_bytes())
    return folder


@contextmanager
def running(command: list[str], environment: Mapping[str, str]) -> Iterator[psutil.Process]:
    """Start a command, and end it afterwards."""
    together = {**os.environ, **environment}
    with subprocess.Popen(command, env=together, stderr=subprocess.DEVNULL) as started:
        try:
            yield psutil.Process(started.pid)
        finally:
            started.terminate()


def taken(process: psutil.Process) -> Taken:
    """Let all settle, and measure what a process takes."""
    time.sleep(SETTLING_SECONDS)
    before = process.cpu_times()
    time.sleep(RESTING_SECONDS)
    after, memory = process.cpu_times(), process.memory_full_info()
    seconds = after.user + after.system - before.user - before.system
    resident, proportional, unique = (each / 2**20 for each in (memory.rss, memory.pss, memory.uss))
    return Taken(resident, proportional, unique, 100 * seconds / RESTING_SECONDS)


def at_rest(node: RealNode, folder: Path) -> bool:
    """Measure the agent's process and its peer, and return whether the agent meets its targets.

    The machine need not have a kubelet.
    """
    account = service_account(folder / "account")
    options = ("--cgroup-root", node.layout.root, "--cgroup-driver", "cgroupfs")
    with closing(api_server()) as server:
        address = server.settings().host
        port = address.rpartition(":")[2]
        python = [sys.executable, "-m", "walras_agent", "cluster", "--listen", "127.0.0.1:0"]
        agent = [*python, *options, "--reserved-cpus", "", "--state-folder", str(folder / "state")]
        only_tested = folder / "only_tested"
        only_tested.mkdir()
        (only_tested / "kubernetes_validate.py").write_text("raise ImportError('not in the image')")
        pod = {
            "PYTHONPATH": str(only_tested),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": port,
            "NODE_NAME": "bench",
        }
        in_pod = ["unshare", "--mount", "sh", "-ec", IN_POD, "sh", str(account), *agent]
        with running(in_pod, pod) as process:
            ours = taken(process)
            with spinning(node):
                busy = taken(process)
        statuses = [patch[1]["value"] for _, end, patch in server.written if end == "status"]
        ensure(bool(statuses) and statuses[-1].get("enforcedEpoch") == 1, f"{statuses[-1:]}")
        watcher = [sys.executable, "-c", WATCHER, f"{address}/watch", str(account / "ca.crt")]
        with running(watcher, {}) as process:
            peer = taken(process)
    for title, found in (("agent", ours), ("peer, which only watches", peer)):
        print(
            f"{title}: {found.resident:.1f} MiB resident (PSS {found.proportional:.1f}, "
            f"USS {found.unique:.1f}), {found.percent:.2f} % of a core while nothing changes"
        )
    more = busy.percent - ours.percent
    print(f"agent while {BUSY} of {PODS} pods compete: {more:.2f} % of a core more")
    print(f"targets: {MOST_MIB} MiB resident, {MOST_PERCENT} % of a core, {MOST_MORE} % more")
    at_rest = ours.resident <= MOST_MIB and ours.percent <= MOST_PERCENT
    return at_rest and more <= MOST_MORE


def main() -> bool:
    """Run the benchmark, and return whether all targets are met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rest", action="store_true", help="measure the agent's process alone")
    only_process = parser.parse_args().rest
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        met = only_process or run("Node agent", cases(folder))
        tree = real_tree()
        if tree is None:
            return met
        (folder / "rest").mkdir()
        with closing(RealNode(tree)) as node:
            return at_rest(node, folder / "rest") and met


if __name__ == "__main__":
    sys.exit(not main())
