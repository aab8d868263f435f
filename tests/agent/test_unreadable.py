"""What a container makes of its own cgroup, or a kernel that fails, costs that container only."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from model_kernel import ModelKernel
from model_node import CORES, CpusetDisabled, Node, states
from walras_agent.kubepods import Layout
from walras_agent.observe import EFFECTIVE
from walras_agent.own_group import find_unwritable_group
from walras_agent.tree import CONTROLLERS, DEEPEST, CgroupError, CgroupFile, CgroupTree, descendants

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(ModelKernel(request.param, cpus=CORES), tmp_path, owning=".*")


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ENOMEM])
def test_a_container_that_cannot_be_read_fails_and_the_others_go_on(
    number: int, node: Node
) -> None:
    for uid in ("a", "b", "c"):
        node.start_pod(uid)
    node.plan(a=1000, b=2000)
    assert states(node.step()) == {"a": "Enforced", "b": "Enforced"}
    was = node.cpus(node.container("b"))
    file = EFFECTIVE[node.kernel.version]
    node.kernel.fail(CgroupFile("cpuset", node.container("b"), file), number, 1000, on="read")
    for restart in (False, True):
        if restart:
            node.start_agent()
        node.start_pod("a", number=1 + restart)
        node.plan(a=3000, b=2000)
        status = node.step()
        assert states(status) == {"a": "Enforced", "b": "Failed"}
        assert os.strerror(number) in status.pods[1].reason
        mine = node.cpus(node.container("a"))
        assert len(mine) == 3
        assert node.cpus(node.container("a", 1 + restart)) == mine, "new ones are confined"
        node.kernel.heal()
        assert node.cpus(node.container("b")) == was, "it stays where it is"
        assert not mine & was, "so nobody gets its CPUs"
        node.kernel.fail(CgroupFile("cpuset", node.container("b"), file), number, 1000, on="read")
    node.kernel.heal()
    node.plan(a=3000, b=1000)
    assert states(node.step()) == {"a": "Enforced", "b": "Enforced"}
    assert len(node.cpus(node.container("b"))) == 1


def test_nobody_gets_cpus_that_a_container_may_still_use(node: Node) -> None:
    for uid in ("a", "b"):
        node.start_pod(uid)
    node.plan(a=1000, b=6000)
    node.step()
    was = node.cpus(node.container("b"))
    file = EFFECTIVE[node.kernel.version]
    setting = CgroupFile("cpuset", node.container("b"), file)
    for restart in (False, True):
        if restart:
            node.start_agent()
        node.plan(a=6000, b=1000)
        node.kernel.fail(setting, errno.EACCES, 1000, on="read")
        assert states(node.step(100.0)) == {"a": "Pending", "b": "Failed"}
        node.kernel.heal()
        assert not node.cpus(node.container("a")) & was
        assert node.cpus(node.container("b")) == was
    assert states(node.step(100.0)) == {"a": "Enforced", "b": "Enforced"}


def test_a_pod_whose_groups_cannot_be_listed_ends_no_grant(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start_pod("a")
    node.plan(a=1000)
    node.step()
    before, listed = node.everybody(), node.kernel.children

    def failing(group: str) -> tuple[str, ...]:
        if group == node.pod("a"):
            raise CgroupError(CgroupFile("cpuset", group, "."), errno.EIO)
        return listed(group)

    with monkeypatch.context() as patch:
        patch.setattr(node.kernel, "children", failing)
        status = node.step()
        assert "Input/output error" in status.refused
        assert status.writes == ()
    assert node.everybody() == before
    assert states(node.step()) == {"a": "Enforced"}


def test_one_pass_enables_the_controller_for_all_pods(tmp_path: Path) -> None:
    kernel = CpusetDisabled(2, cpus=CORES)
    node = Node(kernel, tmp_path, owning=".*")
    pods = [f"p{number}" for number in range(40)]
    for uid in pods:
        node.start_pod(uid)
    node.plan(p0=2000)
    node.step()
    kernel.disable()
    status = node.step()
    assert status.refused == ""
    assert states(status) == {"p0": "Enforced"}
    mine = node.cpus(node.container("p0"))
    assert not any(node.cpus(node.container(uid)) & mine for uid in pods[1:])


def test_a_deep_tree_of_cgroups_is_not_followed_to_its_end(tmp_path: Path) -> None:
    """A container may make one where it can write its cgroups, and hide what is in it."""
    top = tmp_path / "kubepods/podx/c"
    top.mkdir(parents=True)
    levels = 1100  # more than Python calls within each other
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        here = _entered(here, "d")
    tree = CgroupTree(2, dict.fromkeys(CONTROLLERS, str(tmp_path)))
    try:
        assert len(list(descendants(tree, "/kubepods/podx/c"))) == DEEPEST
        assert find_unwritable_group(tree, Layout("cgroupfs")) is None
    finally:  # pytest removes no such tree
        for _ in range(levels):
            here = _entered(here, "..")
            os.rmdir("d", dir_fd=here)
        os.close(here)


def _entered(folder: int, name: str) -> int:
    """Return the descriptor of a folder in a folder, which is closed."""
    found = os.open(name, os.O_RDONLY, dir_fd=folder)
    os.close(folder)
    return found


def test_a_container_with_a_deep_tree_fails_alone(node: Node) -> None:
    """In v1, and in v2 before Linux 6.1, it cannot be narrowed below its deepest groups."""
    node.start_pod("a")
    node.start_pod("b")
    node.kernel.make(node.container("a") + "/d" * (DEEPEST + 1), cpus=f"0-{CORES - 1}")
    node.plan(a=1000, b=2000)
    status = node.step()
    assert states(status)["b"] == "Enforced"
    assert len(node.cpus(node.container("b"))) == 2
    narrowed = len(node.cpus(node.container("a"))) == 1
    assert states(status)["a"] == ("Enforced" if narrowed else "Pending")
    assert narrowed is (node.kernel.version == 2)
