"""Processes in the group that crun makes below a container's have what the pod is granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from model_kernel import MIB, Memory, ModelKernel
from model_node import Node, states
from walras_agent.observe import PodObserver, limited_groups
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from pathlib import Path

    from walras_agent.tree import Controller

UID = "p0"
QUOTA, LIMIT = "200000 100000", 256 * MIB


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A pod of which each group has the same quota and limit, down to one of the user's own."""
    node = Node(ModelKernel(2), tmp_path)
    node.kernel.make(inner(node), tasks=1, memory=Memory(anonymous=100 * MIB))
    node.kernel.make(f"{inner(node)}/users")
    for group in (node.pod(UID), node.container(UID), inner(node), f"{inner(node)}/users"):
        node.kernel.set_by_others(CgroupFile("cpu", group, "cpu.max"), QUOTA)
        node.kernel.set_by_others(CgroupFile("memory", group, "memory.max"), str(LIMIT))
    return node


def inner(node: Node) -> str:
    return f"{node.container(UID)}/container"


def texts(node: Node, controller: Controller, file: str) -> list[str]:
    """Return what a file says for the pod, its container, the subgroup, and the user's group."""
    groups = (node.pod(UID), node.container(UID), inner(node), f"{inner(node)}/users")
    return [node.kernel.read(CgroupFile(controller, group, file)) for group in groups]


def test_quotas_of_subgroups_are_lifted_and_restored(node: Node) -> None:
    node.plan(p0=4000)
    node.step()
    assert states(node.step()) == {UID: "Enforced"}
    assert texts(node, "cpu", "cpu.max") == ["max 100000"] * 3 + [QUOTA]
    assert node.step().writes == ()
    node.start_agent()
    node.plan()
    node.step()
    assert texts(node, "cpu", "cpu.max") == [QUOTA] * 4
    assert dict(node.journal.originals) == {}


def test_quotas_that_others_write_to_subgroups_are_repaired(node: Node) -> None:
    node.plan(p0=4000)
    node.step()
    node.kernel.set_by_others(CgroupFile("cpu", inner(node), "cpu.max"), "300000 100000")
    assert node.step().repaired == (node.pod(UID),)
    assert texts(node, "cpu", "cpu.max") == ["max 100000"] * 3 + [QUOTA]
    node.plan()
    node.step()
    assert texts(node, "cpu", "cpu.max") == [QUOTA, QUOTA, "300000 100000", QUOTA]


def test_memory_limits_of_subgroups_are_raised_and_restored(node: Node) -> None:
    node.plan(memory=1024 * MIB, p0=4000)
    node.step()
    assert states(node.step()) == {UID: "Enforced"}
    assert texts(node, "memory", "memory.max") == [str(1024 * MIB)] * 3 + [str(LIMIT)]
    program = node.kernel.memory_of(inner(node))
    program.growth = 60 * MIB
    for _ in range(6):
        node.step()
    program.growth = 0
    assert (program.anonymous, node.kernel.oom_kills) == (460 * MIB, [])
    node.plan()
    node.step(100.0)
    assert texts(node, "memory", "memory.max") == [str(1024 * MIB)] * 3 + [str(LIMIT)]
    program.anonymous = 100 * MIB
    for _ in range(10):
        node.step(100.0)
    assert texts(node, "memory", "memory.max") == [str(LIMIT)] * 4
    assert texts(node, "memory", "memory.high") == ["max"] * 4
    assert dict(node.journal.originals) == {}


def test_messages_name_the_container_of_a_subgroup(node: Node) -> None:
    node.plan(memory=512 * MIB, p0=4000)
    node.step()
    node.plan(memory=128 * MIB, p0=4000)
    reason = node.step(10.0).pods[0].reason
    name = node.container(UID).rpartition("/")[2]
    assert reason.count(f"container {name}") == 2
    assert "container container" not in reason


def test_demand_is_that_of_a_pod_without_a_subgroup(tmp_path: Path) -> None:
    demands = []
    for below in ("", "/container"):
        folder = tmp_path / f"node{below.strip('/')}"
        folder.mkdir()
        node = Node(ModelKernel(2), folder)
        program = Memory(anonymous=20 * MIB, hot=400 * MIB)
        node.kernel.make(node.container(UID) + below, tasks=1, memory=program)
        for group in {node.container(UID), node.container(UID) + below}:
            node.kernel.set_by_others(CgroupFile("memory", group, "memory.max"), str(LIMIT))
        node.plan(memory=LIMIT, p0=1000)
        demands.append([node.step(10.0).pods[0].demand for _ in range(10)])
    assert demands[0] == demands[1]
    assert (demands[0][-1] or 0) > LIMIT


def test_subgroup_that_ends_is_forgotten(node: Node) -> None:
    node.plan(memory=1024 * MIB, p0=4000)
    node.step()
    node.kernel.remove(inner(node))
    for _ in range(2):
        assert node.step().failures == ()
    assert {each.group for each in node.journal.originals if each.controller == "memory"} == {
        node.pod(UID),
        node.container(UID),
    }
    node.plan()
    for _ in range(10):
        node.step(100.0)
    assert dict(node.journal.originals) == {}


def test_groups_of_users_are_not_limited_groups(tmp_path: Path) -> None:
    """In v1, and below any other name, a group below a container's is its user's."""
    for version, below in ((1, "container"), (2, "docker"), (2, "docker/container")):
        folder = tmp_path / below.replace("/", "-")
        folder.mkdir(exist_ok=True)
        node = Node(ModelKernel(2 if version == 2 else 1), folder)
        node.kernel.make(f"{node.container(UID)}/{below}", tasks=1)
        (pod,) = PodObserver(node.kernel, node.agent.enforcer.observer.source).observe()
        assert limited_groups(node.kernel, pod) == (node.container(UID),)
