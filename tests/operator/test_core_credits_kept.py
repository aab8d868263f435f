"""Core credits in statuses: they survive leaders and mistakes, and nobody can mint any."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from walras_operator.decision import decide
from walras_operator.last_decision import LONGEST_STEP
from walras_operator.quanta import TIME
from worlds import entitlement, job, market, node, outcome, pod, status, world

if TYPE_CHECKING:
    from walras.core_credits import CoreCredit
    from walras_operator.world import Decision, Document, World

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
        decisions.append(decide(replace(known, now=now.strftime(TIME))))
        known = outcome(known, decisions[-1], leader_changes=leader_changes)
    return decisions, known


def credits_of(decision: Decision) -> dict[str, float]:
    return {name: each.core_seconds for name, each in decision.carried.core_credits.items()}


def written(known: World) -> dict[str, Any]:
    return {
        each.metadata.name: (each.status or {}).get("coreCredits")
        for each in known.objects.entitlements
    }


def test_a_user_without_jobs_earns_credit_and_has_a_larger_budget_later() -> None:
    decisions, known = followed(three_users("ada", "bob"), 1800)
    cyd = written(known)["cyd"]
    assert "budgetFactor" not in cyd
    assert float(cyd["coreHours"]) == pytest.approx(4 * (1 - 0.5**0.49) / math.log(2), rel=0.05)
    assert 0 < float(cyd["level"]) < 1
    back = decide(replace(with_jobs_of(known, *USERS), now="2026-01-31T12:30:00Z"))
    assert float(status(back, "Entitlement", "cyd")["coreCredits"]["budgetFactor"]) > 1.1
    assert float(status(back, "Entitlement", "ada")["coreCredits"]["budgetFactor"]) < 1
    assert float(status(back, "Entitlement", "cyd")["cores"]["entitled"]) > 4.4
    assert all(sum(credits_of(each).values()) == pytest.approx(0, abs=1) for each in decisions)


def test_a_credit_alone_is_written_only_when_it_has_moved_by_a_hundredth_of_its_limit() -> None:
    slow: Document = {"credits": {"halfLifeHours": 24}}
    decisions, _ = followed(three_users("ada", "bob", cores=slow), 3600)
    writes = [sum(write.object.name == "cyd" for write in each.statuses) for each in decisions]
    assert writes[:2] == [1, 0]
    assert sum(writes) == 1 + 3


def test_without_the_field_no_credit_is_kept() -> None:
    _, known = followed(three_users("ada", "bob", cores={}), 120)
    assert written(known) == dict.fromkeys(USERS)


def test_switching_credits_off_drops_them() -> None:
    _, known = followed(three_users("ada", "bob"), 600)
    off = replace(known, markets=three_users(cores={}).markets)
    _, after = followed(off, 30, start=600)
    assert written(after) == dict.fromkeys(USERS)
    again = replace(after, markets=three_users().markets)
    first = decide(replace(again, now="2026-01-31T12:20:00Z"))
    assert set(credits_of(first).values()) == {0.0}


def test_a_new_leader_goes_on_with_what_statuses_have() -> None:
    decisions, known = followed(three_users("ada", "bob"), 1800)
    last = credits_of(decisions[-1])
    now = START + timedelta(seconds=1800)
    first = decide(replace(known, carried=None, now=now.strftime(TIME)))
    limit = 4 * 3600 / math.log(2)
    for name, each in credits_of(first).items():
        assert each == pytest.approx(last[name], abs=0.02 * limit)


def test_leaders_that_change_all_the_time_mint_nothing() -> None:
    """A new leader does not know what happened since statuses were written, and adds nothing."""
    decisions, _ = followed(three_users("ada", "bob"), 1800, leader_changes=True)
    for each in decisions:
        found = each.carried.core_credits.values()
        assert sum(max(0.0, credit.core_seconds) for credit in found) <= 4 * 1800


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
    decision = decide(replace(known, objects=replace(known.objects, entitlements=broken)))
    assert set(credits_of(decision).values()) == {0.0}


def test_a_forged_status_is_worth_no_more_than_the_most_that_can_be_lent() -> None:
    known = three_users(*USERS)
    forged = [
        each.model_copy(update={"status": {"coreCredits": {"coreHours": "999999999999"}}})
        for each in known.objects.entitlements
    ]
    decision = decide(replace(known, objects=replace(known.objects, entitlements=forged)))
    for each in credits_of(decision).values():
        assert each == pytest.approx(4 * 3600 / math.log(2))


@pytest.mark.parametrize("jump", [-1e6, 1e6, 1e9])
def test_a_clock_that_jumps_changes_little(jump: float) -> None:
    decisions, known = followed(three_users("ada", "bob"), 600)
    now = START + timedelta(seconds=600 + jump)
    after = decide(replace(known, now=now.strftime(TIME)))
    before = credits_of(decisions[-1])
    for name, each in credits_of(after).items():
        assert abs(each - before[name]) <= 4 * LONGEST_STEP


def test_an_entitlement_that_is_made_anew_begins_with_nothing() -> None:
    """Neither does deleting others make its credit larger than what it lends itself."""
    _, known = followed(three_users("ada", "bob"), 1800)
    without = [each for each in known.objects.entitlements if each.metadata.name != "cyd"]
    gone = replace(known, objects=replace(known.objects, entitlements=without))
    decisions, gone = followed(gone, 30, start=1800)
    assert "cyd" not in credits_of(decisions[-1])
    anew = three_users().objects.entitlements
    back = replace(gone, objects=replace(gone.objects, entitlements=anew))
    decision = decide(replace(back, now="2026-01-31T12:31:00Z"))
    assert credits_of(decision)["cyd"] == 0.0
    assert "cyd" in credits_of(decision)


def test_an_entitlement_that_is_invalid_for_a_while_keeps_its_credit() -> None:
    _, known = followed(three_users("ada", "bob"), 1800)
    wrong = world(
        {**entitlement("cyd", shares=0), "status": {"coreCredits": written(known)["cyd"]}}
    )
    others = [each for each in known.objects.entitlements if each.metadata.name != "cyd"]
    broken = replace(
        known,
        objects=replace(known.objects, entitlements=others),
        broken=wrong.broken,
        now="2026-01-31T12:30:00Z",
    )
    decision = decide(broken)
    kept: CoreCredit = decision.carried.core_credits["cyd"]
    assert kept.core_seconds > 3600
    assert status(decision, "Entitlement", "cyd")["coreCredits"] == written(known)["cyd"]
    leader = decide(replace(outcome(broken, decision), carried=None))
    assert leader.carried.core_credits["cyd"].core_seconds > 3600


@pytest.mark.parametrize("spec", [{"parent": "ghost"}, {"shares": 0}])
def test_an_entitlement_that_takes_no_part_earns_nothing(spec: dict[str, Any]) -> None:
    _, known = followed(three_users("ada", "bob"), 600)
    changed = world(*map(entitlement, USERS[:2]), {**entitlement("cyd", **spec)})
    there = {each.metadata.name: each for each in known.objects.entitlements}
    entitlements = [
        each.model_copy(update={"status": there[each.metadata.name].status})
        for each in changed.objects.entitlements
    ]
    objects = replace(known.objects, entitlements=entitlements)
    without = replace(known, objects=objects, broken=changed.broken)
    decisions, _ = followed(without, 7200, start=600)
    assert credits_of(decisions[0])["cyd"] > 1000
    for decision in decisions:
        assert sum(credits_of(decision).values()) == pytest.approx(0, abs=1e-6)


def test_what_is_written_gives_nothing_to_write() -> None:
    _, known = followed(three_users("ada", "bob"), 600)
    now = "2026-01-31T12:10:00Z"
    after = outcome(known, decide(replace(known, now=now)))
    assert not decide(replace(after, now=now)).statuses
