"""The command ``walras-agent cluster`` on pods of a real kernel, with a real API server."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent_command import ANYWHERE, Machine
from faulty_proxy import FAULTS, FaultyProxy
from real_cluster import KUBECONFIG, RealCluster, needs_cluster, needs_outage
from real_pods import TREE, RealPods, allowed, needs_pods
from waiting import eventually
from walras_agent.topology import Topology
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = [*needs_pods, needs_cluster]

RELEASE = 3
"""Seconds for which an agent here waits before it takes grants back."""


class ClusterMachine(Machine):
    """A node of a cluster, and the agent on it."""

    def __init__(self, pods: RealPods, cluster: RealCluster) -> None:
        super().__init__(pods, cluster.folder)
        self.cluster = cluster

    @contextmanager
    def joined(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the agent, with a new kubeconfig of its own rights; it reconciles once an hour."""
        who = ("--kubeconfig", str(self.cluster.kubeconfig()), "--namespace", self.cluster.name)
        with self.again(*who, *arguments) as process:
            yield process

    @contextmanager
    def again(self, *arguments: str, kubeconfig: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """Run the agent with the kubeconfig that it had before, or another one."""
        file = kubeconfig or str(self.folder / "kubeconfig")
        known = ("--kubeconfig", file, "--namespace", self.cluster.name)
        given = ("--node-name", self.cluster.name, "--release-after", str(RELEASE), *known)
        options = ("--period", "3600", "--reserved-cpus", "", *ANYWHERE)
        with self.started("cluster", *given, *options, *arguments) as process:
            yield process

    def lines(self, text: str) -> bool:
        return text in self.log.read_text()

    def metric(self, name: str) -> float:
        page = self.get("/metrics")[1].splitlines()
        return float(next(line for line in page if line.startswith(f"{name} ")).split()[1])

    def drift(self, pod: str) -> None:
        """Widen a pod, as somebody else may do."""
        setting = CgroupFile("cpuset", self.pods.container(pod), "cpuset.cpus")
        self.pods.tree.write(setting, str(self.everything))


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ClusterMachine]:
    assert TREE is not None
    pods = RealPods(TREE)
    try:
        cluster = RealCluster(f"walras-test-{os.getpid()}-{time.monotonic_ns()}", tmp_path)
        yield ClusterMachine(pods, cluster)
        cluster.close()
    finally:
        pods.close()


CORE = Topology.read().cores()[0] if TREE else None


def test_node_follows_its_allocation_and_tells(machine: ClusterMachine) -> None:
    """The agent has no more rights than the manual lists."""
    cluster = machine.cluster
    first, second = machine.pods.start("aa"), machine.pods.start("bb")
    cluster.grant()
    with machine.joined():
        assert eventually(cluster.lease), "it lives, though there is no plan yet"
        assert machine.metric("walras_agent_api_up") == 1
        cluster.want(1, aa="1")
        assert eventually(lambda: cluster.status().get("enforcedEpoch") == 1)
        assert (allowed(first), allowed(second)) == (CORE, machine.everything - allowed(first))
        assert cluster.status()["pods"][0]["cpus"] == str(CORE)
        ready = cluster.condition("Ready")
        assert (ready["status"], ready["observedGeneration"]) == ("True", 1)
        cluster.want(2, bb="1")
        assert eventually(lambda: cluster.condition("Ready").get("observedGeneration") == 2)
        assert eventually(lambda: allowed(first) == machine.everything - allowed(second))
        generation = cluster.allocation()["metadata"]["generation"]
        assert generation == 2, "a status is no change of what is wanted"
    lease = cluster.lease()
    assert lease is not None
    assert lease["metadata"]["labels"] == {"walras.dev/lease": "agent"}
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == (
        cluster.name,
        45,
    )


def test_deleted_allocation_is_the_end_of_all_grants(machine: ClusterMachine) -> None:
    cluster = machine.cluster
    pid = machine.pods.start("aa")
    machine.pods.start("bb")
    cluster.grant()
    cluster.want(7, aa="1")
    with machine.joined():
        assert eventually(lambda: allowed(pid) == CORE)
        cluster.delete()
        assert eventually(lambda: machine.lines("there is no NodeAllocation"))
        assert eventually(lambda: allowed(pid) == machine.everything)
        cluster.want(1, aa="1")
        assert eventually(lambda: cluster.status().get("enforcedEpoch") == 1), "a new beginning"
        assert allowed(pid) == CORE
        cluster.delete()
        assert eventually(lambda: allowed(pid) == machine.everything)
    with machine.joined():
        assert eventually(lambda: machine.lines("there is no NodeAllocation"))
        assert allowed(pid) == machine.everything


def test_removed_definition_is_no_deletion(machine: ClusterMachine) -> None:
    """The API server deletes all objects of a kind before it forgets the kind."""
    cluster = machine.cluster
    pid = machine.pods.start("aa")
    machine.pods.start("bb")
    cluster.grant()
    cluster.want(3, aa="1")
    with machine.joined():
        assert eventually(lambda: cluster.status().get("enforcedEpoch") == 3)
        cluster.uninstall()
        assert eventually(
            lambda: machine.lines("install the CustomResourceDefinitions of Walras"), seconds=60
        )
        assert machine.metric("walras_agent_api_up") == 0
        time.sleep(RELEASE + 1)
        assert allowed(pid) == CORE
        cluster.installed |= cluster.install()
        cluster.want(4, bb="1")
        assert eventually(lambda: cluster.status().get("enforcedEpoch") == 4)
        assert allowed(pid) != CORE


@needs_outage
def test_node_is_held_while_the_server_is_gone(machine: ClusterMachine) -> None:
    """kill -9 of the server; drift, a new pod and kill -9 of the agent meanwhile."""
    cluster = machine.cluster
    owner = machine.pods.start("aa")
    cluster.grant()
    cluster.want(1, aa="1")
    with machine.joined() as agent:
        assert eventually(lambda: cluster.status().get("enforcedEpoch") == 1)
        cluster.kill_server()
        try:
            assert eventually(lambda: machine.lines("the last plan stays in force"))
            machine.drift("aa")
            assert eventually(lambda: allowed(owner) == CORE)
            newcomer = machine.pods.start("bb")
            assert eventually(lambda: allowed(newcomer) == machine.everything - allowed(owner))
            assert machine.metric("walras_agent_api_up") == 0
            agent.kill()
            agent.wait()
            machine.drift("aa")
            with machine.again():
                assert eventually(lambda: allowed(owner) == CORE)
                assert eventually(lambda: machine.lines("is unreachable"))
                assert machine.get("/readyz") == (200, "epoch 1\n")
                cluster.restart_server()
                cluster.want(2, bb="1")
                assert eventually(lambda: cluster.status().get("enforcedEpoch") == 2)
                assert allowed(newcomer) != allowed(owner)
                assert machine.lines("API requests succeed again")
                assert machine.metric("walras_agent_api_up") == 1
                assert not machine.lines("there is no NodeAllocation")
        finally:
            if not cluster.answers():
                cluster.restart_server()


def test_bad_network_delays_plans_and_loses_no_grant(
    machine: ClusterMachine, tmp_path: Path
) -> None:
    """Requests come late, are refused or cut off; some are carried out and never answered."""
    cluster = machine.cluster
    pids = {pod: machine.pods.start(pod) for pod in ("aa", "bb")}
    proxy = FaultyProxy(KUBECONFIG, seed=1)
    try:
        with machine.again(kubeconfig=proxy.kubeconfig(tmp_path)):
            cluster.want(1, aa="1")
            assert eventually(lambda: cluster.status().get("enforcedEpoch") == 1)
            proxy.rate, epoch = 0.5, 1
            while set(proxy.failed) != set(FAULTS):
                epoch += 1
                owner, other = ("aa", "bb") if epoch % 2 else ("bb", "aa")
                cluster.want(epoch, **{owner: "1"})
                assert eventually(lambda: cluster.status().get("enforcedEpoch") == epoch)  # noqa: B023
                assert allowed(pids[owner]) == CORE
                assert allowed(pids[other]) == machine.everything - allowed(pids[owner])
            proxy.rate = 0.0
            assert eventually(lambda: machine.metric("walras_agent_api_up") == 1)
            assert not machine.lines("there is no NodeAllocation")
    finally:
        proxy.close()


def test_missing_rights_are_named_and_taken_up_when_given(machine: ClusterMachine) -> None:
    cluster = machine.cluster
    pid = machine.pods.start("aa")
    machine.pods.start("bb")
    cluster.want(1, aa="1")
    with machine.joined():
        assert eventually(
            lambda: machine.lines("resources: [nodeallocations], verbs: [list, watch]")
        )
        assert allowed(pid) == machine.everything
        cluster.grant()
        assert eventually(lambda: cluster.status().get("enforcedEpoch") == 1)


def test_agent_is_small(machine: ClusterMachine) -> None:
    machine.pods.start("aa")
    machine.pods.start("bb")
    machine.cluster.grant()
    machine.cluster.want(1, aa="1")
    with machine.joined() as agent:
        assert eventually(lambda: machine.cluster.status().get("enforcedEpoch") == 1)
        assert eventually(machine.cluster.lease)
        assert machine.metric("walras_agent_epoch") == 1
        assert resident(agent.pid) < 80 << 20


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes (VmRSS, proc(5))."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    line = next(line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) << 10


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "the name of this node is unknown: give --node-name"),
        (("--node-name", "n", "--kubeconfig", "/nowhere"), "give the API server by --kubeconfig"),
        (("--node-name", "n", "--kubeconfig", ""), "not a pod with a ServiceAccount's token"),
    ],
)
def test_bad_input_is_told_with_the_way_out(
    machine: ClusterMachine, arguments: tuple[str, ...], complaint: str, monkeypatch: Any
) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    done = machine.call("cluster", *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
