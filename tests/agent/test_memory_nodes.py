"""Pods take memory from the NUMA nodes of their cores when asked to, and never run dry by that."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine, show_memory
from model_kernel import MIB, Memory, ModelKernel, Stopped
from pod_groups import pod_group
from walras_agent.cpuset import CpuSet
from walras_agent.journal import Journal
from walras_agent.kubepods import Layout
from walras_agent.memory.numa import (
    BIND_HEADROOM,
    EFFECTIVE,
    MEMS,
    STAY_HEADROOM,
    NumaBinding,
    NumaEnforcer,
    local_nodes,
    reason_not_to_bind,
)
from walras_agent.node_plan import EnforcedGrant
from walras_agent.observe import PodObserver
from walras_agent.pod_cpus import allocate_cpus
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LAYOUT = Layout("cgroupfs")
BOTH = CpuSet([0, 1])


@dataclass
class Node:
    """A model kernel with two NUMA nodes, and the part of an agent that restricts pods to them."""

    kernel: ModelKernel
    folder: Path
    now: float = 1000.0
    wanted: dict[str, CpuSet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "boot_id").write_text("this boot\n")
        show_memory(self.folder, 64 << 10, 0, 1)
        self.kernel.make("/kubepods")
        self.start_agent()

    def start_agent(self) -> None:
        self.journal = Journal.open(self.folder / "journal", self.folder / "boot_id")
        self.keeper = NumaEnforcer(self.kernel, self.journal, self.folder)
        self.observer = PodObserver(self.kernel, LAYOUT)

    def container(self, uid: str, number: int = 0) -> str:
        return f"{pod_group(LAYOUT, uid)}/{uid.encode().hex():f>60}{number:04x}"

    def start(self, uid: str, number: int = 0, *, inside: str = "", mib: int = 0) -> None:
        group = self.container(uid, number) + inside
        self.kernel.make(group, tasks=1, memory=Memory(anonymous=mib * MIB))

    def step(self, **wanted: int) -> Mapping[str, NumaBinding]:
        self.now += 10.0
        self.wanted = {uid: CpuSet([node]) for uid, node in wanted.items()}
        return self.keeper.step(self.observer.observe(), self.wanted, self.now).pods

    def mems(self, group: str) -> CpuSet:
        file = EFFECTIVE[self.kernel.version]
        return CpuSet.parse(self.kernel.read(CgroupFile("cpuset", group, file)))

    def refusals(self) -> list[object]:
        return [write for write in self.kernel.writes if write.refused not in {None, errno.ENOSPC}]


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(ModelKernel(request.param, numa=2), tmp_path)


def isolated(**cores: int) -> list[EnforcedGrant]:
    return [EnforcedGrant(pod, pod, 1000 * each, isolated=True) for pod, each in cores.items()]


def test_nodes_are_those_of_the_cpus_that_a_pod_owns_or_of_its_domain() -> None:
    topology = machine(nodes=2, cores=12)
    grants = [*isolated(a=3, b=10), EnforcedGrant("c", "c", 500)]
    node_cpus = allocate_cpus(topology, grants, {}, shared_before={"c": CpuSet([20])})
    nodes = {"a": CpuSet([1]), "b": CpuSet([0]), "c": CpuSet([1])}
    assert local_nodes(node_cpus, topology) == nodes


def test_nodes_without_memory_are_left_out() -> None:
    topology = replace(machine(nodes=2, cores=4), memory=CpuSet([0]))
    node_cpus = allocate_cpus(topology, isolated(a=4, b=2), {})
    assert local_nodes(node_cpus, topology) == {"a": CpuSet([0])}
    split = allocate_cpus(topology, isolated(a=6), {})
    assert local_nodes(split, topology) == {"a": CpuSet([0])}


def test_pod_is_held_to_its_nodes_and_others_are_not_touched(node: Node) -> None:
    node.start("aa")
    node.start("bb")
    assert node.step(aa=1) == {"aa": NumaBinding(CpuSet([1]))}
    assert node.mems(node.container("aa")) == CpuSet([1])
    written = {write.setting.group for write in node.kernel.writes}
    assert written == {node.container("aa")}
    node.kernel.writes.clear()
    assert node.step(aa=1) == {"aa": NumaBinding(CpuSet([1]))}
    assert node.kernel.writes == []


def test_pod_follows_its_cores_to_another_node(node: Node) -> None:
    node.start("aa")
    node.step(aa=1)
    assert node.step(aa=0) == {"aa": NumaBinding(CpuSet([0]))}
    assert node.mems(node.container("aa")) == CpuSet([0])
    assert node.refusals() == []


def test_pod_is_let_go_when_nothing_is_wanted_of_it(node: Node) -> None:
    node.start("aa")
    node.step(aa=1)
    assert node.step() == {}
    assert node.mems(node.container("aa")) == BOTH
    assert dict(node.journal.originals) == {}


def test_what_was_set_before_is_put_back(node: Node) -> None:
    node.start("aa")
    setting = CgroupFile("cpuset", node.container("aa"), MEMS)
    node.kernel.set_by_others(setting, "0")
    node.step(aa=1)
    assert node.mems(node.container("aa")) == CpuSet([1])
    node.step()
    assert node.kernel.read(setting) == "0"


def test_groups_inside_a_container_follow_in_the_order_that_v1_demands(tmp_path: Path) -> None:
    node = Node(ModelKernel(1, numa=2), tmp_path)
    node.start("aa", inside="/docker/inner")
    inner = f"{node.container('aa')}/docker/inner"
    node.kernel.set_by_others(CgroupFile("cpuset", inner, MEMS), "0")
    for number in (1, 0, 1):
        assert node.step(aa=number) == {"aa": NumaBinding(CpuSet([number]))}
        assert node.mems(inner) == CpuSet([number])
    node.step()
    assert node.mems(inner) == CpuSet([0])
    assert node.mems(node.container("aa")) == BOTH
    assert node.refusals() == []


def test_machine_with_one_node_is_not_written_to(tmp_path: Path) -> None:
    node = Node(ModelKernel(2, numa=1), tmp_path)
    node.start("aa")
    assert node.step(aa=0) == {"aa": NumaBinding(CpuSet([0]))}
    assert node.kernel.writes == []


def test_pod_on_a_node_without_memory_is_left_alone(node: Node) -> None:
    node.start("aa")
    node.wanted = {"aa": CpuSet([2])}
    done = node.keeper.step(node.observer.observe(), node.wanted, node.now)
    assert done.pods["aa"].nodes is None
    assert "may not use memory of NUMA node 2" in done.pods["aa"].reason
    assert done.writes == []


def test_pod_waits_for_room_on_its_node(node: Node) -> None:
    """A full node has the kernel kill, however much memory is free on the other."""
    node.start("aa", mib=2000)
    show_memory(node.folder, 2000, 1)
    held = node.step(aa=1)["aa"]
    assert held.nodes is None
    assert held.reason == ("memory of NUMA node 1: 2Gi are available, but 2.5Gi are needed")
    assert node.kernel.writes == []
    show_memory(node.folder, 2000, 1, cached_mib=600)
    assert node.step(aa=1)["aa"].nodes == CpuSet([1])


def test_pod_is_not_held_to_a_node_of_which_nothing_is_told(node: Node) -> None:
    node.start("aa")
    (node.folder / "sys/devices/system/node/node1/meminfo").unlink()
    held = node.step(aa=1)["aa"]
    assert held.nodes is None
    assert held.reason.endswith(
        "meminfo cannot be read: No such file or directory; mount the host's /sys"
    )


def test_pod_is_let_go_before_its_node_is_full(node: Node) -> None:
    node.start("aa")
    node.step(aa=1)
    show_memory(node.folder, 200, 1)
    assert node.step(aa=1)["aa"].nodes == CpuSet([1])
    show_memory(node.folder, 100, 1)
    assert node.step(aa=1)["aa"].nodes is None
    assert node.mems(node.container("aa")) == BOTH


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_pod_that_was_let_in_is_not_sent_away_at_once(used: int, available: int) -> None:
    if not reason_not_to_bind(used, available, is_bound=False):
        assert not reason_not_to_bind(used, available - used, is_bound=True)
    assert STAY_HEADROOM < BIND_HEADROOM


def test_refusal_that_lasts_is_not_tried_all_the_time(node: Node) -> None:
    node.start("aa")
    node.start("aa", 1)
    refused = CgroupFile("cpuset", node.container("aa", 1), MEMS)
    node.kernel.fail(refused, errno.EINVAL, times=1000)
    for _ in range(60):
        held = node.step(aa=1)["aa"]
        assert held.nodes is None
        assert "Invalid argument" in held.reason or "waits before the next write" in held.reason
        assert node.mems(node.container("aa")) == CpuSet([1])
    tried = [write for write in node.kernel.writes if write.setting == refused]
    assert 3 <= len(tried) <= 12


def test_what_cannot_be_put_back_is_told_and_not_tried_all_the_time(node: Node) -> None:
    node.start("aa")
    node.step(aa=1)
    setting = CgroupFile("cpuset", node.container("aa"), MEMS)
    node.kernel.fail(setting, errno.EIO, times=1000)
    told = 0
    for _ in range(60):
        node.now += 10.0
        told += len(node.keeper.step(node.observer.observe(), {}, node.now).refused)
    assert 3 <= told <= 12
    assert node.mems(node.container("aa")) == CpuSet([1])
    assert set(node.journal.originals) == {setting}


def test_pod_that_goes_meanwhile_is_no_failure(node: Node) -> None:
    node.start("aa")
    pods = node.observer.observe()
    node.kernel.remove(pod_group(LAYOUT, "aa"))
    node.keeper.step(pods, {"aa": CpuSet([1])}, 0.0)
    node.step()
    assert dict(node.journal.originals) == {}


@pytest.mark.parametrize("version", [1, 2])
def test_stopped_before_any_write_all_is_put_back_later(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    for writes in range(8):
        folder = tmp_path / str(writes)
        folder.mkdir()
        node = Node(ModelKernel(version, numa=2), folder)
        node.start("aa", inside="/inner")
        node.start("aa", 1)
        node.kernel.stop_after(writes)
        stopped = False
        try:
            node.step(aa=1)
        except Stopped:
            stopped = True
        node.kernel.go_on()
        node.start_agent()
        node.step()
        for name in (
            node.container("aa"),
            f"{node.container('aa')}/inner",
            node.container("aa", 1),
        ):
            assert node.mems(name) == BOTH
        assert dict(node.journal.originals) == {}
        assert node.refusals() == []
        if not stopped:
            return
    pytest.fail("the agent never got to its end")
