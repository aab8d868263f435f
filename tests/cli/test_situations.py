"""The input that `walras what-if` clears is the operator's, with and without changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from seen import decided
from walras.clearing import clear
from walras_api.assembly import policy_of
from walras_cli.cluster_documents import documents_of
from walras_cli.what_if.changes import overlaid
from walras_cli.what_if.situation import Situation, situation_of_documents, situation_of_world
from whole_decisions import decide
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from walras.market.plan import Plan
    from walras_operator.decide.world import Document, World


def base(*more: Document, **rules: Any) -> list[Document]:
    return [
        market(**rules),
        entitlement("vision"),
        entitlement("speech"),
        node("n1", "8"),
        job("a", "vision"),
        job("b", "speech"),
        pod("a-0", "a"),
        pod("b-0", "b"),
        *more,
    ]


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Situation]:
    """Return a function that makes a situation of a world and documents that change it."""

    def situation(world: World, *documents: Document) -> Situation:
        file = tmp_path / "change.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        objects = replace(world.objects, rules=world.markets[0].spec)
        return situation_of_world(
            world, overlaid(objects, documents_of([file] if documents else []))
        )

    return situation


def plan_of(situation: Situation) -> Plan:
    return clear(situation.snapshot, policy_of(situation.rules))


def cores(situation: Situation) -> dict[str, float]:
    return {grant.pod: grant.held for grant in plan_of(situation).grants}


def test_a_cluster_as_it_is_comes_to_what_the_operator_decides(
    changed: Callable[..., Situation],
) -> None:
    world = decided(*base())
    plan = decide(world).plan
    assert plan is not None
    assert plan_of(changed(world)).grants == plan.grants


def test_an_entitlement_with_other_shares_moves_cores(changed: Callable[..., Situation]) -> None:
    world = decided(*base())
    assert cores(changed(world)) == {"a-0": 4, "b-0": 4}
    assert cores(changed(world, entitlement("vision", shares=3))) == {"a-0": 6, "b-0": 2}


@pytest.mark.parametrize(("hysteresis", "moves"), [("0", True), ("0.5", False)])
def test_cores_stay_where_moving_them_gains_too_little(
    changed: Callable[..., Situation], hysteresis: str, moves: bool
) -> None:
    """Jobs' cores are read from their statuses, which stay when specs are replaced."""
    world = decided(*base(job("c", "vision"), pod("c-0", "c"), cores={"hysteresis": hysteresis}))
    before = cores(changed(world))
    after = cores(changed(world, job("a", "vision", work="1.1"), job("c", "vision")))
    assert (after != before) == moves


def problems(situation: Situation) -> list[str]:
    """Return what is said, but for nodes without an agent's report of their cores."""
    return [each for each in situation.notes if not each.startswith("nodes whose cores no agent")]


def test_a_dump_is_cleared_as_the_cluster_is(tmp_path: Path) -> None:
    """Cores that jobs hold are in their statuses."""
    documents = base(job("c", "vision"), pod("c-0", "c"), cores={"hysteresis": "0.5"})
    statuses = {each.metadata.name: each.status for each in decided(*documents).objects.jobs}
    for each in documents:
        if each["kind"] == "MarketJob":
            each["status"] = statuses[each["metadata"]["name"]]
    documents[4]["spec"]["work"] = "1.1"
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    dump = situation_of_documents(documents_of([file]), "dump.yaml", None)
    assert {key[1]: held for key, held in (dump.snapshot.held or {}).items()} == {
        "a": 2,
        "b": 4,
        "c": 2,
    }
    assert cores(dump) == {"a-0": 2, "b-0": 4, "c-0": 2}
    assert problems(dump) == []


def test_credits_that_a_dump_does_not_have_are_named(tmp_path: Path) -> None:
    documents = base(memory={"mechanism": "Karma"})
    documents[0]["status"] = {"ledger": {"parts": ["gone"]}}
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    (note,) = problems(situation_of_documents(documents_of([file]), "dump.yaml", None))
    assert "credits cannot be read" in note


def test_a_job_that_replaces_another_is_as_old_as_it(changed: Callable[..., Situation]) -> None:
    """So that it does not lose its pods to one that selects them too."""
    older, younger = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    both: dict[str, Any] = {"selector": {"matchLabels": {"app": "a"}}}
    world = decided(
        market(),
        entitlement("vision"),
        node(),
        job("first", "vision", created=older, **both),
        job("second", "vision", created=younger, **both),
        pod("a-0", "a"),
    )
    (grant,) = plan_of(changed(world, job("first", "vision", work="3", **both))).grants
    assert grant.name == "first"


def test_a_node_more_sells_its_cores(changed: Callable[..., Situation]) -> None:
    """It has no agent yet; but it would."""
    situation = changed(decided(*base()), node("n2", "4"), pod("a-1", "a", "n2"))
    assert {each.name: each.cores for each in plan_of(situation).nodes} == {"n1": 8, "n2": 4}
    assert cores(situation)["a-1"] == 4


def test_a_job_with_its_pods_takes_part(changed: Callable[..., Situation]) -> None:
    situation = changed(decided(*base()), job("c", "vision"), pod("c-0", "c"))
    assert set(cores(situation)) == {"a-0", "b-0", "c-0"}
    alone = changed(decided(*base()), job("d", "vision"))
    assert "MarketJob lab/d: no pods of it are there" in alone.notes


def test_what_is_broken_can_be_put_right(changed: Callable[..., Situation]) -> None:
    documents = base()
    next(each for each in documents if each["metadata"]["name"] == "vision")["spec"]["shares"] = 0
    world = decided(*documents)
    before = changed(world)
    assert set(cores(before)) == {"b-0"}
    assert any(note.startswith("Entitlement vision: ") for note in before.notes)
    after = changed(world, entitlement("vision"))
    assert cores(after) == {"a-0": 4, "b-0": 4}
    assert problems(after) == []


def test_another_market_is_cleared_by(changed: Callable[..., Situation]) -> None:
    rules = market(cores={"mechanism": "ProportionalSharing", "reservedCores": 2})
    situation = changed(decided(*base()), rules)
    assert plan_of(situation).mechanism == "ProportionalSharing"
    assert sum(cores(situation).values()) == 6


def test_a_job_that_is_refused_is_told_of_once(changed: Callable[..., Situation]) -> None:
    situation = changed(decided(*base(job("c", "nobody"), pod("c-0", "c"))))
    assert [each.name for each in plan_of(situation).refused] == ["c"]
    assert not any("lab/c" in note for note in situation.notes)


def test_nodes_that_sell_nothing_are_told_of(changed: Callable[..., Situation]) -> None:
    situation = changed(decided(*base(), agents={"elsewhere"}))
    assert any(
        note.startswith("nodes that sell no cores: n1 has no agent") for note in situation.notes
    )
