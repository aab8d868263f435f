"""Nodes that somebody wants to empty: pods that run hold what they bought, and none is sent there.

Each row changes a node as `kubectl`, Kubernetes or an autoscaler does; the right outcome follows
from what the change means to Kubernetes. Taints are named as their owners document them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from whole_decisions import decide
from worlds import (
    condition,
    enforced,
    entitlement,
    grants,
    job,
    market,
    node,
    outcome,
    pod,
    world,
)

PAIRED = {"policy": "StableRoommates"}
STANDS_ALL = [{"operator": "Exists"}]
LONG_AGO = "2026-01-31T11:00:00Z"


def tainted(key: str, effect: str = "NoSchedule", **more: Any) -> dict[str, Any]:
    return {"spec": {"taints": [{"key": key, "effect": effect}], **more}}


GOES_ON = {
    "kubectl cordon": tainted("node.kubernetes.io/unschedulable", unschedulable=True),
    "cordoned, and the taint has not come yet": {"spec": {"unschedulable": True}},
    "an administrator's taint": tainted("maintenance"),
    "an administrator's taint that evicts": tainted("maintenance", "NoExecute"),
    "a taint that only advises": tainted("maintenance", "PreferNoSchedule"),
    "Karpenter disrupts it": tainted("karpenter.sh/disrupted"),
    "Karpenter has deleted it, and drains it": {
        **tainted("karpenter.sh/disrupted"),
        "metadata": {
            "name": "n1",
            "uid": "Node--n1",
            "deletionTimestamp": "2026-01-31T11:59:00Z",
            "finalizers": ["karpenter.sh/termination"],
        },
    },
    "the cluster autoscaler may remove it": tainted(
        "DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"
    ),
    "the cluster autoscaler drains it": tainted("ToBeDeletedByClusterAutoscaler"),
    "its cloud takes it back": tainted("aws-node-termination-handler/spot-itn"),
}
TAKES_PODS = {"a taint that only advises", "the cluster autoscaler may remove it"}
TAKES_WHAT_STANDS_TAINTS = {
    "an administrator's taint",
    "an administrator's taint that evicts",
    "Karpenter disrupts it",
    "the cluster autoscaler drains it",
    "its cloud takes it back",
}
"""As kube-scheduler would: a pod that tolerates every taint may go there."""


def waits(name: str, way: str, created: str, **spec: Any) -> dict[str, Any]:
    """Return a pod that waits to be placed, by a gate or for a scheduler."""
    found = pod(name, "train", None, creationTimestamp=created)
    gate = {"schedulingGates": [{"name": "walras.dev/colocation"}]}
    by = gate if way == "gate" else {"schedulerName": "walras.dev/colocation"}
    return {**found, "spec": {**found["spec"], **by, **spec}}


Rows = pytest.mark.parametrize("row", GOES_ON)
TENANTS = (
    market(colocation=PAIRED),
    entitlement("vision"),
    entitlement("speech"),
    job("train", "vision"),
    job("decode", "speech"),
    pod("train-0", "train", cpu="5"),
    pod("decode-0", "decode"),
)


@Rows
def test_pods_that_run_hold_what_they_bought(row: str) -> None:
    before = world(*TENANTS, node())
    held = grants(decide(before))
    assert held == {"n1": {"train-0": "5", "decode-0": "3"}}
    settled = enforced(outcome(before, decide(before)))
    changed = world(*TENANTS, {**node(), **GOES_ON[row]})
    after = replace(settled, objects=replace(settled.objects, nodes=changed.objects.nodes))
    assert not decide(after).nodes
    assert grants(decide(changed)) == held


@Rows
@pytest.mark.parametrize("stands", [[], STANDS_ALL], ids=["stands no taint", "stands all taints"])
@pytest.mark.parametrize("way", ["matched", "late"])
def test_waiting_pods_are_sent_there_only_if_kubernetes_would(
    row: str, stands: list[dict[str, str]], way: str
) -> None:
    """Pairs are matched at once; a pod whose scheduler is Walras and that waits long goes alone."""
    made = LONG_AGO if way == "late" else "2026-01-31T12:00:00Z"
    kind = "scheduler" if way == "late" else "gate"
    rules = market(colocation={} if way == "late" else PAIRED)
    coming = [waits(name, kind, made, tolerations=stands) for name in ("x", "y")]
    decision = decide(world(rules, *TENANTS[1:-2], {**node(), **GOES_ON[row]}, *coming))
    sent = {each.pod.name: each.node for each in decision.placements if each.node}
    accepts = row in TAKES_PODS or (bool(stands) and row in TAKES_WHAT_STANDS_TAINTS)
    assert sent == ({"x": "n1", "y": "n1"} if accepts else {})


def test_a_node_that_is_gone_has_no_grants_and_its_pods_say_so() -> None:
    gone = decide(world(*TENANTS, agents={"n1"}))
    assert not gone.nodes
    _, reason, message = condition(gone, "MarketJob", "train", "lab")
    assert reason == "Waiting"
    assert "runs on n1, which is not there any more" in message


def test_a_label_takes_a_node_out_of_the_market() -> None:
    """What it was granted ends, even if its agent is silent or its kubelet not ready meanwhile."""
    before = world(*TENANTS, node())
    settled = enforced(outcome(before, decide(before)))
    off = {"name": "n1", "uid": "Node--n1", "labels": {"walras.dev/mode": "off"}}
    for ready in (True, False):
        nodes = world({**node(ready=ready), "metadata": off}).objects.nodes
        left = replace(settled, objects=replace(settled.objects, nodes=nodes))
        assert grants(decide(left)) == {"n1": {}}
        silent = replace(left, agents=frozenset(), silent_agents=frozenset({"n1"}))
        assert grants(decide(silent)) == {"n1": {}}
