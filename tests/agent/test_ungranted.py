"""Containers without a grant keep the CPUs that others gave them, but those that pods own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from model_kernel import ModelKernel
from model_node import Node
from walras_agent.cpuset import CpuSet
from walras_agent.moves import CPUS
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from pathlib import Path

ISOLATED = CpuSet([4, 5])


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    """Three pods: `p0`, `d0`, and `r0`, which its runtime confined to CPU 7."""
    node = Node(ModelKernel(request.param), tmp_path, isolated=ISOLATED, owning=".*")
    for uid in ("d0", "p0"):
        node.start_pod(uid)
    node.kernel.make(node.container("r0"), tasks=1, cpus="7")
    return node


def settle(node: Node) -> dict[str, str]:
    """Let the agent do its work; return the CPUs of every pod."""
    for _ in range(4):
        status = node.step(100.0)
    assert (status.writes, status.repaired, status.failures) == ((), (), ())
    return {uid: str(node.cpus(node.container(uid))) for uid in ("d0", "p0", "r0")}


def write(node: Node, uid: str, cpus: str) -> None:
    node.kernel.set_by_others(CgroupFile("cpuset", node.container(uid), CPUS), cpus)


def test_isolated_cpus_and_confinement_are_kept(node: Node) -> None:
    node.plan(p0=2000)
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "7"}
    writes = [write.setting.group for write in node.kernel.writes]
    assert node.container("r0") not in writes
    node.start_agent()
    node.plan(p0=2000)
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "7"}
    node.plan()
    assert settle(node) == {"d0": "0-7", "p0": "0-7", "r0": "7"}


def test_who_shares_a_domain_takes_nothing_from_others(node: Node) -> None:
    node.owning = ""
    node.plan(p0=2000)
    assert settle(node) == {"d0": "0-7", "p0": "0-3,6-7", "r0": "7"}


def test_a_granted_pod_leaves_isolated_cpus_and_has_them_again(node: Node) -> None:
    node.plan(p0=2000, d0=1000)
    assert settle(node) == {"d0": "2", "p0": "0-1", "r0": "7"}
    node.plan(p0=2000)
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "7"}


def test_a_container_whose_cpus_are_all_owned_is_on_the_shared_ones_meanwhile(node: Node) -> None:
    write(node, "r0", "0-1")
    node.plan(p0=1000)
    assert settle(node) == {"d0": "1-7", "p0": "0", "r0": "1"}
    node.plan(p0=2000)
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "2-3,6-7"}
    node.plan(p0=1000)
    assert settle(node) == {"d0": "1-7", "p0": "0", "r0": "1"}
    node.plan()
    assert settle(node) == {"d0": "0-7", "p0": "0-7", "r0": "0-1"}


def test_what_others_write_is_kept_unless_a_pod_owns_it(node: Node) -> None:
    node.plan(p0=2000)
    settle(node)
    write(node, "r0", "6-7")
    assert node.step(100.0).repaired == ()
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "6-7"}
    write(node, "r0", "0-6")
    assert node.step(100.0).repaired == (node.container("r0"),)
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "2-6"}
    node.plan(p0=1000)
    assert settle(node) == {"d0": "1-7", "p0": "0", "r0": "1-6"}
    node.plan()
    assert settle(node) == {"d0": "0-7", "p0": "0-7", "r0": "0-6"}


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_that_others_confine_later_stays_so(
    version: Literal[1, 2], tmp_path: Path
) -> None:
    node = Node(ModelKernel(version), tmp_path, isolated=ISOLATED, owning=".*")
    for uid in ("d0", "p0", "r0"):
        node.start_pod(uid)
    node.plan(p0=2000)
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "2-7"}
    write(node, "r0", "3,5")
    for _ in range(2):
        assert node.step(100.0).repaired == ()
        assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "3,5"}
        node.start_agent()
        node.plan(p0=2000)
    node.plan()
    assert settle(node) == {"d0": "0-7", "p0": "0-7", "r0": "3,5"}


def test_confinement_outlives_the_cpus_that_go_offline(tmp_path: Path) -> None:
    """In v2 a container without any CPU that is online may use all CPUs of the group above it."""
    node = Node(ModelKernel(2), tmp_path, isolated=ISOLATED, owning=".*")
    for uid in ("d0", "p0"):
        node.start_pod(uid)
    node.kernel.make(node.container("r0"), tasks=1, cpus="5,7")
    everything = node.online
    node.plan(p0=2000)
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "5,7"}
    for gone in ([5], [5, 7]):
        node.kernel.offline(gone[-1:])
        node.online -= CpuSet(gone)
        expected = {"d0": str(CpuSet(range(2, 8)) - CpuSet(gone)), "p0": "0-1"}
        assert settle(node) == expected | {"r0": "7" if gone == [5] else "2-3,6"}
    node.kernel.online([5, 7])
    node.online = everything
    assert settle(node) == {"d0": "2-7", "p0": "0-1", "r0": "5,7"}


def test_groups_above_that_confine_pods_are_not_widened(node: Node) -> None:
    above = node.pod("b1").rpartition("/")[0]
    node.kernel.make(above, cpus="0,2,6-7")
    node.start_pod("b1")
    node.plan(p0=2000)
    settle(node)
    assert str(node.cpus(node.container("b1"))) == "2,6-7"
    assert node.kernel.read(CgroupFile("cpuset", above, CPUS)) == "0,2,6-7"


def test_a_new_container_is_confined_to_what_no_pod_owns(node: Node) -> None:
    node.plan(p0=2000)
    settle(node)
    node.start_pod("d1")
    node.kernel.make(node.container("r1"), tasks=1, cpus="1-2,5")
    settle(node)
    assert str(node.cpus(node.container("d1"))) == "2-7"
    assert str(node.cpus(node.container("r1"))) == "2,5"


def test_another_container_of_the_same_name_is_not_confined_as_the_first(node: Node) -> None:
    write(node, "r0", "0,7")
    node.plan(p0=2000)
    assert settle(node)["r0"] == "7"
    node.kernel.remove(node.container("r0"))
    node.start_pod("r0")
    assert settle(node)["r0"] == "2-7"


def test_while_nothing_changes_no_cpuset_list_is_read(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.plan(p0=2000)
    settle(node)
    read, files = node.kernel.read, []

    def noting(file: CgroupFile) -> str:
        files.append((file.group, file.file))
        return read(file)

    monkeypatch.setattr(node.kernel, "read", noting)
    node.step()
    assert files
    assert [group for group, file in files if file == CPUS and group != "/"] == []
