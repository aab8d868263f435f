"""Pods that wait by a real scheduling gate, on a real API server, with the real operator.

Nobody schedules here: a pod is bound by the test where one would be, to the node that the operator
tied it to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from market_cluster import SYSTEM
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from waiting_pods import Waiting
from walras_api.contract import COLOCATION_GATE, PARTNER_ANNOTATION
from walras_api.waiting import node_of, required_terms
from walras_operator.decide.colocating.requests import gate_removal
from walras_operator.publish.placer import Placer
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from walras_api.cluster import Pod

pytestmark = needs_cluster

Document = dict[str, Any]
FOREIGN = "example.com/quota"
OURS_ALONE: Document = {"schedulingGates": [{"name": COLOCATION_GATE}]}
BOTH: Document = {"schedulingGates": [{"name": COLOCATION_GATE}, {"name": FOREIGN}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    made = Waiting(KUBECONFIG, tmp_path)
    yield made
    made.cluster.close()


@pytest.fixture
def placer(waiting: Waiting) -> Placer:
    return Placer(waiting.cluster.api, Mirror(Scope(SYSTEM).kinds, lambda _: None, lambda: 0.0))


def gates(pod: Pod) -> list[str]:
    return [gate.name for gate in pod.spec.scheduling_gates]


def bound(waiting: Waiting, name: str, node: str) -> None:
    """Bind a pod to a node, as a scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    head = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
    waiting.cluster.api.request("POST", f"{waiting.path(name)}/binding", {**head, "target": target})


def test_a_pair_is_tied_to_its_node_and_let_through_to_the_scheduler(waiting: Waiting) -> None:
    waiting.begin(timeoutSeconds=3600)
    waiting.pods("a0", app="a", **OURS_ALONE)
    waiting.pods("b0", app="b", **OURS_ALONE)
    with pytest.raises(ApiError, match="has non-empty"):
        bound(waiting, "a0", waiting.nodes[0])

    waiting.cluster.start_operator()
    names = ("a0", "b0")
    assert eventually(lambda: not any(gates(waiting.read(name)) for name in names), 60)
    first, second = (waiting.read(name) for name in names)
    assert node_of(first) == node_of(second) in waiting.nodes
    assert first.metadata.annotations[PARTNER_ANNOTATION] == second.metadata.uid
    assert second.metadata.annotations[PARTNER_ANNOTATION] == first.metadata.uid
    assert not waiting.placed(), "the scheduler does that"
    bound(waiting, "a0", str(node_of(first)))
    assert waiting.placed() == {"a0": node_of(first)}
    assert eventually(lambda: waiting.told("a")["a0"].get("colocation")), waiting.told("a")
    assert "(b0)" in waiting.told("a")["a0"]["colocation"]["partner"]


def test_a_pod_with_somebody_elses_gate_too_is_matched_once_that_is_gone(waiting: Waiting) -> None:
    waiting.begin(timeoutSeconds=3600)
    waiting.pods("a0", **BOTH)
    waiting.pods("a1", "a2", **OURS_ALONE)
    waiting.cluster.start_operator()
    assert eventually(lambda: not gates(waiting.read("a1")) and not gates(waiting.read("a2")), 60)
    assert eventually(lambda: f"first: {FOREIGN}" in waiting.told("a")["a0"].get("reason", ""))
    assert gates(waiting.read("a0")) == [COLOCATION_GATE, FOREIGN]

    waiting.cluster.change(waiting.path("a0"), {"spec": OURS_ALONE})
    assert eventually(lambda: not gates(waiting.read("a0")), 60)
    assert node_of(waiting.read("a0")) in waiting.nodes


def test_whoever_has_waited_long_enough_loses_our_gate_and_no_other(waiting: Waiting) -> None:
    waiting.begin(timeoutSeconds=5)
    waiting.cluster.start_operator()
    waiting.pods("stray", app="nobody", **BOTH)
    assert eventually(lambda: gates(waiting.read("stray")) == [FOREIGN], 60)
    assert node_of(waiting.read("stray")) is None


def test_a_second_request_is_refused_as_a_whole(waiting: Waiting, placer: Placer) -> None:
    """A request of a former leader changes nothing: the pod stays where the first one sent it."""
    waiting.begin()
    waiting.pods("a0", **OURS_ALONE)
    found = waiting.read("a0")
    assert placer.place(gate_removal(found, waiting.nodes[0], "first"))
    assert not placer.place(gate_removal(found, waiting.nodes[1], "second"))
    after = waiting.read("a0")
    assert node_of(after) == waiting.nodes[0]
    assert after.metadata.annotations[PARTNER_ANNOTATION] == "first"


def test_another_pod_of_that_name_is_not_touched(waiting: Waiting, placer: Placer) -> None:
    waiting.begin()
    waiting.pods("a0", **OURS_ALONE)
    before = waiting.read("a0")
    waiting.cluster.delete(waiting.path("a0"))
    waiting.pods("a0", **OURS_ALONE)
    assert not placer.place(gate_removal(before, waiting.nodes[0]))
    assert gates(waiting.read("a0")) == [COLOCATION_GATE]


def test_what_a_pod_asks_of_its_node_is_narrowed_and_kept(waiting: Waiting, placer: Placer) -> None:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in ("ssd", "nvme")]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    waiting.begin()
    waiting.pods("a0", affinity=affinity, **OURS_ALONE)
    assert placer.place(gate_removal(waiting.read("a0"), waiting.nodes[0]))
    after = required_terms(waiting.read("a0")) or ()
    assert [term.match_expressions[0].key for term in after] == ["ssd", "nvme"]
    assert [term.match_fields[0].values for term in after] == [[waiting.nodes[0]]] * 2
