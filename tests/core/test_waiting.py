"""Pods that wait: by which way, what they need, and which nodes may take them."""

from __future__ import annotations

from typing import Any

import pytest

from walras_api.cluster import NodeObject, Pod
from walras_api.contract import COLOCATION_GATE, PARTNER_ANNOTATION
from walras_api.waiting import (
    EligibleNodes,
    may_take,
    node_of,
    placement_blocker,
    room_of,
    waiting_method,
)

NODE = NodeObject.model_validate(
    {
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"zone": "a", "rank": "7"}},
        "spec": {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "3920m", "memory": "16Gi", "pods": "2"}},
    }
)
STANDS: dict[str, Any] = {"tolerations": [{"key": "team", "operator": "Exists"}]}


def pod(name: str = "p", annotations: Any = None, **spec: Any) -> Pod:
    return Pod.model_validate(
        {
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"containers": [{}], **spec},
        }
    )


def gates(*names: str) -> dict[str, Any]:
    return {"schedulingGates": [{"name": name} for name in names]}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        (gates(COLOCATION_GATE), "gate"),
        (gates("other", COLOCATION_GATE), "gate"),
        ({"schedulerName": COLOCATION_GATE}, "scheduler"),
        ({"schedulerName": COLOCATION_GATE, **gates(COLOCATION_GATE)}, "gate"),
        ({"schedulerName": COLOCATION_GATE, **gates("other")}, None),
        ({"schedulerName": "default-scheduler"}, None),
        ({"nodeName": "n1", "schedulerName": COLOCATION_GATE}, None),
    ],
)
def test_the_way_in_which_a_pod_waits(spec: dict[str, Any], way: str | None) -> None:
    assert waiting_method(pod(**spec)) == way


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (gates(COLOCATION_GATE), ""),
        (gates(COLOCATION_GATE, "quota"), "waits for its other scheduling gates first: quota"),
        ({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}, "persistent volumes"),
        ({"volumes": [{"emptyDir": {}}]}, ""),
        ({"containers": [{"ports": [{"hostPort": 80}]}]}, "ports of its host"),
        ({"containers": [{"ports": [{"containerPort": 80}]}]}, ""),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topology"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"),
        (
            {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}
                }
            },
            "required pod affinity",
        ),
    ],
)
def test_what_only_a_scheduler_can_judge_is_left_to_it(spec: dict[str, Any], words: str) -> None:
    found = placement_blocker(pod(**spec))
    assert words in found
    assert bool(found) == bool(words)


@pytest.mark.parametrize(
    ("spec", "takes"),
    [
        ({}, False),
        (STANDS, True),
        ({"tolerations": [{"operator": "Exists"}]}, True),
        ({"tolerations": [{"key": "team", "value": "x"}]}, True),
        ({"tolerations": [{"key": "team", "value": "y"}]}, False),
        ({"tolerations": [{"key": "team", "value": "x", "effect": "NoExecute"}]}, False),
        ({**STANDS, "nodeSelector": {"zone": "a"}}, True),
        ({**STANDS, "nodeSelector": {"zone": "b"}}, False),
        ({**STANDS, **affinity({})}, False),
        (
            {
                **STANDS,
                **affinity(
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                ),
            },
            True,
        ),
    ],
)
def test_which_nodes_may_take_a_pod(spec: dict[str, Any], *, takes: bool) -> None:
    assert may_take(NODE, pod(**spec)) == takes
    assert EligibleNodes([NODE]).of(pod(**spec)) == (frozenset({"n1"}) if takes else frozenset())


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (("zone", "In", "a", "b"), True),
        (("zone", "NotIn", "a"), False),
        (("none", "NotIn", "a"), True),
        (("zone", "Exists"), True),
        (("none", "Exists"), False),
        (("none", "DoesNotExist"), True),
        (("rank", "Gt", "6"), True),
        (("rank", "Gt", "7"), False),
        (("rank", "Lt", "8"), True),
        (("zone", "Gt", "1"), False),
        (("none", "Lt", "1"), False),
    ],
)
def test_requirements_of_labels(requirement: tuple[str, ...], *, holds: bool) -> None:
    key, operator, *values = requirement
    wanted = {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
    assert may_take(NODE, pod(**STANDS, **affinity(wanted))) == holds
    both = affinity({"matchExpressions": [{"key": "none", "operator": "Exists"}]}, wanted)
    assert may_take(NODE, pod(**STANDS, **both)) == holds, "any term will do"


def test_room_is_what_pods_there_and_pods_sent_there_leave() -> None:
    asks: dict[str, Any] = {
        "containers": [{"resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}]
    }
    sent = affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})
    assert pod(**asks).effective_requests == (("pods", 1), ("cpu", 1500), ("memory", 2**30))
    there, going = (
        pod("a", nodeName="n1", **asks),
        pod("b", {PARTNER_ANNOTATION: ""}, **sent, **asks),
    )
    assert node_of(there) == node_of(going) == "n1"
    assert node_of(pod(**sent)) is None, "it wants to go there by itself"
    assert room_of([NODE], [there, going, pod("c", **asks)]) == {
        "n1": {"cpu": 920, "memory": 14 * 2**30, "pods": 0}
    }


def test_what_was_computed_of_a_pod_does_not_hold_for_a_changed_copy() -> None:
    tolerant = pod(**STANDS)
    nodes = EligibleNodes([NODE])
    assert nodes.of(tolerant) == frozenset({"n1"})
    spec = tolerant.spec.model_copy(update={"tolerations": ()})
    assert nodes.of(tolerant.model_copy(update={"spec": spec})) == frozenset()
    assert nodes.of(tolerant) == frozenset({"n1"})
