"""The loop: whatever happens to a node between two looks, it comes back to its plan."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from model_files import Refused
from model_kernel import MIB, Memory, ModelKernel
from model_node import CORES, Node, states
from walras_agent.cpuset import CpuSet
from walras_agent.memory.limit_steps import ReclaimPace
from walras_agent.node_plan import EnforcedGrant, NodePlan
from walras_agent.status import NodeStatus
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(ModelKernel(request.param, cpus=CORES), tmp_path, owning=".*")


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
    assert status.pods[0].sockets == (0,)
    assert status.pods[1].sockets is None
    assert node.cpus(node.container("b")) == status.shared
    assert status.is_enforced
    assert node.step().writes == ()


def test_plan_of_an_older_epoch_is_ignored(node: Node) -> None:
    node.start_pod("a")
    node.offer(7, "enforce", a=2000)
    node.step()
    assert not node.offer(6, "enforce", a=1000)
    assert len(node.cpus(node.container("a"))) == 2
    assert node.step().epoch == 7


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
    assert [pod.state for pod in status.pods] == ["Enforced"]
    assert node.step().mode == "observe"
    assert dict(node.journal.originals) == {}


def test_preview_is_what_a_step_then_does(node: Node) -> None:
    node.start_pod("a", memory=Memory(anonymous=100 * MIB, reclaimable=400 * MIB))
    node.start_pod("b")
    plan = NodePlan(1, "observe", (EnforcedGrant("a", "default/a", 2000, 1 << 28, isolated=True),))
    shown = node.agent.preview(plan, node.now)
    assert node.kernel.writes == []
    assert dict(node.journal.originals) == {}
    node.agent.offer(replace(plan, mode="enforce"))
    node.step()
    made = node.step(ReclaimPace().pause)
    assert [pod.cpus for pod in made.pods] == [pod.cpus for pod in shown.pods]
    assert [(write.setting, write.value) for write in node.kernel.writes] == [*shown.writes]
    assert {setting.controller for setting, _ in shown.writes} == {"cpu", "cpuset", "memory"}


def test_drift_is_put_right_at_once_and_then_ever_more_slowly(node: Node) -> None:
    """Two writers flip-flopped cpusets (koordinator 1214)."""
    node.start_pod("a")
    node.start_pod("b")
    node.plan(a=2000)
    shared = node.step().shared
    name = node.container("b")
    repairs = 0
    for _ in range(100):
        node.kernel.set_by_others(CgroupFile("cpuset", name, "cpuset.cpus"), "0-7")
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
    setting = CgroupFile("cpuset", node.container("a"), "cpuset.cpus")
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


def test_container_that_is_busy_is_not_tried_all_the_time(node: Node) -> None:
    """EBUSY: a retry may help, but each is a write to every container in question."""
    for uid in "ab":
        node.start_pod(uid)
    busy = CgroupFile("cpuset", node.container("b"), "cpuset.cpus")
    node.kernel.fail(busy, errno.EBUSY, times=12)
    node.plan(a=2000)
    for _ in range(120):
        status = node.step(0.25)
        assert [each.group for each in status.failures] == [busy.group]
    assert 4 <= sum(write.setting == busy for write in node.kernel.writes) < 12
    for _ in range(12):
        status = node.step(100.0)
    assert status.is_enforced
    assert not node.cpus(node.container("a")) & node.cpus(node.container("b"))


def test_offline_cpus_are_made_up_for_and_taken_back(tmp_path: Path) -> None:
    """On version 2: version 1 moves tasks out of groups that lose all their CPUs."""
    node = Node(ModelKernel(2, cpus=CORES), tmp_path, owning=".*")
    node.start_pod("a")
    node.start_pod("b")
    node.plan(a=6000)
    node.step()
    gone = CpuSet([0, 1, 2])
    node.kernel.offline(gone)
    node.online -= gone
    status = node.step()
    assert states(status) == {"a": "Pending"}
    assert "2 of the granted cores cannot be its own" in status.pods[0].reason
    node.kernel.online(gone)
    node.online |= gone
    for _ in range(5):
        status = node.step()
    assert states(status) == {"a": "Enforced"}


def test_memory_is_held_with_the_cores_and_put_back(node: Node) -> None:
    program = Memory(anonymous=100 * MIB, reclaimable=400 * MIB)
    node.start_pod("a", memory=program)
    files = {1: "memory.soft_limit_in_bytes", 2: "memory.high"}
    setting = CgroupFile("memory", node.pod("a"), files[node.kernel.version])
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


def test_memory_that_the_kernel_cannot_reclaim_yet_is_pending_and_taken_later(
    node: Node,
) -> None:
    """Dirty pages and `memory.min`: EAGAIN in v2 (cgroup-v2.rst, memory.reclaim), EBUSY in v1."""
    cache, grant = 800 * MIB, 512 * MIB
    node.start_pod("a", memory=Memory(anonymous=100 * MIB, reclaimable=cache))
    v1 = node.kernel.version == 1
    reclaim = "memory.limit_in_bytes" if v1 else "memory.reclaim"
    soft = "memory.soft_limit_in_bytes" if v1 else "memory.high"
    node.plan(memory=grant, a=1000)
    node.step(3)
    written = CgroupFile("memory", node.pod("a"), reclaim)
    for _ in range(4):
        # v1 takes the first write, and refuses the one below its usage.
        node.kernel.fail(written, errno.EBUSY if v1 else errno.EAGAIN)
        status = node.step(3)
        assert states(status) == {"a": "Pending"}, status.pods[0].reason
        assert status.failures == ()
        limit = int(node.kernel.read(CgroupFile("memory", node.pod("a"), soft)))
        assert limit == 900 * MIB, "no less than it uses, which would slow it down"
        assert node.kernel.memory_of(node.container("a")).reclaimable == cache
    for _ in range(8):
        status = node.step(3)
    assert states(status) == {"a": "Enforced"}
    node.plan()
    node.step(3)
    assert dict(node.journal.originals) == {}


def test_a_limit_that_others_lower_below_the_usage_is_theirs(node: Node) -> None:
    """The kernel of v2 kills at their write, which no agent can prevent; v1 refuses it."""
    file = {1: "memory.limit_in_bytes", 2: "memory.max"}[node.kernel.version]
    node.start_pod("a", memory=Memory(anonymous=100 * MIB))
    limit = CgroupFile("memory", node.pod("a"), file)
    node.kernel.set_by_others(limit, str(300 * MIB))
    node.plan(a=1000, memory=800 * MIB)
    node.step()
    assert int(node.kernel.read(limit)) == 800 * MIB
    node.kernel.memory_of(node.container("a")).anonymous = 500 * MIB
    with suppress(Refused):
        node.kernel.set_by_others(limit, str(300 * MIB))
    killed = list(node.kernel.oom_kills)
    assert bool(killed) is (node.kernel.version == 2)
    node.step()
    assert int(node.kernel.read(limit)) == 800 * MIB, "raised again"
    node.kernel.memory_of(node.container("a")).anonymous = 500 * MIB
    node.plan()
    for _ in range(10):
        node.step(100.0)
        assert int(node.kernel.read(limit)) == 800 * MIB
    node.kernel.memory_of(node.container("a")).anonymous = 100 * MIB
    for _ in range(10):
        node.step(100.0)
    assert int(node.kernel.read(limit)) == 300 * MIB
    assert node.kernel.oom_kills == killed, "none by the agent"


def test_a_hard_limit_is_not_put_back_while_the_kernel_cannot_make_room(tmp_path: Path) -> None:
    node = Node(ModelKernel(2), tmp_path)
    hard = CgroupFile("memory", node.pod("a"), "memory.max")
    node.start_pod("a", memory=Memory(anonymous=100 * MIB, reclaimable=295 * MIB))
    for group in (node.pod("a"), node.container("a")):
        node.kernel.set_by_others(hard._replace(group=group), str(400 * MIB))
    node.plan(memory=800 * MIB, a=1000)
    node.step(3)
    node.plan(memory=None, a=1000)
    for group in (node.pod("a"), node.container("a")):
        node.kernel.fail(CgroupFile("memory", group, "memory.reclaim"), errno.EAGAIN, times=100)
    for _ in range(40):
        node.step(3)
        assert int(node.kernel.read(hard)) == 800 * MIB


def test_a_grant_of_next_to_no_memory_ends_neither_agent_nor_pod(node: Node) -> None:
    node.start_pod("a", memory=Memory(anonymous=10 * MIB))
    node.plan(a=2000, memory=4096)
    for _ in range(60):
        status = node.step(2.0)
    assert states(status) in ({"a": "Enforced"}, {"a": "Pending"})
    assert len(node.cpus(node.container("a"))) == 2
    assert node.kernel.oom_kills == []


def test_originals_of_pods_that_have_ended_do_not_pile_up(node: Node) -> None:
    node.start_pod("a")
    node.plan(a=2000)
    for number in range(200):
        node.start_pod(f"p{number}")
        node.step(10.0)
        node.kernel.remove(node.pod(f"p{number}"))
    node.step(10.0)
    assert len(node.journal.originals) < 100
    node.plan()
    node.step()
    assert dict(node.journal.originals) == {}


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


@pytest.mark.parametrize("owning", ["a", ""])
def test_limited_pod_owns_the_cores_that_it_does_not_use(node: Node, owning: str) -> None:
    """While its speedup is measured nobody else may come onto them."""
    node.owning = owning
    for uid in "abc":
        node.start_pod(uid)
    node.plan(a=4000, b=1000)
    before = node.step().pods[0]
    own = node.step(a=4).pods[0].exclusive
    assert len(own) == 4
    for count in (1, 3, 2):
        status = node.step(a=count)
        assert status.pods[0].limit == count
        assert status.pods[0].exclusive == own
        assert node.cpus(node.container("a")) == status.pods[0].cpus
        assert len(status.pods[0].cpus) == count
        assert states(status) == {"a": "Enforced", "b": "Enforced"}
        for uid in "bc":
            assert not node.cpus(node.container(uid)) & own
        assert status.repaired == ()
    assert replace(node.step().pods[0], used=None) == before
    assert node.cpus(node.container("a")) == (own if owning else CpuSet(range(CORES)))


def test_a_pod_of_half_a_core_is_measured_on_two(node: Node) -> None:
    node.owning = ""
    node.start_pod("a")
    node.start_pod("b")
    node.plan(a=500, b=2000)
    before = node.everybody()
    status = node.step(a=1 << 16)
    assert (status.pods[0].limit, len(status.pods[0].exclusive)) == (2, 2)
    assert status.pods[1].cpus == status.shared == CpuSet(range(2, CORES))
    node.step()
    assert node.everybody() == before


def test_limited_pod_with_a_fraction_is_as_fast_as_its_whole_cores(node: Node) -> None:
    node.start_pod("a")
    node.plan(a=2500)
    held = node.step().pods[0].cpus
    status = node.step(a=2)
    assert (status.pods[0].cpus, status.pods[0].limit) == (status.pods[0].exclusive, 2)
    assert node.step().pods[0].cpus == held


def test_limit_counts_only_once_the_kernel_has_it(node: Node) -> None:
    node.start_pod("a")
    node.plan(a=3000)
    node.step()
    setting = CgroupFile("cpuset", node.container("a"), "cpuset.cpus")
    node.kernel.fail(setting, errno.EINVAL)
    status = node.step(a=1)
    assert (states(status), status.pods[0].limit) == ({"a": "Failed"}, None)
    status = node.step(10.0, a=1)
    assert (states(status), status.pods[0].limit) == ({"a": "Enforced"}, 1)


def shown(node: Node, seconds: float = 10.0, steps: int = 1, **used: float) -> list[float | None]:
    """Return the use of the pod a that statuses show while pods use so many CPUs."""
    node.use(**used)
    return [node.step(seconds).pods[0].used for _ in range(steps)]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_what_pods_use_is_shown_when_it_changes_visibly_and_once_a_minute(
    node: Node, mode: Literal["enforce", "observe"]
) -> None:
    node.start_pod("a")
    node.start_pod("b")
    node.offer(1, mode, a=2000)
    assert node.step().pods[0].used is None
    first = shown(node, a=1.5, steps=6)
    assert first[0] == pytest.approx(1.5, abs=0.01)
    assert len(set(first)) == 1
    assert set(shown(node, a=1.54, steps=20)) == {first[0]}, "which nobody would notice"
    falls = shown(node, a=0.75, steps=20)
    assert len(set(falls)) <= 3, "it changed more than once a minute"
    assert falls[-1] == pytest.approx(0.75, abs=0.01)
    assert set(shown(node, a=0.75, steps=30)) == {falls[-1]}
    assert shown(node, b=1.0, steps=13)[-1] == 0.0
