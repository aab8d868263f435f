"""A cluster of 1 000 nodes and 10 000 pods on a real API server, whose agents are simulated.

What is asked of every change: that it reaches the nodes that it concerns, all of them, and that
nothing is written that says what was there before. The same decision, made here of all that the
API server has, is the judge of the former; the agents have seen all plans and tell of the latter.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from large_cluster import JOBS, LargeCluster, now
from real_cluster import KUBECONFIG
from scaled_operator import ScaledOperator, undone
from simulated_agents import SimulatedAgents
from waiting import eventually
from walras_service.kinds import NODES, OURS, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.scale

COUNTS = (1_000, 10_000)
EPOCH = 6  # seconds
MOST_MEBIBYTES = 400
PATIENCE = 600.0  # seconds


class Scene:
    """The cluster, its agents, and the operator that is at work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lost: set[str] = set()
        self._silent: set[str] = set()
        self.cluster = LargeCluster(KUBECONFIG, *COUNTS)
        self.agents = SimulatedAgents(self.cluster.api.configuration)
        self.operator: ScaledOperator | None = None

    def begin(self) -> None:
        """Make everything, and start an operator."""
        self.cluster.fill()
        self.cluster.change(OURS["Market"].path(name="default"), {"spec": {"epochSeconds": EPOCH}})
        self.agents.live(self.cluster.nodes)
        self.agents.start()
        self.operator = self.another("first")

    def another(self, name: str) -> ScaledOperator:
        return ScaledOperator(KUBECONFIG, self._folder / f"{name}.log")

    def close(self) -> None:
        if self.operator is not None:
            self.operator.close()
        self.agents.close()
        self.cluster.close()

    def lose(self, node: str) -> None:
        """Make a node not ready."""
        self._lost.add(node)
        condition = {"type": "Ready", "status": "False", "lastHeartbeatTime": now()}
        path = NODES.path(name=node, subresource="status")
        self.cluster.change(path, {"status": {"conditions": [condition]}})

    def silence(self, node: str) -> None:
        """Let the Lease of a node's agent run out."""
        self._silent.add(node)
        self.agents.live([node], seconds=1)

    def _living(self) -> frozenset[str]:
        return frozenset(self.cluster.nodes) - self._silent

    def granted(self, node: str) -> set[str]:
        """Return the pods with a grant in the last plan of a node."""
        plans = self.agents.plans[node]
        return plans[-1].pods if plans else set()

    def all_granted(self) -> set[str]:
        return {pod for node in self.cluster.nodes for pod in self.granted(node)}

    def arrives(self, condition: Callable[[], object]) -> None:
        """Wait until plans show a change; check that all plans are right and none is useless."""
        assert eventually(condition, PATIENCE, 0.2)
        assert eventually(lambda: not undone(self.cluster.api, self._living()), PATIENCE, 1.0)
        assert not self.agents.problem
        assert self.cluster.unready() == self._lost, "nodes without heartbeats: too slow a machine"
        for node in self.cluster.nodes:
            for before, after in pairwise(self.agents.plans[node]):
                assert after.epoch > before.epoch
                assert after.rest != before.rest, f"{node} was written for nothing"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("scale"))
    try:
        made.begin()
        made.arrives(lambda: len(made.all_granted()) == COUNTS[1])
        yield made
    finally:
        made.close()


def test_every_pod_has_cores(scene: Scene) -> None:
    cluster = scene.cluster
    assert {pod for node in cluster.nodes for pod in scene.granted(node)} == {
        each["metadata"]["name"] for each in cluster.documents if each["kind"] == "Pod"
    }


def test_other_shares_arrive(scene: Scene) -> None:
    before = {node: len(scene.agents.plans[node]) for node in scene.cluster.nodes}
    path = OURS["Entitlement"].path(name="user-0")
    scene.cluster.change(path, {"spec": {"shares": 9}})
    scene.arrives(lambda: scene.cluster.told(path))
    written = [node for node in scene.cluster.nodes if len(scene.agents.plans[node]) > before[node]]
    assert written


def test_a_deleted_job_loses_its_cores(scene: Scene) -> None:
    pods = {f"job-1-{number}" for number in range(10)}
    scene.cluster.delete(OURS["MarketJob"].path(JOBS, "job-1"))
    scene.arrives(lambda: not pods & scene.all_granted())


def test_nodes_that_are_lost_sell_nothing(scene: Scene) -> None:
    """One is labelled off, one is not ready any more, and of one the agent's Lease runs out."""
    off, unready, silent = "node-10", "node-20", "node-30"
    labels = {"walras.dev/mode": "off"}
    scene.cluster.change(NODES.path(name=off), {"metadata": {"labels": labels}})
    scene.lose(unready)
    scene.silence(silent)
    lost = (off, unready, silent)
    scene.arrives(lambda: not any(scene.granted(node) for node in lost))


def test_pods_that_end_give_their_cores_back(scene: Scene) -> None:
    ended, deleted = "job-2-0", "job-3-0"
    path = PODS.path(JOBS, ended, "status")
    scene.cluster.change(path, {"status": {"phase": "Succeeded"}})
    scene.cluster.delete(PODS.path(JOBS, deleted))
    scene.arrives(lambda: not {ended, deleted} & scene.all_granted())


def test_nothing_is_written_while_nothing_changes(scene: Scene) -> None:
    """Nor is anything decided but once an epoch, whatever watches and Leases tell meanwhile.

    Not so under Karma, whose credits grow while memory lies idle.
    """
    operator = scene.operator
    assert operator is not None
    rules = {"spec": {"memory": {"mechanism": "MaxMin"}}}
    scene.cluster.change(OURS["Market"].path(name="default"), rules)
    assert eventually(lambda: _rests(operator), PATIENCE)
    rounds, written, began = operator.published(), operator.written(), time.monotonic()
    assert eventually(lambda: operator.published() >= rounds + 3, PATIENCE, 0.5)
    epochs = (time.monotonic() - began) / EPOCH
    assert operator.published() <= rounds + epochs + 1
    assert operator.written() == written


def test_after_a_crash_in_the_midst_the_next_one_goes_on(scene: Scene) -> None:
    assert scene.operator is not None
    plans = _count(scene)
    rules = {"spec": {"cores": {"reservedCores": 4}}}
    scene.cluster.change(OURS["Market"].path(name="default"), rules)
    assert eventually(lambda: _count(scene) > plans, PATIENCE)
    scene.operator.kill()
    scene.operator = scene.another("second")
    scene.arrives(lambda: scene.cluster.told(OURS["Market"].path(name="default")))


def test_memory(scene: Scene, record_testsuite_property: Callable[[str, object], None]) -> None:
    assert scene.operator is not None
    found = scene.operator.mebibytes()
    record_testsuite_property("operator MiB", found)
    assert found < MOST_MEBIBYTES


def _count(scene: Scene) -> int:
    return sum(map(len, scene.agents.plans.values()))


def _rests(operator: ScaledOperator) -> bool:
    """Whether a whole epoch goes by in which nothing is written."""
    written, rounds = operator.written(), operator.published()
    assert eventually(lambda: operator.published() >= rounds + 2, PATIENCE, 0.5)
    return operator.written() == written
