"""A market of two nodes at once, of both cgroup versions: users trade cores across nodes.

The real node is this machine (cgroup v1, cgroupfs); the other one is emulated (cgroup v2, systemd,
eight CPUs). One core of each stays shared, so one and seven are sold. Ann's program on the large
node is parallel, and Bob's on the small one, so each gains by giving up cores where the other can
use them (section V of the Amdahl paper).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cluster_tools import SYSTEM, Node, apply, containers, get, helm, kubectl, pods, ready
from installed import CHART, IMAGE, PARTS, withdraw
from node_watcher import ALLOCATIONS
from shared_node import deployment, entitlement, job, namespace, own_cpus, values
from virtual_node import VirtualNode
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster_tools import Document

pytestmark = pytest.mark.two_nodes

PATIENCE = 1800.0
"""Seconds: a pod needs minutes to begin on the emulated node."""

PARALLEL, SERIAL = "0.99", "0.5"
HOST = "kubernetes.io/hostname"


class Cluster:
    """Walras on both nodes.

    Attributes:
        real: This machine.
        virtual: The emulated machine.
        before: Values that Walras may change, by node and program, before it was installed.
    """

    def __init__(self, folder: Path) -> None:
        self.virtual = VirtualNode()
        self.real = Node(without=self.virtual.name)
        for archive in PARTS:
            self.real.load(archive)
        apply(namespace("ann"), namespace("bob"))
        for team in ("ann", "bob"):
            for node in self.nodes:
                apply(pinned(team, node.name))
        assert eventually(lambda: len(self.groups()) == 4, PATIENCE, pause=2)
        self.before = self.settings()
        chosen = values(self.real)
        here = {HOST: self.real.name}
        chosen["market"]["spec"]["cores"] = {"reservedCores": 1, "isolated": True}
        chosen["operator"] |= {"leaseSeconds": 60, "nodeSelector": here}
        # Each kubelet is elsewhere; the agent finds it by its process.
        chosen["agent"] |= {"kubelet": {"folder": ""}, "profiling": {"files": True}}
        chosen["hooks"] |= {"installSeconds": 1500, "releaseSeconds": 1500, "nodeSelector": here}
        (folder / "values.json").write_text(json.dumps(chosen))
        options = ("--create-namespace", "--values", str(folder / "values.json"))
        helm("install", "walras", CHART, *options, "--wait", "--timeout", "30m")
        apply(entitlement("ann", 1), entitlement("bob", 1))
        for team, parallel_on in (("ann", self.virtual.name), ("bob", self.real.name)):
            for node in self.nodes:
                fraction = PARALLEL if node.name == parallel_on else SERIAL
                document = job(team, on(node.name))
                document["spec"]["parallelFraction"] = fraction
                apply(document)

    @property
    def nodes(self) -> tuple[Node | VirtualNode, ...]:
        return self.real, self.virtual

    def groups(self) -> dict[tuple[str, str], str]:
        """The cgroup of each running program, by node and team."""
        found = {}
        for node in self.nodes:
            there = node.cgroups.containers()
            for team in ("ann", "bob"):
                for pod in pods(team, f"app={on(node.name)}"):
                    for container in containers(pod):
                        if container in there:
                            found[node.name, team] = there[container]
        return found

    def settings(self) -> dict[tuple[str, str], dict[str, str | None]]:
        groups = self.groups()
        return {
            (node.name, team): node.cgroups.settings(groups[node.name, team])
            for node in self.nodes
            for team in ("ann", "bob")
        }

    def cpus(self, node: Node | VirtualNode) -> dict[str, frozenset[int]]:
        """The CPUs of each team's program on a node."""
        return {
            team: node.cgroups.cpus(group) or frozenset()
            for (name, team), group in self.groups().items()
            if name == node.name
        }

    def own(self, node: Node | VirtualNode) -> dict[str, frozenset[int]]:
        """The CPUs on a node that only one team's program uses."""
        return own_cpus(self.cpus(node))

    def enforced(self) -> bool:
        """Whether both agents enforce the plan of their node."""
        found = [get(f"{ALLOCATIONS}/{node.name}") for node in self.nodes]
        return all(
            each and ready(each) and each["status"].get("enforcedEpoch") == each["spec"]["epoch"]
            for each in found
        )


def on(node: str) -> str:
    return f"on-{node}"


def pinned(team: str, node: str) -> Document:
    document = deployment(team, on(node), IMAGE)
    document["spec"]["template"]["spec"]["nodeSelector"] = {HOST: node}
    return document


def outcome(team: str, node: str) -> dict[str, Any]:
    """Return the status of a team's program on a node."""
    path = f"/apis/walras.dev/v1alpha1/namespaces/{team}/marketjobs/{on(node)}"
    found = get(path).get("status", {}).get("pods", [])
    return found[0] if found else {}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        yield Cluster(tmp_path_factory.mktemp("two"))
    finally:
        withdraw("15m")
        kubectl("delete", "namespace", "ann", "bob", "--ignore-not-found", "--wait=false")


def test_users_trade_across_nodes_and_nobody_is_below_its_entitlement(cluster: Cluster) -> None:
    real, virtual = cluster.real.name, cluster.virtual.name

    def cores(team: str, node: str) -> float:
        return float(outcome(team, node).get("bought", 0))

    def traded() -> bool:
        more_than_half = cores("ann", virtual) > 3.5 and cores("bob", real) > 0.5
        return more_than_half and cluster.enforced()

    assert eventually(traded, PATIENCE, pause=5), [
        (team, node, outcome(team, node)) for team in ("ann", "bob") for node in (real, virtual)
    ]
    for team in ("ann", "bob"):
        status = get(f"/apis/walras.dev/v1alpha1/entitlements/{team}")["status"]
        assert float(status["utility"]["now"]) > float(status["utility"]["atEntitlement"])
    market = get("/apis/walras.dev/v1alpha1/markets/default")["status"]
    assert {each["node"] for each in market["prices"]} == {real, virtual}
    own = cluster.own(cluster.virtual)
    assert len(own["ann"]) >= 4, own


def test_an_agent_that_is_killed_disturbs_no_other_node(cluster: Cluster) -> None:
    before, there = cluster.cpus(cluster.real), cluster.own(cluster.virtual)
    cluster.virtual.shell("pkill -KILL -f 'bin/[w]alras-agent'")
    agents = "app.kubernetes.io/component=agent"

    def restarted() -> bool:
        return any(
            status["restartCount"] > 0 and status["ready"]
            for pod in pods(SYSTEM, agents)
            if pod["spec"]["nodeName"] == cluster.virtual.name
            for status in pod["status"].get("containerStatuses", ())
        )

    assert eventually(restarted, PATIENCE, pause=5)
    assert eventually(cluster.enforced, PATIENCE, pause=5)
    assert (cluster.cpus(cluster.real), cluster.own(cluster.virtual)) == (before, there)


def test_pods_of_a_drained_node_find_their_cores_on_the_other(cluster: Cluster) -> None:
    kubectl("drain", cluster.virtual.name, "--ignore-daemonsets", "--delete-emptydir-data")
    free = pinned("ann", cluster.virtual.name)
    free["spec"]["template"]["spec"]["nodeSelector"] = {}
    apply(free)

    def found() -> bool:
        moved = outcome("ann", cluster.virtual.name)
        return moved.get("node") == cluster.real.name and moved.get("state") == "Enforced"

    assert eventually(found, PATIENCE, pause=5), outcome("ann", cluster.virtual.name)
    kubectl("uncordon", cluster.virtual.name)
    apply(pinned("ann", cluster.virtual.name))
    assert eventually(lambda: len(cluster.groups()) == 4, PATIENCE, pause=5)
    assert eventually(cluster.enforced, PATIENCE, pause=5)


def test_an_uninstall_restores_both_nodes(cluster: Cluster) -> None:
    helm("uninstall", "walras", "--wait", "--timeout", "30m")
    assert cluster.settings() == cluster.before
