"""Walras on a node as production has them: systemd, cgroup v2, eight CPUs, two NUMA nodes.

One life in the order of the tests. The node is emulated, and so slow that its seconds mean nothing;
order, placement and the kernel's answers are real.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from cluster_tools import SYSTEM, ToolError, apply, get, helm, kubectl, pods
from installed import CHART, begin_programs, settings_of, withdraw
from shared_node import TEAMS, Shared, entitlement, job, values
from virtual_node import VirtualNode
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.vmnode

PATIENCE = 1800.0
"""Seconds: a pod needs minutes to begin there."""

PROFILES = "/apis/walras.dev/v1alpha1/namespaces/vision/speedupprofiles"


class Life:
    """Walras on the node, beside two teams' programs.

    Attributes:
        node: The node.
        shared: What the programs hold there.
        before: What Walras may change of each of the programs' containers, as it was before.
    """

    def __init__(self, folder: Path) -> None:
        self.node = VirtualNode()
        self.shared = Shared(self.node)
        begin_programs(self.shared, PATIENCE)
        self.before = self.settings()
        chosen = values(self.node)
        chosen["market"]["spec"]["cores"] = {"reservedCores": 1}
        chosen["market"]["spec"]["profiling"] = {"sampleSeconds": 5, "repeats": 1}
        chosen["operator"]["leaseSeconds"] = 60
        chosen["hooks"] |= {"installSeconds": 1500, "releaseSeconds": 1500}  # less than helm's
        (folder / "values.json").write_text(json.dumps(chosen))
        options = ("--create-namespace", "--values", str(folder / "values.json"))
        helm("install", "walras", CHART, *options, "--wait", "--timeout", "30m")
        apply(entitlement("vision", 2), entitlement("speech", 1))
        apply(unprofiled(job("vision", "train")), job("vision", "index"))
        apply(job("speech", "decode"), job("speech", "align"))

    def settings(self) -> dict[str, dict[str, str | None]]:
        return settings_of(self.node.cgroups)

    def settles(self) -> bool:
        """Wait until all grants of a plan hold, one of two whole cores at least among them."""

        def settled() -> bool:
            granted = self.shared.granted()
            return max(granted.values(), default=0) >= 2 and not self.shared.amiss()

        return eventually(settled, PATIENCE, pause=5)

    def told(self) -> str:
        """What was granted, what the kernel has, and how they differ."""
        return f"{self.shared.granted()} on {self.shared.cpus()}: {self.shared.amiss()}"

    def restarts(self) -> int:
        """How often the agent's container was started again."""
        (agent,) = pods(SYSTEM, "app.kubernetes.io/component=agent")
        (status,) = agent["status"]["containerStatuses"]
        return int(status["restartCount"])


def unprofiled(document: dict[str, Any]) -> dict[str, Any]:
    """A MarketJob that says nothing of its speedup."""
    spec = {field: each for field, each in document["spec"].items() if field != "parallelFraction"}
    return {**document, "spec": spec}


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    try:
        yield Life(tmp_path_factory.mktemp("vmnode"))
    finally:
        withdraw("15m")


def test_granted_cores_are_the_kernels(life: Life) -> None:
    assert life.settles(), life.told()
    granted, cpus = life.shared.granted(), life.shared.cpus()
    assert sum(granted.values()) <= life.node.cpus - 1
    assert life.shared.told() == cpus
    most = max(granted, key=granted.__getitem__)
    if granted[most] <= life.node.cpus / 2:
        halves = {cpu // (life.node.cpus // 2) for cpu in cpus[most]}
        assert len(halves) == 1, f"{most} has {cpus[most]}, of two NUMA nodes"


def test_a_pod_is_measured_online_and_its_agent_lives(life: Life) -> None:
    def measured() -> bool:
        found = get(f"{PROFILES}/train").get("status", {}).get("online", {})
        return bool(found.get("measurements"))

    assert eventually(measured, PATIENCE, pause=5), get(f"{PROFILES}/train")
    assert life.restarts() == 0
    assert life.settles(), life.told()


def test_a_changed_entitlement_moves_cores(life: Life) -> None:
    before = life.shared.cpus()
    apply(entitlement("vision", 1), entitlement("speech", 6))
    moved = lambda: life.shared.cpus() != before and not life.shared.amiss()  # noqa: E731
    assert eventually(moved, PATIENCE, pause=5), life.told()
    assert life.settles(), life.told()


def test_a_reloaded_systemd_and_a_killed_kubelet_move_no_core(life: Life) -> None:
    held = life.shared.cpus()
    life.node.shell("systemctl daemon-reload")
    life.node.restart("kubelet")
    heartbeat = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{life.node.name}"
    beaten = get(heartbeat)["spec"]["renewTime"]
    again = lambda: get(heartbeat)["spec"]["renewTime"] > beaten  # noqa: E731
    assert eventually(again, PATIENCE, pause=2)
    assert life.settles(), life.told()
    assert life.shared.cpus() == held
    assert life.restarts() == 0


def test_an_uninstall_puts_every_original_value_back(life: Life) -> None:
    helm("uninstall", "walras", "--wait", "--timeout", "30m")
    assert life.settings() == life.before
    assert all(pods(team) for team in TEAMS)
    with suppress(ToolError):
        kubectl("delete", "namespace", *TEAMS, "--wait=false")
