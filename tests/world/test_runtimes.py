"""Container runtimes that put containers where the kubelet does not look for them.

The names are those of kubernetes issues 106514 and 36807, and of runc's ``libcontainer/cgroups``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walras_agent.daemon.node import HostPaths, NodeComponents
from walras_agent.daemon.report import ReconcileReport, status_of
from walras_agent.journal import Journal
from walras_agent.kubepods import Layout
from walras_agent.node_plan import NodePlan
from walras_agent.runtime_driver import LOOK_SECONDS, RuntimeDriver
from walras_agent.tree import CgroupTree

if TYPE_CHECKING:
    from pathlib import Path

POD = "kubepods-burstable-pod0d9c7e1e_52f0_4f3c_9f1a_6a1f0c9c7a55.slice"
SLICE = f"/kubepods.slice/kubepods-burstable.slice/{POD}"
ID = "4f1c" * 16

SERVICES = (
    "/system.slice/containerd.service",
    "/system.slice/kubelet.service",
    "/init.scope",
    "/user.slice/user-0.slice",
)


def tree(mount: Path, *groups: str) -> CgroupTree:
    for group in (*SERVICES, *groups):
        (mount / group.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (mount / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    return CgroupTree.at(mount)


@pytest.mark.parametrize(
    "stray",
    [
        f"/system.slice/containerd.service/{POD}:cri-containerd:{ID}",
        f"/{POD}:cri-containerd:{ID}",
        f"/{POD}/{ID}",
        f"/system.slice/docker.service/{POD}/{ID}",
        f"/system.slice/{POD}:cri-containerd:{ID}",
        f"/system.slice/k8s-containerd.service/kubelet-{POD}:cri-containerd:{ID}",
    ],
)
def test_a_runtime_with_another_driver_is_told_with_the_line_to_change(
    tmp_path: Path, stray: str
) -> None:
    seen = RuntimeDriver(tree(tmp_path, SLICE, stray), Layout("systemd")).conflict()
    assert stray.rpartition(f"/{ID}")[0] or stray in seen
    assert "SystemdCgroup = true" in seen
    assert "/etc/containerd/config.toml" in seen


@pytest.mark.parametrize(
    ("driver", "groups"),
    [
        ("systemd", (f"{SLICE}/cri-containerd-{ID}.scope",)),
        ("systemd", (SLICE,)),
        ("systemd", ("/kubepods/burstable",)),
        ("cgroupfs", ("/kubepods/burstable/pod1/a", f"/{POD}/{ID}")),
    ],
    ids=["the same driver", "a pod that starts", "left by another driver", "cgroupfs"],
)
def test_no_other_group_is_taken_for_one(
    tmp_path: Path, driver: str, groups: tuple[str, ...]
) -> None:
    layout = Layout("systemd" if driver == "systemd" else "cgroupfs")
    assert RuntimeDriver(tree(tmp_path, *groups), layout).conflict() == ""


def test_it_looks_again_after_a_while(tmp_path: Path) -> None:
    now = 0.0
    seen = RuntimeDriver(tree(tmp_path, SLICE), Layout("systemd"), clock=lambda: now)
    assert seen.conflict() == ""
    stray = tmp_path / f"{POD}:cri-containerd:{ID}"
    stray.mkdir()
    assert seen.conflict() == ""
    now += LOOK_SECONDS
    assert seen.conflict()
    stray.rmdir()
    now += LOOK_SECONDS
    assert seen.conflict() == ""


@pytest.mark.system
def test_the_node_is_not_ready_meanwhile(tmp_path: Path) -> None:
    """Before, its grants were Absent, and the node Ready: "1 grants enforced"."""
    tree(tmp_path, SLICE, f"/system.slice/containerd.service/{POD}:cri-containerd:{ID}")
    (tmp_path / "kubepods.slice/cpuset.cpus.effective").write_text("0-1023\n")
    node = NodeComponents.open(HostPaths(tmp_path), Journal.in_memory())
    node.reconciler.offer(NodePlan(1, "enforce", ()))
    status = node.reconciler.step(0.0)
    report = ReconcileReport(node=status, seconds=0.0, topology=node.topology())
    (ready,) = (
        each
        for each in status_of(report, "2026-01-01T00:00:00Z").conditions
        if each.type == "Ready"
    )
    assert (ready.status, ready.reason) == ("False", "Refused")
    assert "SystemdCgroup = true" in ready.message
