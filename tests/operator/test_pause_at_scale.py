"""A pause of 300 nodes on a real API server, whose agents are simulated, and the way back.

The pause is made while no operator runs. The judge is what the API server has, and what the agents
have seen.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from large_cluster import LargeCluster
from real_cluster import KUBECONFIG
from scaled_operator import ScaledOperator
from simulated_agents import SimulatedAgents
from waiting import eventually
from walras_cli.cluster.connection import connect
from walras_cli.cluster.options import Target
from walras_cli.cluster.pause.pausing import set_paused
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.scale

COUNTS = (300, 3_000)
PATIENCE = 300.0  # seconds
MOST_SECONDS = 30.0
MARKET = OURS["Market"].path(name="default")


class Scene:
    """The cluster, its agents, and the operator that is at work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = LargeCluster(KUBECONFIG, *COUNTS)
        self.agents = SimulatedAgents(self.cluster.api.configuration)
        self.operator: ScaledOperator | None = None

    def begin(self) -> None:
        self.cluster.fill()
        self.cluster.change(MARKET, {"spec": {"epochSeconds": 2}})
        self.agents.live(self.cluster.nodes)
        self.agents.start()
        self.operator = ScaledOperator(KUBECONFIG, self.folder / "first.log")

    def close(self) -> None:
        if self.operator is not None:
            self.operator.close()
        self.agents.close()
        self.cluster.close()

    def specs(self) -> dict[str, dict[str, Any]]:
        """Return the specs of all plans by node, but for the field `paused`."""
        listed = self.cluster.api.request("GET", OURS["NodeAllocation"].path(), timeout=30)
        return {
            each["metadata"]["name"]: {k: v for k, v in each["spec"].items() if k != "paused"}
            for each in listed["items"]
        }

    def granted(self) -> int:
        """Return the number of grants in all plans."""
        return sum(len(each["grants"]) for each in self.specs().values())

    def restored(self) -> bool:
        """Whether all agents have seen that they are to observe."""
        plans = (self.agents.plans[node] for node in self.cluster.nodes)
        return all(each and each[-1].rest["mode"] == "observe" for each in plans)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("pause"))
    try:
        made.begin()
        yield made
    finally:
        made.close()


def test_a_pause_holds_whatever_becomes_of_the_operator(
    scene: Scene, record_testsuite_property: Callable[[str, object], None]
) -> None:
    assert eventually(lambda: scene.granted() == COUNTS[1], PATIENCE, 1.0)
    assert scene.operator is not None
    scene.operator.kill()
    held = scene.specs()
    there = connect(Target(kubeconfig=KUBECONFIG))
    began = time.monotonic()
    outcome = set_paused(there, paused=True)
    seconds = time.monotonic() - began
    record_testsuite_property("seconds of a pause of 300 nodes", round(seconds, 1))
    assert seconds < MOST_SECONDS
    assert [each.state for each in outcome.nodes] == ["Changed"] * COUNTS[0]

    scene.cluster.change(OURS["Entitlement"].path(name="user-0"), {"spec": {"shares": 9}})
    scene.operator = ScaledOperator(KUBECONFIG, scene.folder / "second.log")
    assert eventually(lambda: scene.operator and scene.operator.published() >= 3, PATIENCE, 0.5)
    assert scene.specs() == held
    set_paused(there, paused=False)
    assert eventually(lambda: scene.specs() != held, PATIENCE, 0.5)


def test_all_nodes_cease_to_enforce_at_once(
    scene: Scene, record_testsuite_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    scene.cluster.change(MARKET, {"spec": {"mode": "observe"}})
    assert eventually(scene.restored, PATIENCE, 0.1)
    seconds = time.monotonic() - began
    record_testsuite_property("seconds until 300 nodes observe", round(seconds, 1))
    assert seconds < MOST_SECONDS


def test_nodes_begin_to_enforce_a_tenth_at_a_time_until_all_do(
    scene: Scene, record_testsuite_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    scene.cluster.change(MARKET, {"spec": {"mode": "enforce"}})
    most = 0

    def all_enforce() -> bool:
        nonlocal most
        listed = scene.cluster.api.request("GET", OURS["NodeAllocation"].path(), timeout=30)
        told = [each for each in listed["items"] if each["spec"]["mode"] == "enforce"]
        late = [each for each in told if each["status"].get("mode") != "enforce"]
        most = max(most, len(late))
        return len(told) == COUNTS[0] and not late

    assert eventually(all_enforce, PATIENCE, 0.05)
    record_testsuite_property(
        "seconds until 300 nodes enforce, a tenth at a time", round(time.monotonic() - began, 1)
    )
    assert 0 < most <= COUNTS[0] // 10
