"""The account in the Market's status: it survives leaders and mistakes, and nothing is minted."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from walras.market.balances import UNIT
from walras_operator.decide.credits.account import LONGEST_STEP, STORED_EVERY, account_now
from walras_operator.decide.last_decision import core_account, status_of_market
from walras_operator.decide.world import Account
from walras_service.times import rfc3339
from whole_decisions import decide
from worlds import entitlement, job, market, node, outcome, pod, status, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document, World
    from whole_decisions import Decision

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
EPOCH = 30
ON: Document = {"credits": {"halfLifeHours": 1, "mostShare": "0.2"}}
USERS = ("ada", "bob", "cyd")


def three_users(*present: str, cores: Document = ON, **spec: Any) -> World:
    """A node of 12 cores and three users, some of whom have a job."""
    return world(
        market(cores=cores, **spec),
        node(cpu="12"),
        *map(entitlement, USERS),
        *(job(name, name) for name in present),
        *(pod(f"{name}-0", name) for name in present),
    )


def with_jobs_of(known: World, *present: str) -> World:
    """Return the world with other jobs, and everything else as it is."""
    other = three_users(*present).objects
    return replace(known, objects=replace(known.objects, jobs=other.jobs, pods=other.pods))


def followed(
    known: World, seconds: int, *, start: int = 0, leader_changes: bool = False
) -> tuple[list[Decision], World]:
    """Decide once an epoch; return all decisions, and the world after them."""
    decisions = []
    for passed in range(start, start + seconds, EPOCH):
        now = START + timedelta(seconds=passed)
        decisions.append(decide(replace(known, now=rfc3339(now))))
        known = outcome(known, decisions[-1], leader_changes=leader_changes)
    return decisions, known


def owed(known: World) -> dict[str, float]:
    """Return the core-hours in the account that is stored, which add up to zero exactly."""
    found = core_account(replace(known, carried=None))
    assert isinstance(found, Account)
    assert sum(each.owed for each in found.balances.values()) == 0
    assert sum(each.rate for each in found.balances.values()) == 0
    return {name: each.core_hours for name, each in found.balances.items()}


def owed_at(known: World, seconds: int) -> dict[str, float]:
    """Return the core-hours of the account that is stored, brought forward to a time."""
    found = core_account(known)
    assert isinstance(found, Account)
    now = rfc3339(START + timedelta(seconds=seconds))
    later = account_now(found, now, known.markets[0].spec, (), list(found.balances))
    return {name: each.core_hours for name, each in later.items()}


def written(known: World) -> dict[str, Any]:
    return {
        each.metadata.name: (each.status or {}).get("coreCredits")
        for each in known.objects.entitlements
    }


def test_a_user_without_jobs_earns_credit_and_has_a_larger_budget_later() -> None:
    decisions, known = followed(three_users("ada", "bob"), 1800)
    cyd = written(known)["cyd"]
    assert "budgetFactor" not in cyd
    expected = 4 * (1 - 0.5**0.5) / math.log(2)
    assert owed_at(known, 1800)["cyd"] == pytest.approx(expected, rel=0.01)
    assert 0 < float(cyd["level"]) < 1
    back = decide(replace(with_jobs_of(known, *USERS), now="2026-01-31T12:30:00Z"))
    assert float(status(back, "Entitlement", "cyd")["coreCredits"]["budgetFactor"]) > 1.1
    assert float(status(back, "Entitlement", "ada")["coreCredits"]["budgetFactor"]) < 1
    assert float(status(back, "Entitlement", "cyd")["cores"]["entitled"]) > 4.4
    assert len(decisions) == 60


def test_a_credit_alone_is_written_only_when_it_has_moved_by_a_hundredth_of_its_limit() -> None:
    slow: Document = {"credits": {"halfLifeHours": 24}}
    decisions, _ = followed(three_users("ada", "bob", cores=slow), 3600)
    writes = [sum(write.object.name == "cyd" for write in each.statuses) for each in decisions]
    assert writes[:2] == [1, 0]
    assert sum(writes) == 1 + 3


def stored_by(decisions: list[Decision]) -> list[str]:
    """Return the times of the accounts that decisions stored, each once."""
    written = [
        write.status["account"]["since"]
        for decision in decisions
        for write in decision.statuses
        if write.object.kind == "Market"
    ]
    return sorted(set(written))


def test_balances_that_change_are_stored_every_few_minutes_and_others_once() -> None:
    slow: Document = {"credits": {"halfLifeHours": 24}}
    decisions, _ = followed(three_users("ada", "bob", cores=slow), 3600)
    assert len(stored_by(decisions)) == 3600 // STORED_EVERY
    decisions, _ = followed(three_users("ada", "bob", cores={}), 3600)
    assert len(stored_by(decisions)) == 1


def test_without_the_field_nothing_is_lent() -> None:
    _, known = followed(three_users("ada", "bob", cores={}), 120)
    assert owed(known) == dict.fromkeys(USERS, 0.0)


def test_switching_lending_off_leaves_what_is_owed() -> None:
    _, known = followed(three_users("ada", "bob"), 600)
    before = owed(known)
    off = replace(known, markets=three_users(cores={}).markets)
    off = replace(
        off,
        markets=[
            each.model_copy(update={"status": status_of_market(known)}) for each in off.markets
        ],
    )
    _, after = followed(off, 30, start=600)
    assert owed(after)["cyd"] >= before["cyd"] > 0.3


def test_a_new_leader_goes_on_to_the_bit() -> None:
    _, known = followed(three_users("ada", "bob"), 1800)
    later = replace(known, now=rfc3339(START + timedelta(seconds=1800 + STORED_EVERY)))
    alone, new = decide(later), decide(replace(later, carried=None))
    assert stored_by([alone]) == [later.now]
    assert new.statuses == alone.statuses
    assert owed(outcome(known, new)) == owed(outcome(known, alone))


def moved_to(known: World, *entitlements: Document, cpu: str = "12") -> World:
    """Return the world with other entitlements or another node, and everything else as it is."""
    there = {each.metadata.name: each.status for each in known.objects.entitlements}
    other = world(*entitlements, node(cpu=cpu)) if entitlements else world(node(cpu=cpu))
    kept = [
        each.model_copy(update={"status": there.get(each.metadata.name)})
        for each in other.objects.entitlements
    ]
    return replace(
        known,
        broken=other.broken,
        objects=replace(
            known.objects,
            entitlements=kept if entitlements else known.objects.entitlements,
            nodes=other.objects.nodes,
        ),
    )


def test_a_child_that_is_deleted_and_made_anew_under_another_name_sheds_no_debt() -> None:
    teams = (entitlement("lab"), entitlement("ada", parent="lab"), *map(entitlement, USERS[1:]))
    before = replace(
        three_users("ada", "bob"), objects=moved_to(three_users("ada", "bob"), *teams).objects
    )
    _, known = followed(before, 1800)
    debt = owed(known)["ada"]
    assert debt < -0.5
    anew = (teams[0], entitlement("eve", parent="lab"), *teams[2:])
    _, after = followed(moved_to(known, *anew), 30, start=1800)
    assert owed(after)["eve"] == pytest.approx(debt, rel=0.2)


def test_an_entitlement_that_is_invalid_for_a_while_keeps_its_balance() -> None:
    _, known = followed(three_users("ada", "bob"), 1800)
    wrong = moved_to(known, *map(entitlement, USERS[:2]), entitlement("cyd", shares=0))
    _, while_broken = followed(wrong, 30, start=1800)
    assert owed(while_broken)["cyd"] > 1
    _, leader = followed(replace(while_broken, carried=None), 30, start=1830)
    assert owed(leader)["cyd"] > 1


@pytest.mark.parametrize("spec", [{"parent": "ghost"}, {"shares": 0}])
def test_an_entitlement_that_takes_no_part_earns_nothing(spec: dict[str, Any]) -> None:
    _, known = followed(three_users("ada", "bob"), 600)
    without = moved_to(known, *map(entitlement, USERS[:2]), entitlement("cyd", **spec))
    _, first = followed(without, 30, start=600)
    _, after = followed(without, 1200, start=600)
    assert 0 < owed(after)["cyd"] < owed(first)["cyd"]


@pytest.mark.parametrize("jump", [-1e6, 1e6, 1e9])
def test_a_clock_that_jumps_changes_little(jump: float) -> None:
    _, known = followed(three_users("ada", "bob"), 600)
    before = owed_at(known, 600)
    _, after = followed(known, 30, start=round(600 + jump))
    for name, each in owed(after).items():
        assert abs(each - before[name]) <= 4 * LONGEST_STEP / 3600


def test_the_account_begins_with_the_credits_that_statuses_have() -> None:
    """Versions before kept them in the statuses of Entitlements, and nowhere else."""
    known = three_users(*USERS)
    hours = {"ada": "-2", "bob": "-4", "cyd": "7"}
    entitlements = [
        each.model_copy(
            update={"status": {"coreCredits": {"coreHours": hours[each.metadata.name]}}}
        )
        for each in known.objects.entitlements
    ]
    old = replace(known, objects=replace(known.objects, entitlements=entitlements))
    assert owed(old) == {"ada": -2.0, "bob": -4.0, "cyd": 6.0}
    _, after = followed(old, 30)
    assert owed(after) == {"ada": -2.0, "bob": -4.0, "cyd": 6.0}
    # The version before reads this again if the upgrade is rolled back.
    assert written(after)["cyd"]["coreHours"] == "6"


@pytest.mark.parametrize(
    "stored",
    [None, {}, {"coreHours": "nan"}, {"coreHours": 5}, {"coreHours": "1e9"}, "wrong", [1]],
)
def test_a_status_without_a_credit_is_no_reason_to_stop(stored: object) -> None:
    known = three_users("ada", "bob")
    broken = [
        each.model_copy(update={"status": {"coreCredits": stored}})
        for each in known.objects.entitlements
    ]
    _, after = followed(replace(known, objects=replace(known.objects, entitlements=broken)), 30)
    assert set(owed(after).values()) == {0.0}


def test_an_account_that_the_api_server_drops_is_named_and_cores_are_divided() -> None:
    _, known = followed(three_users("ada", "bob"), 30)
    decision = decide(replace(known, account_dropped=True))
    ready = status(decision, "Market", "default")["conditions"][0]
    assert (ready["status"], ready["reason"]) == ("False", "AccountDropped")
    assert decision.plan is not None


def test_an_account_that_cannot_be_read_keeps_all_nodes_and_is_named() -> None:
    _, known = followed(three_users("ada", "bob"), 30)
    lost = {"since": "2026-01-31T12:00:00Z", "parts": [{"name": "gone", "digest": "0" * 64}]}
    markets = [
        each.model_copy(update={"status": {**(each.status or {}), "account": lost}})
        for each in known.markets
    ]
    decision = decide(replace(known, markets=markets, carried=None))
    assert decision.nodes == ()
    ready = status(decision, "Market", "default")["conditions"][0]
    assert ready["reason"] == "AccountUnreadable"
    assert "kubectl patch market default" in ready["message"]


def stored_as(known: World, document: Document, **parts: str) -> World:
    """Return the world with another account in the Market's status."""
    markets = [
        each.model_copy(update={"status": {**(each.status or {}), "account": document}})
        for each in known.markets
    ]
    return replace(known, markets=markets, carried=None, ledger_parts=parts)


@pytest.mark.parametrize("since", ["xyz", "2026-13-01T00:00:00Z", "2026-01-31T12:00:00.123Z"])
def test_a_time_that_cannot_be_read_is_no_crash(since: str) -> None:
    _, known = followed(three_users("ada", "bob"), 30)
    decision = decide(stored_as(known, {"since": since, "balances": []}))
    assert status(decision, "Market", "default")["conditions"][0]["reason"] == "AccountUnreadable"


@pytest.mark.parametrize(
    "row", ["5", "null", '["ada", "abc", "0", null]', '["ada", "sNaN", "0", null]', "[" * 5000]
)
def test_a_part_with_strange_rows_is_no_crash(row: str) -> None:
    _, known = followed(three_users("ada", "bob"), 30)
    part = {"name": "p", "digest": hashlib.sha256(row.encode()).hexdigest()}
    document = {"since": "2026-01-31T12:00:00Z", "parts": [part]}
    decision = decide(stored_as(known, document, p=row))
    assert status(decision, "Market", "default")["conditions"][0]["reason"] == "AccountUnreadable"


def test_the_advice_of_the_condition_lets_all_begin_again() -> None:
    _, known = followed(three_users("ada", "bob"), 1800)
    decision = decide(stored_as(known, {"since": "x", "balances": []}))
    message = status(decision, "Market", "default")["conditions"][0]["message"]
    (patch,) = json.loads(message[message.index("-p '") + 4 : message.rindex("'")])
    _, after = followed(stored_as(known, patch["value"]), 30, start=1800)
    assert set(owed(after).values()) == {0.0}


def test_sums_of_parents_are_not_taken_over_a_second_time() -> None:
    teams = (entitlement("lab"), entitlement("ada", parent="lab"), *map(entitlement, USERS[1:]))
    hours = {"lab": "-80", "ada": "-80", "bob": "80", "cyd": "0"}
    known = moved_to(three_users(*USERS), *teams)
    told = [
        each.model_copy(
            update={"status": {"coreCredits": {"coreHours": hours[each.metadata.name]}}}
        )
        for each in known.objects.entitlements
    ]
    old = replace(known, objects=replace(known.objects, entitlements=told))
    assert owed(old) == {"ada": -80.0, "bob": 80.0}


def test_a_clock_that_was_set_forward_and_back_freezes_nothing() -> None:
    _, known = followed(three_users("ada", "bob"), 600)
    _, ahead = followed(known, 30, start=10**9)
    _, back = followed(ahead, 1200, start=660)
    assert owed(back)["cyd"] > owed_at(known, 660)["cyd"] + 0.5


def test_many_balances_are_stored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walras_operator.decide.credits.parts.MOST_BALANCES", 0)
    monkeypatch.setattr("walras_operator.decide.credits.parts.LARGEST_PART", 1)
    known = three_users("ada", "bob")
    decision = decide(known)
    assert decision.settlement is not None
    assert len(decision.settlement.parts) == len(USERS)
    after = replace(outcome(known, decision), ledger_parts=decision.settlement.parts)
    assert set(owed(after)) == set(USERS)
    later = decide(replace(after, now=rfc3339(START + timedelta(seconds=900))))
    assert later.settlement is not None
    assert set(later.settlement.superseded) == set(decision.settlement.parts)
    assert UNIT == 10**6
