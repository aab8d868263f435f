"""Where plans are enforced: by node and by namespace, at a pace, each kind a market of its own."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from whole_decisions import decide
from worlds import (
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

MODES = ["off", "observe", "enforce"]
GPUS = {"nodeSelector": {"matchLabels": {"pool": "gpu"}}}
USERS = ("ada", "bob")


def labelled(document: Document, **labels: str) -> Document:
    """Return a node or a namespace with labels; MODE stands for the one of Walras."""
    named = {"walras.dev/mode" if key == "MODE" else key: value for key, value in labels.items()}
    return {**document, "metadata": {**document["metadata"], "labels": named}}


def namespace(name: str, **labels: str) -> Document:
    return labelled({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, **labels)


def of_two_users(*nodes: Document, **rules: Any) -> World:
    """Ada and Bob have a pod each on every node; Ada's on n1 can use two cores only."""
    pods = [
        pod(f"{user}-{each['metadata']['name']}", user, each["metadata"]["name"], cpu="0")
        for user, each in product(USERS, nodes)
    ]
    jobs = [job("ada", "ada", parallelFraction="0.5"), job("bob", "bob")]
    return world(market(**rules), *map(entitlement, USERS), *jobs, *nodes, *pods)


def modes(found: World) -> dict[str, str]:
    return {name: each.spec.mode for name, each in found.allocations.items()}


def settled(before: World, rounds: int = 1) -> World:
    """Return the world after some decisions, each of which all agents have carried out."""
    for _ in range(rounds):
        before = enforced(outcome(before, decide(before)))
    return before


def with_market(before: World, **spec: Any) -> World:
    return replace(before, markets=world(market(**spec)).markets)


@pytest.mark.parametrize("of_market", ["observe", "enforce"])
@pytest.mark.parametrize("elsewhere", ["off", "observe"])
@pytest.mark.parametrize("label", [*MODES, None])
@pytest.mark.parametrize("selected", [True, False])
def test_of_all_that_is_said_of_a_node_the_strictest_counts(
    of_market: str, elsewhere: str, label: str | None, *, selected: bool
) -> None:
    labels = ({"pool": "gpu"} if selected else {}) | ({"MODE": label} if label else {})
    there = of_two_users(
        labelled(node(), **labels), mode=of_market, scope={**GPUS, "elsewhere": elsewhere}
    )
    said = [of_market, label or "enforce", "enforce" if selected else elsewhere]
    strictest = min(said, key=MODES.index)
    (written,) = decide(there).nodes
    assert written.spec["mode"] == ("enforce" if strictest == "enforce" else "observe")
    assert bool(written.spec["grants"]) == (strictest != "off")


def test_a_label_that_is_misspelt_writes_nothing() -> None:
    (written,) = decide(of_two_users(labelled(node(), MODE="Enforce"))).nodes
    assert written.spec["mode"] == "observe"


def test_nobody_pays_where_plans_are_enforced_for_what_it_has_where_they_are_not() -> None:
    """Ada would sell her part of n1 for one of n2; where n2 only observes, she has all of it."""
    one, other = node("n1"), node("n2")
    traded = grants(decide(of_two_users(one, other, mode="enforce")))
    alone = grants(decide(of_two_users(one)))
    apart = grants(decide(of_two_users(one, labelled(other, MODE="observe"))))
    assert apart["n1"] == alone["n1"]
    assert apart["n2"].keys() == traded["n2"].keys()
    said = decide(of_two_users(one, labelled(other, MODE="observe")))
    for user in USERS:
        assert status(said, "Entitlement", user)["cores"]["entitled"] == "8"


def test_nodes_begin_to_enforce_a_tenth_at_a_time_and_cease_at_once() -> None:
    nodes = [node(f"n{number:02}") for number in range(20)]
    observed = settled(of_two_users(*nodes, mode="observe"))
    assert set(modes(observed).values()) == {"observe"}
    told = with_market(observed, mode="enforce")
    for done in (2, 4, 6):
        told = outcome(told, decide(told))
        assert sorted(name for name, mode in modes(told).items() if mode == "enforce") == [
            f"n{number:02}" for number in range(done)
        ]
        # Until the agents say that they enforce, no others begin.
        assert modes(outcome(told, decide(told))) == modes(told)
        told = enforced(told)
    back = with_market(told, mode="observe")
    assert set(modes(outcome(back, decide(back))).values()) == {"observe"}


@pytest.mark.parametrize(("given", "at_a_time"), [("1", 1), ("7", 7), ("100%", 20), ("26%", 6)])
def test_the_market_says_how_many_nodes_change_at_a_time(given: str, at_a_time: int) -> None:
    nodes = [node(f"n{number:02}") for number in range(20)]
    observed = settled(of_two_users(*nodes, mode="observe"))
    told = with_market(observed, mode="enforce", scope={"maxChanging": given})
    after = modes(outcome(told, decide(told)))
    assert sum(mode == "enforce" for mode in after.values()) == at_a_time


def test_where_agents_refuse_no_more_nodes_begin() -> None:
    nodes = [node(f"n{number}") for number in range(5)]
    told = with_market(settled(of_two_users(*nodes, mode="observe")), mode="enforce")
    told = outcome(told, decide(told))
    first = told.allocations["n0"]
    refused = {"type": "Ready", "status": "False", "reason": "Refused", "message": "static"}
    reported = {"epoch": first.spec.epoch, "mode": "enforce", "conditions": [refused]}
    stuck = replace(
        told,
        allocations={**told.allocations, "n0": first.model_copy(update={"status": reported})},
    )
    after = modes(outcome(stuck, decide(stuck)))
    assert after == {"n0": "enforce", **{f"n{number}": "observe" for number in range(1, 5)}}


def test_nodes_whose_agents_are_silent_are_passed_over() -> None:
    nodes = [node(f"n{number}") for number in range(5)]
    observed = settled(of_two_users(*nodes, mode="observe"))
    told = replace(
        with_market(observed, mode="enforce"),
        agents=observed.agents - {"n0"},
        silent_agents=frozenset({"n0"}),
    )
    after = modes(outcome(told, decide(told)))
    assert [name for name, mode in after.items() if mode == "enforce"] == ["n1"]


@pytest.mark.parametrize(
    ("label", "of_node", "takes_part"),
    [
        ("off", "enforce", False),
        ("off", "observe", False),
        ("observe", "enforce", False),
        ("observe", "observe", True),
        ("enforce", "enforce", True),
    ],
)
def test_pods_of_a_namespace_that_is_left_out_keep_what_they_requested(
    label: str, of_node: str, *, takes_part: bool
) -> None:
    decision = decide(
        world(
            market(),
            entitlement(),
            entitlement("other", namespaces=["other"]),
            job(),
            job("theirs", "other", "other"),
            labelled(node(), MODE=of_node),
            namespace("other", MODE=label),
            pod("train-0", cpu="0"),
            pod("theirs-0", "theirs", namespace="other", cpu="3"),
        )
    )
    held = grants(decision)["n1"]
    if takes_part:
        assert held.keys() == {"train-0", "theirs-0"}
        return
    assert held == {"train-0": "5"}
    (told,) = status(decision, "MarketJob", "theirs", "other")["pods"]
    assert told["reason"].startswith("its namespace is")
    assert told["state"] == "Waiting"


def test_namespaces_that_no_selector_names_are_left_out() -> None:
    selector = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    there = (entitlement(), job(), node(), pod("train-0", cpu="2"))
    inside = (market(scope=selector), *there, namespace("lab", team="a"))
    outside = (market(scope=selector), *there, namespace("lab", team="b"))
    assert grants(decide(world(*inside))) == {"n1": {"train-0": "8"}}
    assert grants(decide(world(*outside))) == {"n1": {}}
