"""Core credits: who leaves its budget unspent has a larger one later, within bounds."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras.clearing import clear
from walras.core_credits import CoreCredit, budgets_with_credits, lending
from walras.snapshot import Entitlement, Job, Node, Policy, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.plan import Plan

HOUR = 3600.0
HALF_LIFE = 96 * HOUR
POLICY = Policy(core_half_life=HALF_LIFE, most_credit=0.2)
WITHOUT = Policy()


def users(*shares: int) -> tuple[Entitlement, ...]:
    return tuple(
        Entitlement(f"u{number}", each, namespaces=frozenset({f"u{number}"}))
        for number, each in enumerate(shares)
    )


def job(user: int, node: str = "n", fraction: float = 0.9, most: int | None = None) -> Job:
    return Job(f"u{user}", node, f"u{user}", node, fraction, max_cores=most)


def lived(
    snapshot: Snapshot, present: Sequence[Sequence[int]], policy: Policy = POLICY
) -> list[Plan]:
    """Clear the market hour by hour, with the jobs of the users that are present in each."""
    plans = []
    credits_: Mapping[str, CoreCredit] = {}
    for here in present:
        jobs = tuple(each for each in snapshot.jobs if int(each.namespace[1:]) in here)
        plans.append(clear(replace(snapshot, jobs=jobs, core_credits=credits_), policy))
        credits_ = {
            name: each.after(HOUR, HALF_LIFE) for name, each in plans[-1].core_credits.items()
        }
    return plans


def budgets(plan: Plan) -> dict[str, float]:
    return {user.name: user.entitled_cores for user in plan.users}


SCENE = Snapshot(users(1, 1, 1), (Node("n", 12),), tuple(map(job, range(3))))


def test_a_user_who_was_away_has_a_larger_budget_and_pays_it_back() -> None:
    plans = lived(SCENE, [[0, 1]] * 48 + [[0, 1, 2]] * 480)
    assert {name: each.rate for name, each in plans[0].core_credits.items()} == pytest.approx(
        {"u0": -2, "u1": -2, "u2": 4}
    )
    back = budgets(plans[48])
    assert back["u2"] == pytest.approx(12 * 1 / (1 + 2 * 0.8 ** (3 / 4)), rel=0.05)
    assert back["u0"] == back["u1"] < 4 < back["u2"]
    assert plans[48].core_credits["u2"].rate < 0 < plans[48].core_credits["u0"].rate
    levels = [plan.core_credits["u2"].level(HALF_LIFE) for plan in plans[48:]]
    assert levels == sorted(levels, reverse=True)
    assert 0 < levels[-1] < 0.02


def test_without_a_half_life_nothing_is_kept_and_nothing_changes() -> None:
    plan = clear(replace(SCENE, core_credits={"u0": CoreCredit(1e9)}), WITHOUT)
    assert plan == clear(SCENE, WITHOUT)
    assert plan.core_credits == {}


def test_mechanisms_without_budgets_to_spend_keep_no_credits() -> None:
    known = replace(SCENE, core_credits={"u0": CoreCredit(1e9)})
    for cores in ("ProportionalSharing", "Greedy", "UpperBound", "Auction"):
        policy = replace(POLICY, cores=cores)
        assert clear(known, policy).core_credits == {}
        assert clear(known, policy) == clear(SCENE, replace(WITHOUT, cores=cores))


def test_a_user_without_jobs_earns_nothing_if_nobody_holds_more_than_it_is_entitled_to() -> None:
    bounded = replace(SCENE, jobs=(job(0, most=4), job(1, most=4)))
    assert {each.rate for each in clear(bounded, POLICY).core_credits.values()} == {0.0}


def test_cores_that_a_user_alone_cannot_reach_cost_it_nothing() -> None:
    """Its whole budget goes to one of ten nodes, whose cores are fewer than it is entitled to."""
    nodes = tuple(Node(f"n{number}", 12) for number in range(10))
    plan = clear(Snapshot(users(1, 1), nodes, (job(0, "n0"),)), POLICY)
    assert {each.rate for each in plan.core_credits.values()} == {0.0}


def test_a_job_that_cannot_use_its_part_lends_the_rest() -> None:
    jobs = (job(0, most=2), job(1), job(2))
    plan = clear(replace(SCENE, jobs=jobs), POLICY)
    rates = {name: each.rate for name, each in plan.core_credits.items()}
    assert rates == pytest.approx({"u0": 2, "u1": -1, "u2": -1}, rel=1e-3)


def test_what_a_user_says_about_its_speedup_earns_it_nothing() -> None:
    """Users on a dear node hold fewer cores than entitled, but have spent their budget."""
    nodes = (Node("n", 12), Node("m", 12))
    for fraction in (0.3, 0.6, 0.9, 0.99):
        jobs = (job(0, "n", fraction), job(1, "n"), job(2, "n"), job(2, "m"))
        plan = clear(Snapshot(users(1, 1, 1), nodes, jobs), POLICY)
        for each in plan.core_credits.values():
            assert each.rate == pytest.approx(0, abs=1e-6)


def test_leaves_of_the_tree_have_credits_also_without_jobs() -> None:
    tree = (
        Entitlement("lab", 1),
        Entitlement("u0", 1, parent="lab", namespaces=frozenset({"u0"})),
        Entitlement("u1", 1, parent="lab"),
        Entitlement("u2", 2, namespaces=frozenset({"u2"})),
    )
    plan = clear(Snapshot(tree, (Node("n", 12),), (job(0), job(2))), POLICY)
    assert set(plan.core_credits) == {"u0", "u1", "u2"}
    entitled = {name: each.entitled for name, each in plan.core_credits.items()}
    assert entitled == pytest.approx({"u0": 2, "u1": 2, "u2": 8})
    rates = {name: each.rate for name, each in plan.core_credits.items()}
    assert rates == pytest.approx({"u0": -2, "u1": 2, "u2": 0}, abs=1e-6)


def test_a_credit_beyond_the_limit_of_a_smaller_share_is_cut() -> None:
    known = {"u0": CoreCredit(1e12), "u1": CoreCredit(-1e12), "gone": CoreCredit(5.0)}
    plan = clear(replace(SCENE, core_credits=known), POLICY)
    most = 4 * HALF_LIFE / math.log(2)
    assert plan.core_credits["u0"].core_seconds == pytest.approx(most)
    assert plan.core_credits["u1"].core_seconds == pytest.approx(-most)
    assert "gone" not in plan.core_credits


amounts = st.lists(
    st.tuples(st.floats(0.01, 100), st.floats(0, 200), st.floats(0, 200)), min_size=1, max_size=8
)


@given(amounts)
def test_what_some_lend_others_borrow(rows: list[tuple[float, float, float]]) -> None:
    entitled, paid, bought = np.array(rows).T
    rates = lending(entitled, paid, bought)
    assert float(rates.sum()) == pytest.approx(0, abs=1e-9 * entitled.sum() + 1e-9)
    assert (rates <= np.maximum(entitled - paid, 0) + 1e-9).all()
    assert (-rates <= np.maximum(np.minimum(paid, bought) - entitled, 0) + 1e-9).all()


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.floats(0.001, 1), min_size=1),
    st.data(),
    st.floats(0, 0.5),
)
def test_no_budget_is_below_the_guaranteed_part(
    weights: dict[str, float], data: st.DataObject, most: float
) -> None:
    total = sum(weights.values())
    parts = {name: each / total for name, each in weights.items()}
    levels = {name: data.draw(st.floats(-1, 1)) for name in parts}
    found = budgets_with_credits(parts, levels, most)
    assert sum(found.values()) == pytest.approx(1)
    for name, part in parts.items():
        assert (1 - most) * part * (1 - 1e-9) <= found[name] <= part / (1 - most) * (1 + 1e-9)


@st.composite
def months(draw: st.DrawFn) -> tuple[Snapshot, list[list[int]]]:
    """Draw clusters, and which users have jobs in each hour."""
    shares = draw(st.lists(st.integers(1, 5), min_size=2, max_size=5))
    nodes = draw(st.lists(st.integers(2, 24), min_size=1, max_size=3))
    fraction = st.floats(0.3, 0.99)
    jobs = []
    for user in range(len(shares)):
        on = draw(st.sets(st.integers(0, len(nodes) - 1), min_size=1))
        jobs += [job(user, f"n{node}", draw(fraction)) for node in sorted(on)]
    names = st.sets(st.integers(0, len(shares) - 1)).map(sorted)
    present = draw(st.lists(names, min_size=1, max_size=6))
    listed = tuple(Node(f"n{number}", cores) for number, cores in enumerate(nodes))
    return Snapshot(users(*shares), listed, tuple(jobs)), present


@settings(max_examples=40, deadline=None)
@given(months(), st.sampled_from([0.05, 0.2, 0.5]))
def test_credits_are_bounded_and_never_minted(
    month: tuple[Snapshot, list[list[int]]], most: float
) -> None:
    """Whatever comes, and however often what it is worth is computed again."""
    snapshot, present = month
    policy = replace(POLICY, most_credit=most)
    known: dict[str, CoreCredit] = {}
    for here in present:
        jobs = tuple(each for each in snapshot.jobs if int(each.namespace[1:]) in here)
        now = replace(snapshot, jobs=jobs, core_credits=known)
        plan = clear(now, policy)
        again = clear(replace(now, core_credits=plan.core_credits), policy)
        assert again.core_credits == plan.core_credits
        assert sum(each.rate for each in plan.core_credits.values()) == pytest.approx(0, abs=1e-6)
        before = sum(max(0.0, each.core_seconds) for each in plan.core_credits.values())
        lent = sum(max(0.0, each.rate) for each in plan.core_credits.values())
        known = {name: each.after(HOUR, HALF_LIFE) for name, each in plan.core_credits.items()}
        after = sum(max(0.0, each.core_seconds) for each in known.values())
        assert after <= before + lent * HOUR + 1e-3
        for each in plan.core_credits.values():
            assert abs(each.core_seconds) <= each.limit(HALF_LIFE) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(months(), st.lists(st.floats(-1, 1), min_size=5, max_size=5), st.sampled_from([0.2, 0.5]))
def test_no_user_has_less_than_the_guaranteed_part_of_its_bare_entitlements_utility(
    month: tuple[Snapshot, list[list[int]]], levels: list[float], most: float
) -> None:
    """The loss of sharing incentives within a quantum is bounded, whatever the credits are."""
    snapshot, _ = month
    leaves = len(snapshot.entitlements)
    cores = sum(node.cores for node in snapshot.nodes)
    shares = sum(each.shares for each in snapshot.entitlements)
    known = {
        each.name: CoreCredit(level * each.shares / shares * cores * HALF_LIFE / math.log(2))
        for each, level in zip(snapshot.entitlements, levels[:leaves], strict=True)
    }
    bare = {user.name: user.entitlement_utility for user in clear(snapshot, WITHOUT).users}
    plan = clear(replace(snapshot, core_credits=known), replace(POLICY, most_credit=most))
    for user in plan.users:
        assert user.utility >= (1 - most) * bare[user.name] * (1 - 1e-4)


def test_the_order_of_objects_and_of_credits_does_not_matter() -> None:
    known = {f"u{number}": CoreCredit(1e5 * (number - 1)) for number in range(3)}
    one = clear(replace(SCENE, core_credits=known), POLICY)
    turned = Snapshot(
        SCENE.entitlements[::-1],
        SCENE.nodes,
        SCENE.jobs[::-1],
        core_credits=dict(reversed(known.items())),
    )
    other = clear(turned, POLICY)
    assert other.core_credits == one.core_credits
    assert sorted(other.grants, key=lambda each: each.namespace) == list(one.grants)


def test_the_page_shows_what_happens() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms" / "core-credits.md"
    shown = doctest.testfile(str(page), module_relative=False)
    assert shown.attempted == 14
    assert shown.failed == 0
