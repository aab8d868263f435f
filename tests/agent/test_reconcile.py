"""The loop: whatever happens to a node between two looks, it comes back to its plan."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Literal

import pytest

from machines import machine
from model_kernel import MIB, Memory, ModelKernel, Stopped
from walras_agent.cpuset import CpuSet
from walras_agent.enforce import Enforcer
from walras_agent.holdings import Grant
from walras_agent.journal import Journal
from walras_agent.kubepods import Layout, QosClass
from walras_agent.memory_keeper import MemoryKeeper
from walras_agent.observe import Observer
from walras_agent.reconcile import Mode, NodePlan, NodeStatus, Reconciler
from walras_agent.topology import Topology
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = pytest.mark.parametrize("version", [1, 2])
CORES = 8
LAYOUT = Layout("cgroupfs")
QOS: tuple[QosClass, ...] = ("Guaranteed", "Burstable", "BestEffort")


@dataclass
class Node:
    """A node of the model kernel with an agent that can be started anew."""

    kernel: ModelKernel
    folder: Path
    now: float = 1000.0
    online: CpuSet = field(default_factory=lambda: CpuSet(range(CORES)))
    refusal: str = ""
    epoch: int = 0

    def __post_init__(self) -> None:
        (self.folder / "boot_id").write_text("this boot\n")
        self.kernel.make("/kubepods")
        self.start_agent()

    def start_agent(self) -> None:
        self.journal = Journal.open(self.folder / "journal", self.folder / "boot_id")
        enforcer = Enforcer(self.kernel, Observer(self.kernel, LAYOUT, self.folder), self.journal)
        memory = MemoryKeeper(self.kernel, self.journal)
        self.agent = Reconciler(enforcer, memory, self.topology, lambda: self.refusal)

    def topology(self) -> Topology:
        whole = machine(cores=CORES)
        return Topology(tuple(cpu for cpu in whole.cpus if cpu.id in self.online))

    def pod(self, uid: str) -> str:
        return LAYOUT.pod(uid, QOS[ord(uid[-1]) % 3])

    def container(self, uid: str, number: int = 0) -> str:
        return f"{self.pod(uid)}/{uid.encode().hex():f>60}{number:04x}"

    def start_pod(self, uid: str, number: int = 0, memory: Memory | None = None) -> None:
        self.kernel.make(self.container(uid, number), tasks=1, memory=memory)

    def step(self, seconds: float = 1.0) -> NodeStatus:
        self.now += seconds
        self.kernel.elapse(seconds)
        return self.agent.step(self.now)

    def plan(self, mode: Mode = "enforce", memory: int | None = None, **millicores: int) -> bool:
        self.epoch += 1
        return self.offer(self.epoch, mode, memory, **millicores)

    def offer(self, epoch: int, mode: Mode, memory: int | None = None, **millicores: int) -> bool:
        grants = (Grant(uid, f"default/{uid}", each, memory) for uid, each in millicores.items())
        return self.agent.offer(NodePlan(epoch, mode, tuple(grants)))

    def cpus(self, group: str) -> CpuSet:
        file = "cpuset.effective_cpus" if self.kernel.version == 1 else "cpuset.cpus.effective"
        return CpuSet.parse(self.kernel.read(Setting("cpuset", group, file)))

    def everybody(self) -> dict[str, CpuSet]:
        """What every container's tasks may use."""
        return {
            name: self.cpus(name)
            for groups in LAYOUT.scan(self.kernel)
            for name in groups.containers
        }


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(ModelKernel(request.param, cpus=CORES), tmp_path)


def states(status: NodeStatus) -> dict[str, str]:
    return {pod.pod: pod.state for pod in status.pods}


def test_before_the_first_plan_nothing_is_done(node: Node) -> None:
    node.start_pod("a")
    assert node.step() == NodeStatus(None, "observe")
    assert node.kernel.writes == []


def test_plan_is_held_and_told(node: Node) -> None:
    node.start_pod("a")
    node.start_pod("b")
    node.plan(a=2000, c=1000)
    status = node.step()
    assert states(status) == {"a": "Enforced", "c": "Absent"}
    assert status.pods[0].cpus == node.cpus(node.container("a"))
    assert node.cpus(node.container("b")) == status.shared
    assert not status.settled
    assert node.step().writes == ()


def test_plan_of_an_older_epoch_is_ignored(node: Node) -> None:
    node.start_pod("a")
    node.offer(7, "enforce", a=2000)
    node.step()
    assert not node.offer(6, "enforce", a=1000)
    assert len(node.cpus(node.container("a"))) == 2
    assert node.step().epoch == 7


def test_static_cpu_manager_is_refused_and_nothing_changed(node: Node) -> None:
    node.start_pod("a")
    node.plan(a=2000)
    node.refusal = "the kubelet's CPU manager is static"
    status = node.step()
    assert status.refused == node.refusal
    assert not status.settled
    assert node.kernel.writes == []


def test_observing_puts_everything_back_and_tells_the_writes(node: Node) -> None:
    node.start_pod("a")
    node.start_pod("b")
    before = node.everybody()
    node.plan(a=2000)
    made = node.step().writes
    node.plan("observe", a=2000)
    status = node.step()
    assert node.everybody() == before
    assert {setting for setting, _ in status.writes} == {setting for setting, _ in made}
    assert node.step().mode == "observe"
    assert dict(node.journal.originals) == {}


def test_drift_is_put_right_at_once_and_then_ever_more_slowly(node: Node) -> None:
    """Two writers flip-flopped cpusets (koordinator 1214)."""
    node.start_pod("a")
    node.start_pod("b")
    node.plan(a=2000)
    shared = node.step().shared
    name = node.container("b")
    repairs = 0
    for _ in range(100):
        node.kernel.set_by_others(Setting("cpuset", name, "cpuset.cpus"), "0-7")
        status = node.step(seconds=0.25)
        repairs += node.cpus(name) == shared
        assert states(status) == {"a": "Enforced"}
    assert 3 <= repairs <= 8
    for _ in range(70):
        node.step()
    assert node.cpus(name) == shared


def test_refusal_that_lasts_is_not_tried_all_the_time(node: Node) -> None:
    """A permanent EINVAL was retried 8 times a second (koordinator 3217)."""
    node.start_pod("a")
    node.start_pod("b")
    setting = Setting("cpuset", node.container("a"), "cpuset.cpus")
    node.kernel.fail(setting, errno.EINVAL, times=1000)
    node.plan(a=2000)
    status = node.step()
    assert states(status) == {"a": "Failed"}
    assert "Invalid argument" in status.pods[0].reason
    for _ in range(240):
        status = node.step(seconds=0.25)
    tried = [write for write in node.kernel.writes if write.setting == setting]
    assert 4 <= len(tried) <= 8
    assert states(status) in ({"a": "Failed"}, {"a": "Pending"})


def test_offline_cpus_are_made_up_for_and_taken_back(node: Node) -> None:
    node.start_pod("a")
    node.start_pod("b")
    node.plan(a=6000)
    node.step()
    gone = CpuSet([0, 1, 2])
    if node.kernel.version == 2:  # v1 moves tasks out of groups that lose all their CPUs
        node.kernel.offline(gone)
        node.online -= gone
        status = node.step()
        assert states(status) == {"a": "Pending"}
        assert "2 of the cores granted are not to be had" in status.pods[0].reason
        node.kernel.online(gone)
        node.online |= gone
        for _ in range(5):
            status = node.step()
        assert states(status) == {"a": "Enforced"}


def test_memory_is_held_with_the_cores_and_put_back(node: Node) -> None:
    program = Memory(anonymous=100 * MIB, reclaimable=400 * MIB)
    node.start_pod("a", memory=program)
    files = {1: "memory.soft_limit_in_bytes", 2: "memory.high"}
    setting = Setting("memory", node.pod("a"), files[node.kernel.version])
    before = node.kernel.read(setting)
    node.plan(a=2000, memory=256 * MIB)
    for _ in range(120):
        status = node.step(2.0)
    assert states(status) == {"a": "Enforced"}, status.pods
    assert status.pods[0].memory == 256 * MIB
    assert node.kernel.read(setting) == str(256 * MIB)
    node.plan()
    for _ in range(60):
        node.step(2.0)
    assert node.kernel.read(setting) == before
    assert dict(node.journal.originals) == {}
    assert node.kernel.oom_kills == []


def test_agent_that_was_killed_goes_on_where_it_was(node: Node) -> None:
    for uid in "abc":
        node.start_pod(uid)
    node.plan(a=2000)
    node.step()
    mine = node.cpus(node.container("a"))
    node.start_agent()
    assert node.step() == NodeStatus(None, "observe")
    assert node.cpus(node.container("a")) == mine
    node.plan(a=2000)
    assert node.step().writes == ()


class Fuzz:
    """A node to which anything may happen."""

    def __init__(self, node: Node, seed: int) -> None:
        self.node, self.random = node, Random(seed)
        self.pods: dict[str, set[int]] = {}
        self.grants: dict[str, int] = {}
        self.count = 0
        self.crashes = 0

    def happen(self) -> None:
        happenings = [
            *[self.arrive] * 3,
            *[self.leave] * 2,
            *[self.regrant] * 4,
            *[self.container_comes] * 2,
            self.container_goes,
            *[self.drift] * 2,
            self.hotplug,
            self.refuse,
            self.stale,
            *[self.crash] * 2,
        ]
        self.random.choice(happenings)()

    def arrive(self) -> None:
        if len(self.pods) < 8:
            self.count += 1
            uid = f"p{self.count}"
            self.pods[uid] = {0}
            self.node.start_pod(uid)

    def leave(self) -> None:
        if self.pods:
            uid = self.random.choice(sorted(self.pods))
            del self.pods[uid]
            self.node.kernel.remove(self.node.pod(uid), while_open=self.random.random() < 0.3)

    def regrant(self) -> None:
        some = [uid for uid in sorted(self.pods) if self.random.random() < 0.5]
        self.grants = {uid: self.random.choice([300, 1000, 1500, 2000, 3000]) for uid in some}
        self.grants |= {"elsewhere": 1000} if self.random.random() < 0.1 else {}
        mode: Mode = "observe" if self.random.random() < 0.1 else "enforce"
        self.node.plan(mode, None, **self.grants)

    def container_comes(self) -> None:
        if self.pods:
            uid = self.random.choice(sorted(self.pods))
            number = self.random.randrange(1, 4)
            if number not in self.pods[uid]:
                self.pods[uid].add(number)
                self.node.start_pod(uid, number)

    def container_goes(self) -> None:
        several = [uid for uid in sorted(self.pods) if len(self.pods[uid]) > 1]
        if several:
            uid = self.random.choice(several)
            number = self.random.choice(sorted(self.pods[uid]))
            self.pods[uid].remove(number)
            self.node.kernel.remove(self.node.container(uid, number))

    def drift(self) -> None:
        names = sorted(self.node.everybody())
        if names:
            some = self.random.sample(sorted(self.node.online), self.random.randint(1, 3))
            setting = Setting("cpuset", self.random.choice(names), "cpuset.cpus")
            self.node.kernel.set_by_others(setting, str(CpuSet(some)))

    def hotplug(self) -> None:
        if self.node.kernel.version == 1:
            return  # it moves tasks out of the groups that lose all their CPUs
        cpu = CpuSet([self.random.randrange(CORES)])
        if cpu <= self.node.online and len(self.node.online) > 3:
            self.node.kernel.offline(cpu)
            self.node.online -= cpu
        elif not cpu <= self.node.online:
            self.node.kernel.online(cpu)
            self.node.online |= cpu

    def refuse(self) -> None:
        names = sorted(self.node.everybody())
        if names:
            number = self.random.choice([errno.EBUSY, errno.EINVAL, errno.EACCES, errno.ENOMEM])
            setting = Setting("cpuset", self.random.choice(names), "cpuset.cpus")
            self.node.kernel.fail(setting, number)

    def stale(self) -> None:
        if self.node.epoch > 1:
            assert not self.node.offer(self.node.epoch - 1, "enforce", p1=8000)

    def crash(self) -> None:
        self.crashes += 1
        self.node.kernel.stop_after(self.random.randrange(12))
        with contextlib.suppress(Stopped):
            self.node.step()
        self.node.kernel.go_on()
        self.node.start_agent()
        if self.node.epoch:
            self.node.plan("enforce", None, **self.grants)

    def check(self, status: NodeStatus) -> None:
        """Nobody is on a CPU that another has for itself, but who is said to have failed."""
        now = self.node.everybody()
        assert all(now.values()), "a container without CPUs"
        excused = set(status.failures)
        if status.mode != "enforce" or status.epoch is None:
            return
        for pod in status.pods:
            if pod.state != "Enforced" or pod.cpus is None:
                continue
            own = pod.cpus - status.shared
            mine = f"{self.node.pod(pod.pod)}/"
            for name, cpus in now.items():
                if name.startswith(mine):
                    assert cpus == pod.cpus, f"{pod.title} is said to be on {pod.cpus}"
                elif name not in excused:
                    assert not cpus & own, f"{name} is on {cpus & own}, which are {pod.title}'s"


@VERSIONS
def test_anything_may_happen_ten_thousand_times(version: Literal[1, 2], tmp_path: Path) -> None:
    fuzz = Fuzz(Node(ModelKernel(version, cpus=CORES), tmp_path), seed=version)
    enforced = 0
    for _ in range(5000):
        fuzz.happen()
        status = fuzz.node.step(seconds=fuzz.random.choice([0.1, 1.0, 30.0]))
        fuzz.check(status)
        enforced += any(pod.state == "Enforced" for pod in status.pods)
    assert enforced > 2000
    assert fuzz.crashes > 300
    fuzz.node.plan()
    for _ in range(20):
        status = fuzz.node.step(seconds=100.0)
    assert status.writes == ()
    assert dict(fuzz.node.journal.originals) == {}


def test_refusals_of_the_model_are_the_kernels() -> None:
    """The fuzz run above would prove nothing on a kernel that takes everything."""
    kernel = ModelKernel(1, cpus=2)
    kernel.make("/a/b", tasks=1)
    with pytest.raises(CgroupError, match="busy"):
        kernel.write(Setting("cpuset", "/a", "cpuset.cpus"), "0")
