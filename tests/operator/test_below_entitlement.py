"""Users who hold less than they are entitled to, and what is said about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from walras.rounding_credit import MOST
from walras.speedup import speedup
from walras_operator.decision import decide
from walras_operator.quanta import TIME
from worlds import condition, entitlement, job, market, node, outcome, pod, status, world

if TYPE_CHECKING:
    from walras_operator.world import Decision, World

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def two_users(cores: str, *, averaging: int = 0, shares: int = 1) -> World:
    """A node and two users with a job each; ada has as many shares as given, bob has one."""
    users = [entitlement("ada", shares=shares), entitlement("bob")]
    jobs = [job(name, name, parallelFraction="0.9") for name in ("ada", "bob")]
    pods = [pod(f"{name}-0", name) for name in ("ada", "bob")]
    rules = market(cores={"averagingSeconds": averaging, "hysteresis": "0.02"})
    return world(rules, node(cpu=cores), *users, *jobs, *pods)


def held(decision: Decision) -> list[float]:
    """The cores that ada and bob hold."""
    assert decision.plan is not None
    return [each.held_cores for each in decision.plan.users]


def followed(known: World, seconds: int, step: int = 5) -> tuple[list[Decision], World]:
    """Decide every few seconds; return all decisions, and the world after them."""
    decisions = []
    for passed in range(0, seconds, step):
        now = START + timedelta(seconds=passed)
        decisions.append(decide(replace(known, now=now.strftime(TIME))))
        known = outcome(known, decisions[-1])
    return decisions, known


def test_rounding_that_takes_half_a_core_is_said() -> None:
    """Each of two users is entitled to 1.5 of three cores, and one of them gets one."""
    decision = decide(two_users("3"))
    utilities = [status(decision, "Entitlement", name)["utility"] for name in ("ada", "bob")]
    assert [float(each["now"]) for each in utilities] == pytest.approx([speedup(2, 0.9), 1], 1e-5)
    for each in utilities:
        assert float(each["bought"]) == pytest.approx(speedup(1.5, 0.9), 1e-5)
        assert each["atEntitlement"] == each["bought"]
    assert condition(decision, "Entitlement", "ada", type_="Entitled")[:2] == (
        "True",
        "AtEntitlement",
    )
    state, reason, message = condition(decision, "Entitlement", "bob", type_="Entitled")[:3]
    assert (state, reason) == ("False", "BelowEntitlement")
    assert "entitled to 1.50 cores and holds 1.00" in message
    assert "trade: +0.00, rounding and hysteresis: -0.50" in message


def test_users_who_hold_what_they_are_entitled_to_are_at_their_entitlement() -> None:
    decision = decide(two_users("4"))
    for name in ("ada", "bob"):
        assert condition(decision, "Entitlement", name, type_="Entitled")[1] == "AtEntitlement"


def test_without_jobs_nothing_is_said() -> None:
    decision = decide(world(market(), node(), entitlement("ada")))
    told = status(decision, "Entitlement", "ada")
    assert {each["type"] for each in told["conditions"]} == {"Ready"}
    assert "utility" not in told


def test_the_odd_core_goes_to_and_fro_so_that_both_hold_half_of_it_on_average() -> None:
    decisions, _ = followed(two_users("3", averaging=600), 1200)
    total = [sum(each) / len(decisions) for each in zip(*map(held, decisions), strict=True)]
    assert total == pytest.approx([1.5, 1.5], rel=0.02)
    moves = sum(held(one) != held(other) for one, other in pairwise(decisions))
    assert 1200 / 60 <= moves <= 1200 / 15
    assert min(each.rounding_due or 0 for each in decisions) > 0


def test_rounding_that_gives_back_what_it_takes_leaves_nobody_below_its_entitlement() -> None:
    decision = decide(two_users("3", averaging=600))
    state, reason, message = condition(decision, "Entitlement", "bob", type_="Entitled")[:3]
    assert (state, reason) == ("True", "AtEntitlement")
    assert "averaged over 600 s: rounding now takes 0.50 cores" in message


def test_rounding_that_cannot_give_back_what_it_takes_is_said_in_the_end() -> None:
    """Bob's half of a core has one for itself, always; one and a half are left of ada's two."""
    decisions, _ = followed(two_users("2", averaging=60, shares=3), 60)
    reasons = [
        condition(each, "Entitlement", "ada", type_="Entitled")[1]
        for each in (decisions[0], decisions[-1])
        if any(write.object.name == "ada" for write in each.statuses)
    ]
    last = decisions[-1].carried.rounding["ada"]
    assert last.relative(60) == MOST
    assert reasons[0] == "AtEntitlement"
    assert [held(each) for each in decisions] == [[1.0, 1.0]] * len(decisions)


def test_a_new_leader_goes_on_with_the_credits_that_statuses_have() -> None:
    _, known = followed(two_users("3", averaging=600), 40)
    written = {
        each.metadata.name: float((each.status or {})["cores"]["roundingCredit"])
        for each in known.objects.entitlements
    }
    assert written["ada"] == -written["bob"] != 0
    first = decide(replace(known, carried=None, now=known.now))
    assert {
        name: round(each.core_seconds, 1) for name, each in first.carried.rounding.items()
    } == written


@pytest.mark.parametrize("status_of_cores", [None, {}, {"roundingCredit": "nan"}, "wrong"])
def test_a_status_without_a_credit_is_no_reason_to_stop(status_of_cores: object) -> None:
    known = two_users("3", averaging=600)
    broken = [
        each.model_copy(update={"status": {"cores": status_of_cores}})
        for each in known.objects.entitlements
    ]
    decision = decide(replace(known, objects=replace(known.objects, entitlements=broken)))
    assert {each.core_seconds for each in decision.carried.rounding.values()} == {0.0}


def test_a_clock_that_is_set_back_changes_no_credit() -> None:
    decisions, known = followed(two_users("3", averaging=600), 40)
    again = decide(replace(known, now=START.strftime(TIME)))
    assert again.carried.rounding == decisions[-1].carried.rounding
