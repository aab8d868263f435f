"""Users hold on average what they bought, though only whole cores can be held at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.clearing import clear
from walras.rounding_credit import LIMIT, MOST, RoundingCredit, seconds_to_limit
from walras.snapshot import Entitlement, Job, Node, Policy, Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.plan import Plan

AVERAGING, EPOCH, PAUSE = 600.0, 30.0, 5.0
POLICY = Policy(hysteresis=0.02, averaging=AVERAGING)


class Period(NamedTuple):
    """A time in which cores do not move, and the plan that holds in it."""

    seconds: float
    plan: Plan


def followed(snapshot: Snapshot, policy: Policy, seconds: float) -> list[Period]:
    """Clear the market as the operator does: once an epoch, and when a credit is at its limit."""
    periods: list[Period] = []
    while seconds > 0:
        plan = clear(snapshot, policy)
        due = seconds_to_limit(plan.rounding.values(), policy.averaging)
        passed = EPOCH if due is None else min(max(due, PAUSE), EPOCH)
        periods.append(Period(passed, plan))
        rounding = {name: each.after(passed) for name, each in plan.rounding.items()}
        snapshot = replace(snapshot, held=plan.holdings(), rounding=rounding)
        seconds -= passed
    return periods


def users(*shares: int) -> tuple[Entitlement, ...]:
    names = [f"u{number}" for number in range(len(shares))]
    return tuple(
        Entitlement(name, each, namespaces=frozenset({name}))
        for name, each in zip(names, shares, strict=True)
    )


def job(user: int, node: str = "n", fraction: float = 0.9, number: int = 0) -> Job:
    name = f"{node}-{number}"
    return Job(f"u{user}", name, f"u{user}", node, fraction, pod=name)


def worst_deviation(periods: Sequence[Period], user: str) -> float:
    """Return how far a user's mean over the averaging time is ever from what it bought.

    The result is a part of what it bought. Every time that begins with a period counts.
    """
    worst = 0.0
    for first in range(len(periods)):
        held = bought = passed = 0.0
        for seconds, plan in periods[first:]:
            during = min(seconds, AVERAGING - passed)
            credit = plan.rounding[user]
            bought += during * credit.quota
            held += during * (credit.quota - credit.loss)
            passed += during
        if passed >= AVERAGING:
            worst = max(worst, abs(held - bought) / bought)
    return worst


SCENES = {
    "two equal users on three cores": Snapshot(users(1, 1), (Node("n", 3),), (job(0), job(1))),
    "shares of two and one on seven cores": Snapshot(
        users(2, 1), (Node("n", 7),), (job(0), job(1, fraction=0.7))
    ),
    "three users on seven cores": Snapshot(
        users(1, 1, 1), (Node("n", 7),), (job(0), job(1, fraction=0.7), job(2, fraction=0.99))
    ),
    "two jobs of less than a core": Snapshot(
        users(1, 1, 5), (Node("n", 4),), (job(0), job(1, fraction=0.7), job(2))
    ),
    "three users on two nodes": Snapshot(
        users(1, 2, 3),
        (Node("n", 7), Node("m", 5)),
        tuple(job(user, node, 0.8 + user / 20) for user in range(3) for node in "nm"),
    ),
}


@pytest.mark.parametrize("snapshot", SCENES.values(), ids=SCENES)
def test_every_mean_of_ten_minutes_is_within_two_percent_of_what_was_bought(
    snapshot: Snapshot,
) -> None:
    periods = followed(snapshot, POLICY, 1800)
    for each in snapshot.entitlements:
        assert worst_deviation(periods, each.name) <= 0.02
    if len(snapshot.nodes) == 1:  # cores do not follow every change at once, either
        moves = sum(
            one.plan.holdings() != other.plan.holdings() for one, other in pairwise(periods)
        )
        assert moves <= 1800 / 20


@pytest.mark.parametrize("policy", [Policy(hysteresis=0.02), replace(POLICY, cores="Auction")])
def test_without_averaging_the_same_user_is_always_short(policy: Policy) -> None:
    plans = [each.plan for each in followed(SCENES["two equal users on three cores"], policy, 600)]
    assert {plan.holdings() == plans[0].holdings() for plan in plans} == {True}
    assert plans[0].rounding == {}


def test_whole_quotas_stay_whole_whatever_a_credit_is() -> None:
    """Errors of prices make four cores 3.9999999 or 4.0000001: neither may move a core."""
    snapshot = Snapshot(users(1, 1), (Node("n", 8),), (job(0), job(1)))
    for core_seconds in (-1e6, 1e6):
        rounding = {
            "u0": RoundingCredit(core_seconds, 0.0, 4.0),
            "u1": RoundingCredit(-core_seconds, 0.0, 4.0),
        }
        plan = clear(replace(snapshot, rounding=rounding), POLICY)
        assert [grant.granted_cores for grant in plan.grants] == [4, 4]


def test_a_frozen_node_gives_nothing_back_until_it_thaws() -> None:
    snapshot = replace(SCENES["two equal users on three cores"], frozen=frozenset({"n"}))
    periods = followed(snapshot, POLICY, 600)
    assert {each.plan.holdings() == periods[0].plan.holdings() for each in periods} == {True}
    last = periods[-1].plan
    short = min(last.users, key=lambda user: user.held_cores).name
    assert last.rounding[short].relative(AVERAGING) == MOST
    thawed = replace(
        snapshot, frozen=frozenset(), held=last.holdings(), rounding=dict(last.rounding)
    )
    assert clear(thawed, POLICY).holdings() != last.holdings()


def test_what_can_never_be_given_back_has_a_bound_and_starts_no_loop() -> None:
    """A job of a third of a core has a core for itself, since nobody shares it."""
    snapshot = Snapshot(users(1, 8), (Node("n", 3),), (job(0), job(1)))
    periods = followed(snapshot, POLICY, 3600)
    credit = periods[-1].plan.rounding["u1"]
    assert credit.loss > 0.5
    assert credit.core_seconds == pytest.approx(MOST * LIMIT * AVERAGING * credit.quota)
    assert {seconds for seconds, _ in periods[5:]} == {EPOCH}


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Draw clusters on which no job is small."""
    shares = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    nodes = draw(st.lists(st.integers(10, 20), min_size=1, max_size=3))
    fractions = st.floats(0.85, 0.99)
    jobs = [
        job(user, f"n{node}", draw(fractions), number)
        for node in range(len(nodes))
        for user in range(len(shares))
        for number in range(draw(st.integers(0, 1)) if user else 1)
    ]
    return Snapshot(
        users(*shares),
        tuple(Node(f"n{number}", cores) for number, cores in enumerate(nodes)),
        tuple(jobs),
    )


@pytest.mark.long
@given(clusters())
def test_credits_are_neither_lost_nor_made(snapshot: Snapshot) -> None:
    """Rounding gives to others what it takes from some, at all times."""
    for _, plan in followed(snapshot, POLICY, 300):
        assert sum(each.loss for each in plan.rounding.values()) == pytest.approx(0, abs=1e-5)
        for each in plan.rounding.values():
            assert abs(each.core_seconds) <= MOST * each.limit(AVERAGING) * (1 + 1e-9)
    ends = clear(snapshot, POLICY)
    assert clear(snapshot, POLICY) == ends
