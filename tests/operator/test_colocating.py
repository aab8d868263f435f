"""Pods that wait, through decisions: where they are sent, who is let go, and what is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras_api.contract import COLOCATION_GATE, PARTNER_ANNOTATION
from walras_api.waiting import left_to_the_scheduler, node_of, waiting_method
from whole_decisions import decide
from worlds import NOW, entitlement, job, market, node, outcome, pod, profile, status, world

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras_api.cluster import Pod
    from walras_operator.decide.world import Document, World
    from whole_decisions import Decision

LONG_AGO = "2026-01-31T11:00:00Z"
PAIRED = {"policy": "StableRoommates"}
Ways = pytest.mark.parametrize("way", ["gate", "scheduler"])


def waits(
    name: str, app: str = "train", way: str = "gate", created: str = NOW, **spec: Any
) -> Document:
    """Return a pod that waits to be placed."""
    found = pod(name, app, None, cpu=spec.pop("cpu", "1"), creationTimestamp=created)
    by = (
        {"schedulingGates": [{"name": COLOCATION_GATE}]}
        if way == "gate"
        else {"schedulerName": COLOCATION_GATE}
    )
    found["spec"] = {**found["spec"], **by, **spec}
    return found


def of(decision: Decision) -> dict[str, str]:
    """Return the node on which each pod is placed; none if the pod is let go without one."""
    return {each.pod.name: each.node for each in decision.placements}


def told(decision: Decision, job_: str, name: str) -> Document:
    pods = status(decision, "MarketJob", job_, "lab")["pods"]
    found: Document = next(each for each in pods if each["name"] == name)
    return found


def two_jobs(*pods: Document, **fields: Any) -> World:
    return world(
        market(colocation=PAIRED, **fields), entitlement(), job("a"), job("b"), node("n1"), *pods
    )


@Ways
def test_a_pair_is_sent_to_one_node(way: str) -> None:
    before = two_jobs(waits("x", "a", way), waits("y", "b", way))
    decision = decide(before)
    assert of(decision) == {"x": "n1", "y": "n1"}
    first, second = decision.placements
    assert (first.way, second.way) == (way, way)
    assert first.body["metadata"]["uid"] == "u-lab-x"
    assert first.body["metadata"]["annotations"] == {PARTNER_ANNOTATION: "u-lab-y"}
    if way == "gate":
        assert first.body["spec"]["schedulingGates"] is None
        (term,) = first.body["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        assert term == {
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
        }
    else:
        assert first.body["target"]["name"] == "n1"
    assert told(decision, "a", "x")["colocation"] == {
        "partner": "lab/b (y)",
        "predictedPenalty": "0.05",
        "recommendation": "Participate",
    }
    after = outcome(before, decision)
    assert not decide(after).placements
    assert told(decide(replace(after, objects=before.objects)), "a", "x")["node"] == "n1"


def test_agents_are_told_of_partners_that_name_each_other() -> None:
    """Whoever makes a pod can name any other one as its partner."""

    def runs(name: str, partner: str | None) -> Document:
        named = {} if partner is None else {PARTNER_ANNOTATION: f"u-lab-{partner}"}
        return pod(name, "a", "n1", annotations=named)

    pods = (
        runs("x", "y"),
        runs("y", "x"),
        runs("lure", "x"),
        runs("left", "gone"),
        runs("z", None),
    )
    (node_write,) = (each for each in decide(two_jobs(*pods)).nodes if each.node == "n1")
    partners = {each["name"]: each.get("partnerUID") for each in node_write.spec["grants"]}
    assert partners == {"x": "u-lab-y", "y": "u-lab-x", "lure": None, "left": None, "z": None}


def test_each_of_several_terms_is_narrowed_and_other_gates_stay() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}
    rank = {"matchExpressions": [{"key": "rank", "operator": "In", "values": ["1"]}]}
    required = {"nodeSelectorTerms": [zone, rank]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    (placement,) = decide(two_jobs(waits("x", "a", affinity=affinity))).placements
    here = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    found = placement.body["spec"]["affinity"]["nodeAffinity"]
    assert found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {**zone, "matchFields": here},
        {**rank, "matchFields": here},
    ]
    gates = [{"name": "quota"}, {"name": COLOCATION_GATE}]
    late = waits("x", "a", created=LONG_AGO, schedulingGates=gates)
    (placement,) = decide(two_jobs(late)).placements
    assert (placement.node, placement.body["spec"]) == ("", {"schedulingGates": [gates[0]]})


def test_between_two_matchings_pods_wait_and_their_reason_stays() -> None:
    crowd = [waits(f"x{number}", "a") for number in range(4)]
    before = two_jobs(*crowd)
    decision = decide(before)
    assert len(decision.placements) == 2
    waiting = [
        each["name"]
        for each in status(decision, "MarketJob", "a", "lab")["pods"]
        if each["state"] == "Waiting"
    ]
    assert len(waiting) == 2
    after = replace(outcome(before, decision), matching=False)
    quiet = decide(after)
    assert not quiet.placements
    assert not quiet.statuses


@pytest.mark.parametrize(
    "fields",
    [
        {"colocation": {"policy": "None"}},
        {"mode": "observe", "colocation": PAIRED},
        {"colocation": {**PAIRED, "timeoutSeconds": 3600}},
    ],
)
@Ways
def test_whoever_has_waited_long_enough_is_let_go(way: str, fields: dict[str, Any]) -> None:
    documents = [entitlement(), job("a"), node("n1"), node("full", "1"), pod("r", "a", "full")]
    late = waits("late", "a", way, LONG_AGO, cpu="3")
    strange = waits("strange", "nobody", way, LONG_AGO)
    young = waits("young", "nobody", way)
    found = of(decide(world(market(**fields), *documents, late, strange, young)))
    released = "" if way == "gate" else "n1"
    assert found["strange"] == released
    assert found["late"] in {released, "n1"}
    assert "young" not in found


@Ways
def test_nobody_waits_for_a_market_that_is_not_there(way: str) -> None:
    found = of(decide(world(node("n1"), waits("x", "a", way, LONG_AGO))))
    assert found == {"x": "" if way == "gate" else "n1"}


def test_one_that_fits_nowhere_is_let_go_by_its_gate_and_waits_on_without_a_scheduler() -> None:
    gated = waits("g", "a", "gate", LONG_AGO, cpu="99")
    other = waits("s", "a", "scheduler", LONG_AGO, cpu="99")
    assert of(decide(two_jobs(gated, other))) == {"g": ""}


def test_what_only_a_scheduler_can_judge_is_let_go_at_once() -> None:
    claim: dict[str, Any] = {
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    }
    gated, other = waits("g", "a", "gate", **claim), waits("s", "a", "scheduler", **claim)
    decision = decide(two_jobs(gated, other))
    assert of(decision) == {"g": ""}
    assert "persistent volumes" in told(decision, "a", "s")["reason"]


def test_jobs_that_avoid_each_other_do_not_meet_and_loners_stay_alone() -> None:
    shy = job("shy", colocation={"avoid": [{"name": "b"}]})
    loner = job("loner", colocation={"participate": False})
    pods = [waits("x", "shy"), waits("y", "b"), waits("z", "loner"), waits("w", "b")]
    documents = [market(colocation=PAIRED), entitlement(), shy, job("b"), loner]
    nodes = [node(f"n{number}") for number in range(3)]
    decision = decide(world(*documents, *nodes, *pods))
    sent = of(decision)
    assert sent["y"] == sent["w"]
    assert len({sent["x"], sent["y"], sent["z"]}) == 3
    assert "partner" not in told(decision, "loner", "z")["colocation"]


@pytest.mark.parametrize("policy", ["None", "Greedy"])
def test_one_that_waited_long_enough_is_not_bound_beside_one_that_it_avoids(policy: str) -> None:
    """Node n1 has more CPUs free than n2, which two others fill, and pods of ``index``."""
    where = {"index": "n1", "f": "n2"}
    there = [pod(f"{app}{k}", app, at) for k in (0, 1) for app, at in where.items()]
    documents = [
        *(market(colocation={"policy": policy}), entitlement()),
        *(job("web", colocation={"avoid": [{"name": "index"}]}), job("index"), job("f")),
        *(node("n1", "16"), node("n2", "8"), *there),
    ]
    late = [waits("w0", "web", "scheduler", LONG_AGO), waits("f2", "f", "scheduler", LONG_AGO)]
    assert of(decide(world(*documents, *late))) == {"w0": "n2", "f2": "n1"}
    full = world(*documents, waits("w0", "web", "scheduler", LONG_AGO, cpu="7"))
    decision = decide(full)
    assert not decision.placements
    assert told(decision, "web", "w0")["state"] == "Waiting"
    assert "that it avoids" in told(decision, "web", "w0")["reason"]
    assert not decide(outcome(full, decision)).statuses
    gone = replace(
        full.objects, pods=[each for each in full.objects.pods if each.spec.node_name != "n1"]
    )
    assert of(decide(replace(full, objects=gone))) == {"w0": "n1"}


def test_those_that_avoid_each_other_and_waited_long_enough_are_bound_one_by_one() -> None:
    shy = job("shy", colocation={"avoid": [{"name": "b"}, {"name": "shy"}]})
    documents = [market(colocation={"policy": "None"}), entitlement(), shy, job("b")]
    names = {"b0": "b", "shy0": "shy", "shy1": "shy"}
    pods = [waits(name, app, "scheduler", LONG_AGO) for name, app in names.items()]
    decision = decide(world(*documents, node("n1"), node("n2"), *pods))
    assert of(decision) == {"b0": "n2", "shy0": "n1"}
    assert "that it avoids" in told(decision, "shy", "shy1")["reason"]


@pytest.mark.parametrize(("namespace", "bound"), [("lab", {}), ("web", {"late": "n1"})])
def test_jobs_of_other_namespaces_do_not_keep_one_waiting_for_ever(
    namespace: str, bound: dict[str, str]
) -> None:
    """A pod on the only node avoids the one that has waited long enough."""
    shy = job("shy", namespace=namespace, colocation={"avoid": [{"name": "b", "namespace": "lab"}]})
    there = pod("shy0", "shy", "n1", namespace=namespace)
    late = waits("late", "b", "scheduler", LONG_AGO)
    documents = [market(colocation={"policy": "None"}), entitlement(), shy, job("b"), node("n1")]
    assert of(decide(world(*documents, there, late))) == bound


def test_measured_penalties_decide_and_are_told() -> None:
    costs = {"a": {"a": "0.5", "b": "0.1"}, "b": {"a": "0.2", "b": "0.4"}}
    profiles = [
        profile(
            name,
            parallelFraction="0.9",
            penalties=[{"profile": each, "penalty": cost} for each, cost in row.items()],
        )
        for name, row in costs.items()
    ]
    pods = [waits(f"{app}{number}", app) for app in "ab" for number in range(2)]
    jobs = [job(name, profile=name) for name in "ab"]
    decision = decide(
        world(
            market(colocation=PAIRED),
            entitlement(),
            *profiles,
            *jobs,
            node("n1"),
            node("n2"),
            *pods,
        )
    )
    company = told(decision, "a", "a0")["colocation"]
    assert company["partner"].startswith("lab/b ")
    assert (company["predictedPenalty"], company["measuredPenalty"]) == ("0.1", "0.1")


@examples(40)
@given(st.integers(0, 2**32 - 1))
def test_whatever_happens_nobody_waits_for_ever_and_no_node_is_overfull(seed: int) -> None:
    """Operators end among their writes, nodes are lost and pods come late; time goes on."""
    random = np.random.default_rng(seed)
    pods = [
        waits(
            f"p{number}",
            str(random.choice(["a", "b", "nobody"])),
            str(random.choice(["gate", "scheduler"])),
            cpu=str(random.integers(1, 7)),
        )
        for number in range(9)
    ]
    nodes = [node(f"n{number}", str(random.integers(4, 9))) for number in range(3)]
    documents = [market(colocation=PAIRED), entitlement(), job("a"), job("b")]
    present = world(*documents, *nodes, *pods[:6])
    late = world(*documents, *nodes, *pods)
    before: dict[str, str | None] = {}
    for epoch in range(4):
        if epoch == 1:
            known = {each.metadata.uid: each for each in present.objects.pods}
            everybody = [known.get(each.metadata.uid, each) for each in late.objects.pods]
            present = replace(present, objects=replace(present.objects, pods=everybody))
        if epoch == 3:
            present = replace(present, now="2026-01-31T13:00:00Z")
        decision = decide(present)
        done = int(random.integers(0, len(decision.placements) + 1)) if epoch < 3 else None
        cut = replace(decision, placements=decision.placements[:done])
        now = present.now
        present = replace(outcome(present, cut, leader_changes=True), now=now)
        found = {each.metadata.name: node_of(each) for each in present.objects.pods}
        assert all(found[name] == where for name, where in before.items() if where)
        before = found
        for each in present.objects.nodes:
            there = [
                every for every in present.objects.pods if node_of(every) == each.metadata.name
            ]
            assert _cpu_requested(there) <= each.cores * 1000
    for pod_ in present.objects.pods:
        assert waiting_method(pod_) != "gate"
        assert waiting_method(pod_) is None or _fits_nowhere(pod_, present)


def _cpu_requested(pods: Iterable[Pod]) -> int:
    """Return the thousandths of a CPU that pods request."""
    return sum(dict(each.effective_requests)["cpu"] for each in pods)


def _fits_nowhere(pod_: Pod, present: World) -> bool:
    assert not left_to_the_scheduler(pod_)
    need = dict(pod_.effective_requests)["cpu"]
    for each in present.objects.nodes:
        there = [every for every in present.objects.pods if node_of(every) == each.metadata.name]
        if each.cores * 1000 - _cpu_requested(there) >= need:
            return False
    return True


def test_a_partner_left_behind_follows_under_the_next_leader() -> None:
    before = two_jobs(waits("x", "a"), waits("y", "b"))
    decision = decide(before)
    half = replace(decision, placements=decision.placements[:1])
    after = replace(outcome(before, half, leader_changes=True), matching=False)
    second = decide(after)
    assert of(second) == {"y": "n1"}
    assert second.placements[0].body["metadata"]["annotations"] == {PARTNER_ANNOTATION: "u-lab-x"}


@Ways
def test_no_annotation_of_a_tenant_sends_pods_of_others_to_a_node(way: str) -> None:
    lure = pod("lure", "evil", "n2", annotations={PARTNER_ANNOTATION: "u-lab-y"})
    cluster = world(
        *(market(colocation=PAIRED), entitlement(), job("a"), job("b"), job("evil")),
        *(node("n1"), node("n2"), waits("x", "a", way), waits("y", "b", way), lure),
    )
    assert of(decide(cluster)) == {"x": "n1", "y": "n1"}
    assert of(decide(replace(cluster, matching=False))) == {}


def test_it_is_said_that_the_operator_may_not_place_pods_and_tried_again() -> None:
    before = two_jobs(waits("x", "a"), waits("y", "b"))
    decision = decide(replace(before, unplaceable="pods is forbidden"))
    assert of(decision) == {"x": "n1", "y": "n1"}, "the right may have been given by now"
    found = told(decision, "a", "x")
    assert found["state"] == "Waiting"
    assert found["reason"] == "waits: the operator may not place pods: pods is forbidden"
