"""All writes from what is to what is to be, checked by a kernel that minds its hierarchy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras_agent.cpuset import CpuSet
from walras_agent.moves import CPUS, Move, plan_moves
from walras_agent.node_plan import EnforcedGrant
from walras_agent.observe import Container, Group, ObservedPod
from walras_agent.pod_cpus import NodeCpus, allocate_cpus
from walras_agent.tree import CgroupFile

TOPOLOGY = machine(cores=6)


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def group(name: str, text: str) -> Group:
    return Group(name, cpus(text))


def pod(uid: str, *containers: Container) -> ObservedPod:
    return ObservedPod(uid, f"/{uid}", containers)


def granted(**millicores: int) -> NodeCpus:
    return allocate_cpus(
        TOPOLOGY,
        [EnforcedGrant(uid, uid, each, isolated=True) for uid, each in millicores.items()],
        {},
    )


def texts(moves: tuple[Move, ...]) -> list[str]:
    return [f"{setting.group}={value}" for move in moves for setting, value in move.writes]


def test_everybody_else_leaves_before_a_pod_owns_its_cores() -> None:
    pods = [
        pod("a", Container(group("/a/1", "0-5"))),
        pod("b", Container(group("/b/1", "0-5"))),
    ]
    moves = plan_moves(pods, granted(a=2000), {}, {}).moves
    assert texts(moves) == ["/a/1=0-1", "/b/1=2-5"]


def test_groups_inside_narrow_before_and_widen_after_their_container() -> None:
    inside = (group("/a/1/x", "0-5"), group("/a/1/x/y", "0-5"))
    pods = [pod("a", Container(group("/a/1", "0-5"), inside))]
    assert texts(plan_moves(pods, granted(a=2000), {}, {}).moves) == [
        "/a/1/x/y=0-1",
        "/a/1/x=0-1",
        "/a/1=0-1",
    ]
    inside = (group("/a/1/x", "0"), group("/a/1/x/y", "0"))
    pods = [pod("a", Container(group("/a/1", "0"), inside))]
    full = {CgroupFile("cpuset", each.name, CPUS): "0-5" for each in inside}
    assert texts(plan_moves(pods, granted(a=2000), full, {}).moves) == [
        "/a/1=0-1",
        "/a/1/x=0-1",
        "/a/1/x/y=0-1",
    ]


def test_group_inside_that_drifted_is_put_right() -> None:
    pods = [pod("a", Container(group("/a/1", "0-1"), (group("/a/1/x", "0"),)))]
    full = {CgroupFile("cpuset", "/a/1/x", CPUS): "0-5"}
    assert texts(plan_moves(pods, granted(a=2000), full, {}).moves) == ["/a/1/x=0-1"]


def test_nothing_is_written_where_all_is_as_it_should_be() -> None:
    pods = [
        pod("a", Container(group("/a/1", "0-1"))),
        pod("b", Container(group("/b/1", "2-5"))),
    ]
    assert plan_moves(pods, granted(a=2000), {}, {}).moves == ()


def test_container_that_cannot_be_moved_holds_up_only_who_wants_its_cpus() -> None:
    pods = [
        pod("a", Container(group("/a/1", "2-5"))),
        pod("b", Container(group("/b/1", "0-5"))),
        pod("c", Container(group("/c/1", "0-5"))),
    ]
    planned = plan_moves(pods, granted(a=2000), {}, {}, fixed={"/b/1"})
    assert texts(planned.moves) == ["/c/1=2-5"]
    assert planned.stuck == ("/a/1",)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[ObservedPod], NodeCpus]:
    """Pods whose containers have up to two groups inside, each within the one above it."""
    pods = []
    for uid in draw(st.sets(st.sampled_from("abcd"), min_size=1)):
        containers = []
        for number in range(draw(st.integers(1, 2))):
            held = draw(st.sets(st.integers(0, 5), min_size=1))
            top = Group(f"/{uid}/{number}", CpuSet(held))
            inside = []
            name = top.name
            for child in "xy"[: draw(st.integers(0, 2))]:
                name += f"/{child}"
                held = draw(st.sets(st.sampled_from(sorted(held)), min_size=1))
                inside.append(Group(name, CpuSet(held)))
            containers.append(Container(top, tuple(inside)))
        pods.append(ObservedPod(uid, f"/{uid}", tuple(containers)))
    amounts = draw(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4000)))
    return pods, granted(**amounts)


@pytest.mark.long
@given(nodes())
def test_every_write_is_one_that_the_kernel_takes(node: tuple[list[ObservedPod], NodeCpus]) -> None:
    pods, node_cpus = node
    planned = plan_moves(pods, node_cpus, {}, {})
    state = {
        each.name: each.cpus
        for one in pods
        for container in one.containers
        for each in (container.group, *container.inside)
    }
    for move in planned.moves:
        for setting, value in move.writes:
            written = CpuSet.parse(value)
            assert written, "ENOSPC"
            assert state[setting.group] != written, "a write for nothing"
            above = setting.group.rpartition("/")[0]
            if above in state:
                assert written <= state[above], "EACCES"
            for name, held in state.items():
                if name.rpartition("/")[0] == setting.group:
                    assert held <= written, "EBUSY"
            state[setting.group] = written
        assert state[move.container] == move.cpus
    for one in pods:
        for container in one.containers:
            if container.group.name not in planned.stuck:
                pod_cpus = node_cpus.pods.get(one.uid)
                assert state[container.group.name] == (
                    pod_cpus.cpus if pod_cpus else node_cpus.shared
                )
