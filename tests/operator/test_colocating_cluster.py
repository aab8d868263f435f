"""Pods that wait, on a real API server with the real operator, whoever dies in between.

Nobody runs the pods, and no scheduler is needed: API servers without scheduling gates drop them, so
here pods wait for Walras as their scheduler, and are bound by it.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from market_cluster import OURS, SYSTEM, MarketCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from walras.resources.cluster import Pod
from walras.resources.parse import parse_object
from walras.resources.waiting import GATE
from walras_operator.colocating.requests import binding
from walras_operator.runtime.kinds import Scope
from walras_operator.runtime.mirror import Mirror
from walras_operator.runtime.placer import Placer
from walras_service.api import Api, settings
from walras_service.api_errors import ApiError
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_cluster

Document = dict[str, Any]
SOCKETS = 4


class Waiting:
    """A market in which pods wait."""

    def __init__(self, folder: Path) -> None:
        self.name = f"c-{time.time_ns() % 10**10}"
        self.cluster = MarketCluster(KUBECONFIG, folder)
        self.nodes = [f"{self.name}-{number}" for number in range(3)]

    def begin(self, **colocation: Any) -> None:
        cluster = self.cluster
        cluster.namespace(self.name)
        rules = {"policy": "StableRoommates", **colocation}
        labelled = [node(name, "16") for name in self.nodes]
        for each in labelled:
            each["metadata"]["labels"] = {"walras.dev/sockets": str(SOCKETS)}
        cluster.make(
            market(colocation=rules, epochSeconds=2),
            entitlement(self.name, namespaces=[self.name]),
            *labelled,
            *(job(name, self.name, self.name) for name in "ab"),
        )
        cluster.agents_live(self.nodes)

    def is_going(self) -> bool:
        """Whether the namespace of Walras is being deleted, and cannot be used nor made."""
        found = self.cluster.read(f"/api/v1/namespaces/{SYSTEM}")
        return found is not None and found["status"]["phase"] != "Active"

    def powerless(self, folder: Path) -> str:
        """A file by which to be a ServiceAccount without any rights."""
        path = f"/api/v1/namespaces/{self.name}/serviceaccounts/default/token"
        answer = self.cluster.api.request("POST", path, {"spec": {"audiences": []}})
        token = {"token": answer["status"]["token"]}
        document = yaml.safe_load(Path(KUBECONFIG).read_text())
        document["users"] = [{"name": each["name"], "user": token} for each in document["users"]]
        found = folder / "powerless"
        found.write_text(yaml.safe_dump(document))
        return str(found)

    def pods(self, *names: str, app: str = "a", cpu: str = "1") -> None:
        for name in names:
            made = pod(name, app, None, namespace=self.name, cpu=cpu)
            made["spec"]["schedulerName"] = GATE
            made["status"] = None
            self.cluster.make(made)

    def placed(self) -> dict[str, str]:
        """Nodes of pods that have one."""
        path = f"/api/v1/namespaces/{self.name}/pods"
        found = self.cluster.api.request("GET", path)["items"]
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"]
            for each in found
            if each["spec"].get("nodeName")
        }

    def told(self, job_: str) -> dict[str, Document]:
        path = f"{OURS}/namespaces/{self.name}/marketjobs/{job_}"
        status = (self.cluster.read(path) or {}).get("status", {})
        return {each["name"]: each for each in status.get("pods", ())}

    def partners_are_together(self) -> bool:
        """Whether every pod is where the status says that its partner is."""
        everybody = self.told("a") | self.told("b")
        placed = self.placed()
        return all(
            placed[name] == placed[each["colocation"]["partner"].split("(")[1].strip(")")]
            for name, each in everybody.items()
            if "partner" in each.get("colocation", {})
        )


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    made = Waiting(tmp_path)
    yield made
    made.cluster.close()
    assert eventually(lambda: not made.is_going(), 60), "the next test needs the namespace"


def test_pairs_are_placed_and_told_late_ones_follow_and_the_large_one_waits(
    waiting: Waiting,
) -> None:
    waiting.begin(timeoutSeconds=3600)
    waiting.pods("a0", "a1", app="a")
    waiting.pods("b0", "b1", app="b")
    waiting.pods("large", app="b", cpu="64")
    waiting.cluster.start_operator()
    assert eventually(lambda: len(waiting.placed()) == 4, 60), waiting.placed()
    assert eventually(lambda: waiting.told("a")["a0"].get("colocation")), waiting.told("a")
    assert waiting.partners_are_together()
    assert "large" not in waiting.placed()
    assert "room for its requests" in waiting.told("b")["large"]["reason"]
    waiting.pods("late", app="a")
    assert eventually(lambda: "late" in waiting.placed(), 60)


def test_whoever_has_no_job_is_let_go(waiting: Waiting) -> None:
    waiting.begin(timeoutSeconds=5)
    waiting.cluster.start_operator()
    waiting.pods("stray", app="nobody")
    time.sleep(1)
    assert not waiting.placed()
    assert eventually(lambda: "stray" in waiting.placed(), 60)


@pytest.mark.parametrize("phase", ["waiting", "placing", "placed"])
def test_an_operator_that_is_killed_leaves_nobody_behind(waiting: Waiting, phase: str) -> None:
    """Killed before it has placed anybody, in the midst of it, and when all are placed."""
    waiting.begin(timeoutSeconds=3600)
    names = [f"a{number}" for number in range(12)]
    waiting.cluster.start_operator()
    waiting.pods(*names)
    wanted = {"waiting": 0, "placing": 1, "placed": len(names)}[phase]
    assert eventually(lambda: len(waiting.placed()) >= wanted, 60)
    waiting.cluster.stop_operator(kill=True)
    before = waiting.placed()
    waiting.pods("b0", "b1", app="b")
    waiting.cluster.start_operator()
    assert eventually(lambda: len(waiting.placed()) == len(names) + 2, 90), waiting.told("a")
    assert before.items() <= waiting.placed().items(), "nobody is placed twice"
    assert max(Counter(waiting.placed().values()).values()) <= 2 * SOCKETS
    assert eventually(lambda: len(waiting.told("a")) == len(names))


def test_a_node_that_is_lost_gets_nobody(waiting: Waiting) -> None:
    waiting.begin(timeoutSeconds=3600)
    lost = waiting.nodes[0]
    waiting.cluster.change(f"/api/v1/nodes/{lost}", {"spec": {"unschedulable": True}})
    waiting.cluster.start_operator()
    waiting.pods("a0", "a1", "a2", "a3")
    assert eventually(lambda: len(waiting.placed()) == 4, 60)
    assert lost not in waiting.placed().values()


def test_a_pod_is_placed_once_and_by_whoever_may(waiting: Waiting, tmp_path: Path) -> None:
    waiting.begin(timeoutSeconds=3600)
    waiting.pods("a0")
    mirror = Mirror(Scope(SYSTEM).kinds, lambda _: None, lambda: 0.0)
    path = f"/api/v1/namespaces/{waiting.name}/pods/a0"
    found = parse_object({"apiVersion": "v1", "kind": "Pod", **(waiting.cluster.read(path) or {})})
    assert isinstance(found, Pod)
    weak = Placer(Api(settings(waiting.powerless(tmp_path)), "test"), mirror)
    with pytest.raises(ApiError, match=r"cannot create .*a0/binding"):
        weak.place(binding(found, waiting.nodes[0]))
    assert "binding" in weak.problem
    weak.begin()
    assert not weak.problem
    strong = Placer(waiting.cluster.api, mirror)
    assert strong.place(binding(found, waiting.nodes[0]))
    assert not strong.place(binding(found, waiting.nodes[1])), "it has a node by now"
    assert waiting.placed() == {"a0": waiting.nodes[0]}
