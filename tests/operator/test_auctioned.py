"""Auctions as the operator tells of them: budgets, objectives and why they are missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from walras_operator.decide.status.changes import worth_writing
from whole_decisions import decide
from worlds import condition, entitlement, job, market, node, outcome, pod, status, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document
    from whole_decisions import Decision

CORES: Document = {"cores": {"mechanism": "Auction"}}
BOTH: Document = {**CORES, "memory": {"mechanism": "Auction"}}


def bidder(name: str, budget: str, minimum: str | None = None, **spec: Any) -> dict[str, Any]:
    auction = {"budget": budget} | ({} if minimum is None else {"minimumUtility": minimum})
    return job(name, auction=auction, **spec)


def overloaded(minimum: str = "0.4", cores: str = "9") -> Decision:
    """Three jobs of one entitlement on a node, of which two at most can have what they demand."""
    jobs = [bidder(f"j{number}", str(4 - number), minimum) for number in range(3)]
    pods = [pod(f"j{number}-0", f"j{number}") for number in range(3)]
    return decide(world(market(**CORES), entitlement(), node(cpu=cores), *jobs, *pods))


def test_money_moves_to_the_jobs_whose_objectives_it_pays_for() -> None:
    decision = overloaded()
    told = [status(decision, "MarketJob", f"j{number}", "lab") for number in range(3)]
    assert [each["auction"]["minimum"] for each in told] == ["0.4"] * 3
    assert all(float(each["auction"]["utility"]) >= 0.4 for each in told[:2])
    assert float(told[2]["auction"]["budget"]) < 9 * 2 / 9
    assert sum(float(each["auction"]["budget"]) for each in told) == pytest.approx(9, rel=1e-5)
    assert sum(float(each["spend"]) for each in told) == pytest.approx(9, rel=1e-5)
    held = [float(each["pods"][0]["held"]) for each in told]
    assert held[:2] == pytest.approx([3.6, 3.6], abs=0.01)
    assert sum(held) == pytest.approx(9)


def test_conditions_say_whether_and_why() -> None:
    decision = overloaded()
    found = [
        condition(decision, "MarketJob", f"j{number}", "lab", type_="ObjectiveMet")
        for number in range(3)
    ]
    assert [each[:2] for each in found] == [
        ("True", "Met"),
        ("True", "Met"),
        ("False", "Unaffordable"),
    ]
    assert "costs more than vision's budget pays for" in found[2][2]
    assert "raise the budget or shares of Entitlement vision" in found[2][2]
    unreachable = overloaded("1.5")
    for number in range(3):
        told = condition(unreachable, "MarketJob", f"j{number}", "lab", type_="ObjectiveMet")
        assert told[:2] == ("False", "OutOfReach")


def test_nothing_is_promised_where_nothing_is_auctioned() -> None:
    jobs = [bidder("train", "1", "0.4")]
    decision = decide(world(market(), entitlement(), node(), *jobs, pod("train-0")))
    told = condition(decision, "MarketJob", "train", "lab", type_="ObjectiveMet")
    assert told[:2] == ("Unknown", "NoAuction")
    assert "auction" not in status(decision, "MarketJob", "train", "lab")


def test_a_job_without_an_objective_has_no_such_condition() -> None:
    decision = decide(world(market(**CORES), entitlement(), node(), job(), pod("train-0")))
    told = status(decision, "MarketJob", "train", "lab")
    assert "ObjectiveMet" not in {each["type"] for each in told["conditions"]}
    assert (told["spend"], told["auction"]["budget"]) == ("0", "8")  # nobody bids against it


def test_cores_and_memory_of_pods_on_two_nodes_are_one_bid() -> None:
    memory = {"demand": "8Gi"}
    jobs = [bidder("a", "1", "0.5", memory=memory), bidder("b", "1", memory=memory)]
    pods = [pod("a-0", "a", "n1"), pod("a-1", "a", "n2"), pod("b-0", "b", "n1")]
    decision = decide(world(market(**BOTH), entitlement(), node("n1"), node("n2"), *jobs, *pods))
    told = {name: status(decision, "MarketJob", name, "lab") for name in "ab"}
    assert told["a"]["auction"]["budget"] == told["b"]["auction"]["budget"] == "8"
    assert float(told["a"]["auction"]["utility"]) > 1
    assert [each["node"] for each in told["a"]["pods"]] == ["n1", "n2"]
    (alone,) = (each for each in told["a"]["pods"] if each["node"] == "n2")
    assert alone["held"] == "8"


def test_an_objective_that_is_met_or_missed_is_an_event() -> None:
    told = {each.object.name: each for each in overloaded().events if "minimum" in each.message}
    assert {name: (each.type, each.reason) for name, each in told.items()} == {
        "j0": ("Normal", "Met"),
        "j1": ("Normal", "Met"),
        "j2": ("Warning", "Unaffordable"),
    }


def test_budgets_that_hardly_move_are_not_written_again() -> None:
    before = status(overloaded(), "MarketJob", "j0", "lab")
    assert not worth_writing(before, _with_budget(before, 1.001))
    assert worth_writing(before, _with_budget(before, 1.01))


def _with_budget(told: Document, factor: float) -> Document:
    budget = str(float(told["auction"]["budget"]) * factor)
    return {**told, "auction": {**told["auction"], "budget": budget}}


def test_nothing_more_is_to_write_after_a_decision() -> None:
    documents = [
        market(**CORES), entitlement(), node(),
        *(bidder(f"j{n}", str(4 - n), "0.4") for n in range(3)),
        *(pod(f"j{n}-0", f"j{n}") for n in range(3)),
    ]  # fmt: skip
    before = world(*documents)
    first = decide(before)
    for leader_changes in (False, True):
        again = decide(outcome(before, first, leader_changes=leader_changes))
        assert not again.statuses
        assert not again.nodes


def test_weights_that_runs_show_are_told_with_their_intervals() -> None:
    runs = [
        {"cores": cores, "memory": memory, "utility": utility}
        for cores, memory, utility in (
            ("0.5", "0.2", "0.0032"),
            ("0.2", "0.5", "0.0017"),
            ("0.7", "0.3", "0.0046"),
            ("0.3", "0.7", "0.0025"),
        )
    ]
    spec: Document = {"auction": {"runs": runs}, "memory": {"demand": "4Gi"}}
    decision = decide(world(market(**BOTH), entitlement(), node(), job(**spec), pod("train-0")))
    told = status(decision, "MarketJob", "train", "lab")["auction"]["weights"]
    assert (told["source"], told["runs"]) == ("Estimated", 4)
    for each in (told["cores"], told["memory"]):
        assert float(each["lower"]) <= float(each["value"]) <= float(each["upper"])
    assert float(told["cores"]["value"]) > 1.5
    plain = decide(world(market(**BOTH), entitlement(), node(), job(), pod("train-0")))
    told = status(plain, "MarketJob", "train", "lab")["auction"]["weights"]
    one = {"value": "1"}
    counts = {"runs": 0, "recorded": 0}
    assert told == {"source": "Equal", "cause": "TooFew", **counts, "cores": one, "memory": one}
