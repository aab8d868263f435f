"""Specs of NodeAllocations: parts of shared cores, and nodes that are left as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest

from model_kernel import MIB, Memory, ModelKernel
from model_node import CORES, Node
from walras_agent.daemon.plans import measurement_request, node_plan
from walras_api.api_object import quantity
from walras_api.contract import PARTNER_ANNOTATION
from walras_api.node_allocation import MIN_MEMORY_GRANT, MOST_GRANTS
from whole_decisions import decide
from worlds import (
    condition,
    document,
    enforced,
    entitlement,
    grants,
    job,
    market,
    node,
    outcome,
    pod,
    status,
    world,
)

if TYPE_CHECKING:
    from pathlib import Path

    from walras_operator.decide.world import World
    from whole_decisions import Decision


def test_a_pool_of_many_small_parts_makes_an_allocation_that_the_schema_takes() -> None:
    sizes = {"rich": (200, 50), "poor": (1, 80)}
    found = world(
        market(),
        node(cpu="1"),
        *(
            entitlement(name, shares=shares, namespaces=[name])
            for name, (shares, _) in sizes.items()
        ),
        *(job(name, name, name) for name in sizes),
        *(
            pod(f"{name}-{number}", name, namespace=name, cpu="0")
            for name, (_, pods) in sizes.items()
            for number in range(pods)
        ),
    )
    (written,) = outcome(found, decide(found)).allocations.values()
    assert len(written.spec.grants) == 130
    assert sum(each.cores for each in written.spec.grants) <= 1


def test_agents_are_told_of_users_and_partners_unless_they_would_refuse_the_plan() -> None:
    pods = (
        pod(one, "train", annotations={PARTNER_ANNOTATION: f"u-lab-{other}"})
        for one, other in ("xy", "yx")
    )
    first = world(market(), node(), entitlement("vision"), job("train"), *pods)
    told = decide(first).nodes[0].spec["grants"]
    assert [each["entitlement"] for each in told] == ["vision"] * 2
    assert [each["partnerUID"] for each in told] == ["u-lab-y", "u-lab-x"]

    current = enforced(outcome(first, decide(first)))
    assert not decide(current).nodes
    (plan,) = current.allocations.values()
    report = {"epoch": 1, "mode": "enforce", "pods": []}  # of version 0.1.0
    old = replace(current, allocations={"n1": plan.model_copy(update={"status": report})})
    decision = decide(old)
    for each in decision.nodes[0].spec["grants"]:
        assert not each.keys() & {"entitlement", "partnerUID"}
    assert not decide(outcome(old, decision)).nodes


def test_agents_are_told_to_keep_limits_once_they_understand_that() -> None:
    rules = market(cores={"limits": "Kept"})
    first = world(rules, node(), entitlement("vision"), job("train"), pod("train-0", "train"))
    assert decide(first).nodes[0].spec["limits"] == "Kept"
    current = enforced(outcome(first, decide(first)))
    assert not decide(current).nodes

    (plan,) = current.allocations.values()
    report = {"epoch": 1, "mode": "enforce", "pods": []}  # of version 0.1.0
    old = replace(current, allocations={"n1": plan.model_copy(update={"status": report})})
    assert "limits" not in decide(old).nodes[0].spec


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("spec", [{}, {"parallelFraction": "0.9"}], ids=["unmeasured", "known"])
def test_before_the_first_entitlement_no_file_of_a_node_is_written(
    version: Literal[1, 2], spec: dict[str, str], tmp_path: Path
) -> None:
    """Whatever the Market and the jobs are: from the decision to the cgroups of all pods."""
    memory = {"mechanism": "Karma", "sliceSize": "256Mi"}
    cores = {"memoryNodes": "local", "floor": "Guaranteed"}
    rules = market(mode="enforce", cores=cores, memory=memory, jobs={"create": "Entitled"})
    labelled = pod("c", "decode", uid="c", labels={"walras.dev/job": ""})
    before = world(
        *(rules, node(), job(auto=True, **spec), pod("a", uid="a"), pod("b", cpu="0", uid="b")),
        *(document("Namespace", "lab"), labelled),
    )
    decision = decide(before)
    assert decision.placements == ()
    (written,) = outcome(before, decision).allocations.values()
    assert written.spec.mode == "enforce"

    held = Node(ModelKernel(version, cpus=CORES), tmp_path)
    for uid in "abc":
        held.start_pod(uid, memory=Memory(MIB, MIB))
    held.agent.offer(node_plan(written))
    for _ in range(3):
        assert held.step().is_enforced
    assert held.kernel.writes == []
    assert measurement_request(written) is None


def sharing(hysteresis: str, shares: int) -> Any:
    """Return a world of eight users' pods on four cores, all of which share them."""
    names = [f"u{number}" for number in range(8)]
    return world(
        market(cores={"hysteresis": hysteresis}),
        *(entitlement(name, shares=1000) for name in names[1:]),
        entitlement(names[0], shares=shares),
        *(job(f"j-{name}", name) for name in names),
        node(cpu="4"),
        *(pod(f"p-{name}", f"j-{name}") for name in names),
    )


@pytest.mark.parametrize(
    ("hysteresis", "shares", "written"),
    [("0.05", 1010, False), ("0.05", 1500, True), ("0", 1020, True)],
    ids=["a little", "a lot", "a little, but every change counts"],
)
def test_parts_of_pools_follow_weights_when_these_move(
    hysteresis: str, shares: int, written: bool
) -> None:
    before = sharing(hysteresis, 1000)
    running = outcome(before, decide(before))
    later = sharing(hysteresis, shares)
    decision = decide(
        replace(running, objects=replace(running.objects, entitlements=later.objects.entitlements))
    )
    assert bool(decision.nodes) is written


def test_a_node_has_no_more_grants_than_its_allocation_has_room_for() -> None:
    pods = [pod(f"p-{number:04d}", cpu="0") for number in range(MOST_GRANTS + 2)]
    decision = decide(world(market(), entitlement(), job(), node(cpu="4"), *pods))
    assert len(grants(decision)["n1"]) == MOST_GRANTS
    message = condition(decision, "MarketJob", "train", "lab")[2]
    assert "2 of 1002 wait: Pod p-1000 n1 has 1000 pods in the market, the limit" in message


def crowded(**strangers: Any) -> World:
    """Return a world with three pods on a node, and 1000 of a stranger if these are described."""
    names = ["x", "y", "z"]
    crowd = [
        pod(f"b-{number:04d}", "b", namespace="attic", cpu="0", **strangers)
        for number in range(MOST_GRANTS if strangers else 0)
    ]
    return world(
        *(market(), entitlement(), entitlement("attic", namespaces=["attic"])),
        *(job(), job("b", "attic", "attic"), node(cpu="8")),
        *(pod(name, cpu="0") for name in names),
        *crowd,
    )


def test_pods_that_no_kubelet_has_admitted_take_nobodys_place_in_a_full_allocation() -> None:
    there = grants(decide(crowded(phase="Pending")))["n1"]
    assert len(there) == MOST_GRANTS
    assert {"x", "y", "z"} <= there.keys()


def test_new_pods_take_no_grant_from_others_in_a_full_allocation() -> None:
    before = crowded()
    running = outcome(before, decide(before))
    later = decide(replace(running, objects=crowded(phase="Running").objects))
    there = grants(later)["n1"]
    assert len(there) == MOST_GRANTS
    assert {"x", "y", "z"} <= there.keys()
    assert condition(later, "MarketJob", "b", "attic")[1] == "Waiting"


@pytest.mark.parametrize(
    ("shares", "memory"),
    [(1, {"demand": "1Gi", "max": "1"}), (1000, {"demand": "1Gi"})],
    ids=["a job that can use one byte", "an entitlement that holds no slice"],
)
def test_no_memory_grant_is_smaller_than_an_agent_enforces(
    shares: int, memory: dict[str, str]
) -> None:
    decision = decide(
        world(
            market(memory={"mechanism": "Strict"}),
            *(entitlement(), entitlement("other", shares=shares)),
            job(memory=memory),
            node(),
            pod("p-0"),
        )
    )
    assert decision.plan is not None
    (held,) = decision.plan.grants
    assert held.memory == 0
    (write,) = decision.nodes
    assert [quantity(each["memory"]) for each in write.spec["grants"]] == [MIN_MEMORY_GRANT]


@pytest.mark.parametrize(("later", "written"), [(0, False), (7, True), (2**53, False)])
def test_a_plan_that_its_agent_has_outgrown_is_written_anew(later: int, *, written: bool) -> None:
    before = world(market(), entitlement(), job(), node(), pod("p-0"))
    running = outcome(before, decide(before))
    (found,) = running.allocations.values()
    reported = {"epoch": found.spec.epoch + later, "acceptsNewFields": True}
    refused = found.model_copy(update={"status": reported})
    decision = decide(replace(running, allocations={"n1": refused}))
    assert [each.spec["grants"] for each in decision.nodes] == [
        each.spec["grants"] for each in decide(before).nodes if written
    ]


class TwoNodes:
    """A world of two users with a job on each of two nodes; the agent of n1 may fall silent."""

    def __init__(self, **rules: Any) -> None:
        self.documents = [
            market(cores={"hysteresis": "0"}, **rules),
            entitlement("lab", shares=1),
            entitlement("shop", shares=1),
            *(job(f"{user}-{name}", user) for user in ("lab", "shop") for name in ("n1", "n2")),
            *(node(name, cpu="8") for name in ("n1", "n2")),
        ]
        self.pods = [
            pod(f"{user}-{name}", f"{user}-{name}", name)
            for user in ("lab", "shop")
            for name in ("n1", "n2")
        ]
        before = world(*self.documents, *self.pods)
        self.running = enforced(outcome(before, decide(before)))

    def after(self, *documents: Any, agents: str = "n2", silent: str = "n1") -> Decision:
        """Return the decision after Markets or Entitlements have changed, or pods come."""
        changed = {(each["kind"], each["metadata"]["name"]): each for each in documents}
        known = {(each["kind"], each["metadata"]["name"]): each for each in self.documents}
        now = world(*{**known, **changed}.values(), *self.pods)
        objects = self.running.objects
        objects = replace(
            objects,
            entitlements=now.objects.entitlements,
            nodes=now.objects.nodes,
            pods=now.objects.pods,
        )
        return decide(
            replace(
                self.running,
                objects=objects,
                markets=now.markets,
                agents=frozenset(agents.split()),
                silent_agents=frozenset(silent.split()),
            )
        )


def test_a_node_whose_agent_is_silent_keeps_its_grants_and_moves_nobody_elses() -> None:
    decision = TwoNodes().after()
    assert decision.nodes == ()
    assert "Node n1: its agent has stopped renewing its Lease walras-agent-n1; its grants stay" in (
        decision.notes
    )


def test_what_changes_meanwhile_moves_cores_on_other_nodes_only() -> None:
    nodes = TwoNodes()
    wanted = entitlement("lab", shares=3)
    assert set(grants(nodes.after(wanted, agents="n1 n2", silent=""))) == {"n1", "n2"}
    assert set(grants(nodes.after(wanted))) == {"n2"}


def test_a_node_that_is_silent_for_too_long_is_given_up() -> None:
    decision = TwoNodes().after(silent="")
    assert grants(decision)["n1"] == {}


def test_a_pod_that_comes_to_a_silent_node_waits_and_is_told_why() -> None:
    nodes = TwoNodes()
    nodes.pods.append(pod("late", "lab-n1", "n1"))
    decision = nodes.after()
    assert "n1" not in grants(decision)
    found = {each["name"]: each for each in status(decision, "MarketJob", "lab-n1", "lab")["pods"]}
    assert found["late"]["state"] == "Waiting"
    assert "grants on n1 do not change now, because its agent" in found["late"]["reason"]


def test_a_silent_node_is_released_like_any_other() -> None:
    decision = TwoNodes().after(market(mode="observe"))
    assert {each.node: each.spec["mode"] for each in decision.nodes} == {
        "n1": "observe",
        "n2": "observe",
    }


@pytest.mark.parametrize(("since", "kept"), [("2026-01-31T11:59:00Z", True), ("", False)])
def test_a_node_that_is_not_ready_keeps_its_grants_for_as_long(since: str, *, kept: bool) -> None:
    down = node("n1", cpu="8")
    down["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": since}
    ]
    decision = TwoNodes().after(down, agents="n1 n2", silent="")
    assert (decision.nodes == ()) is kept
    if kept:  # its pods have what they had, and what its cores are worth still counts
        for name in ("lab-n1", "lab-n2", "shop-n1", "shop-n2"):
            (held,) = status(decision, "MarketJob", name, "lab")["pods"]
            assert (held["state"], held["held"]) == ("Enforced", "4")
