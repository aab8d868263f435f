"""Grants are held by a real kernel, on real processes: cgroup v1 or v2, whichever is mounted.

Runs on the test machine as root, and inside emulated machines by test_guest.py. The
pods are cgroups as a kubelet with ``--cgroup-root`` makes them, with programs in them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from real_pods import TREE, RealPods, allowed, needs_pods
from walras_agent.cpuset import CpuSet
from walras_agent.enforce import CpuEnforcer, CpuRound, enable_cpuset
from walras_agent.journal import Journal
from walras_agent.node_plan import EnforcedGrant
from walras_agent.observe import ControllerDisabledError, PodObserver
from walras_agent.topology import Topology
from walras_agent.tree import CgroupFile, CgroupTree

if TYPE_CHECKING:
    from collections.abc import Iterator

FORKING = "import os, time\nwhile True:\n if not os.fork(): time.sleep(0.2); os._exit(0)\n"
FORKING += " time.sleep(0.002)\n try:\n  while os.waitpid(-1, os.WNOHANG)[0]: pass\n"
FORKING += " except ChildProcessError: pass\n"


pytestmark = needs_pods


class Node(RealPods):
    """A node with an agent whose state is in a folder."""

    def __init__(self, tree: CgroupTree, folder: Path) -> None:
        super().__init__(tree)
        self.folder = folder

    def enforcer(self) -> CpuEnforcer:
        journal = Journal.open(self.folder / "journal")
        return CpuEnforcer(self.tree, PodObserver(self.tree, self.layout), journal)

    def hold(self, enforcer: CpuEnforcer | None = None, **millicores: int) -> CpuRound:
        grants = [
            EnforcedGrant(pod, pod, amount, isolated=True) for pod, amount in millicores.items()
        ]
        return (enforcer or self.enforcer()).enforce(Topology.read(), grants)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    assert TREE is not None
    made = Node(TREE, tmp_path)
    yield made
    made.close()


def test_processes_are_on_the_cpus_that_their_pods_hold(node: Node) -> None:
    owner, sharer = node.start("aa"), node.start("bb")
    done = node.hold(aa=1000)
    assert done.failures == ()
    core = Topology.read().cores()[0]
    assert allowed(owner) == CpuSet(os.sched_getaffinity(owner)) == core
    assert allowed(sharer) == Topology.read().cpuset - core
    assert node.hold(aa=1000).writes == ()
    node.hold()
    assert allowed(owner) == allowed(sharer) == Topology.read().cpuset


def test_owners_change_places_and_a_newcomer_is_taken_in(node: Node) -> None:
    first, second = node.start("aa"), node.start("bb")
    enforcer = node.enforcer()
    node.hold(enforcer, aa=1000)
    node.hold(enforcer, bb=1000)
    third = node.start("cc")
    done = node.hold(enforcer, bb=1000)
    assert done.failures == ()
    core = done.node_cpus.pods["bb"].exclusive
    assert allowed(second) == core
    assert allowed(first) == allowed(third) == Topology.read().cpuset - core


def test_program_that_forks_while_it_is_moved_leaves_nobody_behind(node: Node) -> None:
    node.start("aa")
    forking = node.start("bb", sys.executable, "-c", FORKING)
    enforcer = node.enforcer()
    for turn in range(10):
        node.hold(enforcer, **{"aa" if turn % 2 else "bb": 1000})
        time.sleep(0.02)
    done = node.hold(enforcer, aa=1000)
    procs = Path(f"{node.tree.mounts['cpuset']}{node.container('bb')}/cgroup.procs")
    members = [int(pid) for pid in procs.read_text().split()]
    assert forking in members
    assert len(members) > 1
    for pid in members:
        try:
            assert allowed(pid) == done.node_cpus.shared
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile


def test_quota_is_lifted_and_put_back(node: Node) -> None:
    quota, lifted = ("50000", "-1") if node.tree.version == 1 else ("50000 100000", "max 100000")
    node.start("aa", quota=quota)
    node.start("bb", quota=quota)
    enforcer = node.enforcer()
    assert node.hold(enforcer, aa=1000).failures == ()
    assert node.tree.read(node.quota("aa")) == lifted
    assert node.tree.read(node.quota("bb")) == quota
    node.hold(enforcer, bb=1000)
    assert node.tree.read(node.quota("aa")) == quota
    node.hold(enforcer)
    assert node.tree.read(node.quota("bb")) == quota
    assert dict(enforcer.journal.originals) == {}


if TREE is not None and TREE.version == 2:

    def test_cpusets_that_were_empty_are_empty_again(node: Node) -> None:
        """The kernel does not let the cpuset of a running program be written empty."""
        pids = [node.start("aa"), node.start("aa", number=1), node.start("bb")]
        files = [
            CgroupFile("cpuset", group, "cpuset.cpus")
            for group in (node.container("aa"), node.container("aa", 1), node.container("bb"))
        ]
        enforcer = node.enforcer()
        node.hold(enforcer, aa=1000)
        assert all(node.tree.read(file) for file in files)
        assert node.hold(enforcer).failures == ()
        assert [node.tree.read(file) for file in files] == ["", "", ""]
        assert {allowed(pid) for pid in pids} == {Topology.read().cpuset}
        assert dict(enforcer.journal.originals) == {}

    def test_a_cpuset_beside_them_that_others_have_set_stays(node: Node) -> None:
        node.start("aa")
        held = node.start("aa", number=1)
        file = CgroupFile("cpuset", node.container("aa", 1), "cpuset.cpus")
        node.tree.write(file, "1")
        enforcer = node.enforcer()
        node.hold(enforcer, aa=1000)
        node.hold(enforcer)
        assert node.tree.read(file) == "1"
        assert allowed(held) == CpuSet([1])

    def test_a_controller_that_was_disabled_is_enabled_again(node: Node) -> None:
        pid = node.start("aa")
        enforcer = node.enforcer()
        core = node.hold(enforcer, aa=1000).node_cpus.pods["aa"].exclusive
        pod = node.container("aa").rpartition("/")[0]
        node.tree.write(CgroupFile("cpuset", pod, "cgroup.subtree_control"), "-cpuset")
        assert allowed(pid) == Topology.read().cpuset
        with pytest.raises(ControllerDisabledError, match="not enabled") as disabled:
            node.hold(enforcer, aa=1000)
        enable_cpuset(node.tree, disabled.value.setting.group)
        assert node.hold(enforcer, aa=1000).failures == ()
        assert allowed(pid) == core


def test_container_removed_in_the_midst_of_a_round(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start("aa")
    node.start("bb")
    taken = CgroupTree.write

    def write(tree: CgroupTree, setting: CgroupFile, value: str) -> None:
        if setting.group == node.container("bb"):
            monkeypatch.undo()
            node.kill(node.container("bb"))
        taken(tree, setting, value)

    monkeypatch.setattr(CgroupTree, "write", write)
    done = node.hold(aa=1000)
    assert done.failures == ()
    assert allowed(node.processes[0].pid) == done.node_cpus.pods["aa"].exclusive


AGENT = """
import os, signal, sys
from pathlib import Path
from walras_agent.enforce import CpuEnforcer
from walras_agent.node_plan import EnforcedGrant
from walras_agent.journal import Journal
from walras_agent.kubepods import Layout
from walras_agent.observe import PodObserver
from walras_agent.topology import Topology
from walras_agent.tree import CgroupTree

root, journal, pod, writes = sys.argv[1:]
left = int(writes)
taken = CgroupTree.write
def write(tree, setting, value):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    taken(tree, setting, value)
CgroupTree.write = write
tree = CgroupTree.at()
observer = PodObserver(tree, Layout("cgroupfs", root))
enforcer = CpuEnforcer(tree, observer, Journal.open(Path(journal)))
enforcer.enforce(Topology.read(), [EnforcedGrant(pod, pod, 1000, isolated=True)])
"""


def test_agent_killed_before_any_write_is_made_good(node: Node) -> None:
    """kill -9 between writes; a new agent takes over, and without grants all is as it was."""
    quota = "50000" if node.tree.version == 1 else "50000 100000"
    pids = {pod: node.start(pod, quota=quota) for pod in ("aa", "bb", "cc")}
    everything = Topology.read().cpuset
    for writes in range(20):
        node.hold(aa=1000)
        arguments = (node.layout.root, str(node.folder / "journal"), "bb", str(writes))
        agent = subprocess.run(
            [sys.executable, "-c", AGENT, *arguments],
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        users = [allowed(pid) for pid in pids.values()]
        owned = [cpus for cpus in users if cpus != everything and users.count(cpus) == 1]
        assert len(owned) < 2 or not owned[0] & owned[1]
        done = node.hold(bb=1000)
        assert done.failures == ()
        assert allowed(pids["bb"]) == done.node_cpus.pods["bb"].exclusive
        assert allowed(pids["aa"]) == allowed(pids["cc"]) == done.node_cpus.shared
        node.hold()
        assert {allowed(pid) for pid in pids.values()} == {everything}
        assert {node.tree.read(node.quota(pod)) for pod in pids} == {quota}
        if agent.returncode == 0:
            break
        assert agent.returncode == -signal.SIGKILL
    else:
        pytest.fail("the agent never got to its end")
    assert writes >= 4


def test_journal_that_cannot_be_kept_stops_before_the_first_write(node: Node) -> None:
    pid = node.start("aa")
    node.start("bb")
    enforcer = node.enforcer()
    shutil.rmtree(node.folder)
    with pytest.raises(Exception, match="cannot be written"):
        node.hold(enforcer, aa=1000)
    assert allowed(pid) == Topology.read().cpuset
    node.folder.mkdir()
