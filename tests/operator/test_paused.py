"""In a pause, no grant changes, whatever becomes of pods, nodes, the Market and the operator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from walras_operator.lifecycle.release import empty_plan, resumed
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
    status,
    world,
)

if TYPE_CHECKING:
    from walras_operator.decide.world import Document, World

TENANTS = (entitlement(), job(), node("n1"), node("n2"))
PODS = (pod("train-0", place="n1"), pod("train-1", place="n2"))


def running() -> World:
    """Return a market whose agents have enforced its plans."""
    before = world(market(), *TENANTS, *PODS)
    return enforced(outcome(before, decide(before)))


def paused(before: World, *nodes: str) -> World:
    """Return the world after `walras pause` of nodes, or of all and the Market."""
    allocations = {
        name: each.model_copy(update={"spec": each.spec.model_copy(update={"paused": True})})
        if not nodes or name in nodes
        else each
        for name, each in before.allocations.items()
    }
    markets = before.markets if nodes else world(market(paused=True)).markets
    return replace(before, allocations=allocations, markets=markets)


def with_objects(before: World, *documents: Document) -> World:
    """Return the world with other objects, and the same plans."""
    objects = world(*documents).objects
    agents = frozenset(each.metadata.name for each in objects.nodes)
    return replace(before, objects=objects, agents=agents)


ELSE = {
    "nothing": (*TENANTS, *PODS),
    "a pod comes": (*TENANTS, *PODS, pod("train-2", place="n1")),
    "a pod goes": (*TENANTS, PODS[0]),
    "all pods go": TENANTS,
    "shares change": (entitlement(shares=7), *TENANTS[1:], *PODS),
    "a node is cordoned": (*TENANTS[:2], node("n1", unschedulable=True), node("n2"), *PODS),
    "a node is not ready": (*TENANTS[:2], node("n1", ready=False), node("n2"), *PODS),
    "a node comes": (*TENANTS, node("n3"), *PODS, pod("train-3", place="n3")),
}


@pytest.mark.parametrize("change", ELSE)
@pytest.mark.parametrize("new_leader", [False, True])
def test_no_plan_is_written_in_a_pause(change: str, *, new_leader: bool) -> None:
    now = with_objects(paused(running()), *ELSE[change])
    if new_leader:
        now = replace(now, carried=None)
    decision = decide(now)
    assert not any(each.spec["grants"] for each in decision.nodes)
    assert {each.node for each in decision.nodes} <= {"n3"}


def test_one_node_is_paused_alone() -> None:
    more = (pod("train-2", place="n1"), pod("train-3", place="n2"))
    decision = decide(with_objects(paused(running(), "n1"), *TENANTS, *PODS, *more))
    assert grants(decision).keys() == {"n2"}
    told = {each["name"]: each for each in status(decision, "MarketJob", "train", "lab")["pods"]}
    assert told["train-2"]["reason"] == (
        "waits: grants on n1 do not change now, because it is paused, until walras resume"
    )


@pytest.mark.parametrize("gone", [True, False])
def test_the_market_may_be_deleted_or_observe_in_a_pause(*, gone: bool) -> None:
    """Not before walras resume are nodes restored."""
    now = paused(running())
    markets = () if gone else world(market(paused=True, mode="observe")).markets
    assert not decide(replace(now, markets=markets)).nodes


def test_who_resumes_has_the_market_of_today() -> None:
    late = with_objects(running(), *TENANTS, *PODS, pod("train-2", place="n1"))
    assert grants(decide(late))["n1"].keys() == {"train-0", "train-2"}
    assert condition(decide(late), "Market", "default")[1] == "Cleared"


def test_an_uninstall_resumes_a_paused_node_before_it_empties_it() -> None:
    plan = {"epoch": 7, "paused": True, "mode": "enforce", "grants": [{"podUID": "u"}]}
    first = resumed(plan)
    assert first == {"epoch": 7, "mode": "enforce", "grants": [{"podUID": "u"}]}
    assert empty_plan(first, 8) == {"epoch": 8, "mode": "enforce", "grants": []}
