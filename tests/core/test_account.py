"""The account: what users owe each other adds up to zero, and budgets pay it back."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.clearing import clear
from walras.market.account import lending, taken_over, tilts
from walras.market.admission import divide_by_shares, leaves_of
from walras.market.balances import (
    UNIT,
    Balance,
    brought_forward,
    settled_among_others,
    shared_out,
    with_subtrees,
)
from walras.market.snapshot import Entitlement, Job, Node, Policy, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.market.plan import Plan

HOUR = 3600.0
HALF_LIFE = 96 * HOUR
DEBTS = Policy(core_half_life=HALF_LIFE, most_credit=0.2)
POLICY = replace(DEBTS, lending=True)
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
    account: Mapping[str, Balance] = {}
    for here in present:
        jobs = tuple(each for each in snapshot.jobs if int(each.namespace[1:]) in here)
        plans.append(clear(replace(snapshot, jobs=jobs, account=account), policy))
        account = brought_forward(plans[-1].account, HOUR, HALF_LIFE)
    return plans


def owing(**hours: float) -> dict[str, Balance]:
    """Return balances of these core-hours."""
    return {name: Balance(round(each * UNIT)) for name, each in hours.items()}


def rates(plan: Plan) -> dict[str, float]:
    """Return the cores by which balances grow."""
    return {name: each.rate / UNIT for name, each in plan.account.items()}


def budgets(plan: Plan) -> dict[str, float]:
    return {user.name: user.entitled for user in plan.users}


SCENE = Snapshot(users(1, 1, 1), (Node("n", 12),), tuple(map(job, range(3))))


def test_a_user_who_was_away_has_a_larger_budget_and_pays_it_back() -> None:
    plans = lived(SCENE, [[0, 1]] * 48 + [[0, 1, 2]] * 480)
    assert rates(plans[0]) == pytest.approx({"u0": -2, "u1": -2, "u2": 4}, abs=1e-5)
    back = budgets(plans[48])
    assert back["u2"] == pytest.approx(12 * 1 / (1 + 2 * 0.8 ** (3 / 4)), rel=0.05)
    assert back["u0"] == back["u1"] < 4 < back["u2"]
    assert plans[48].account["u2"].rate < 0 < plans[48].account["u0"].rate
    levels = [plan.account["u2"].level(HALF_LIFE) for plan in plans[48:]]
    assert levels == sorted(levels, reverse=True)
    assert 0 < levels[-1] < 0.02


def test_without_a_half_life_balances_stay_as_they_are_and_change_nothing() -> None:
    known = owing(u0=100.0, u1=-100.0)
    plan = clear(replace(SCENE, account=known), WITHOUT)
    assert plan == clear(SCENE, WITHOUT)
    assert plan.account == {**known, "u2": Balance()}


def test_mechanisms_without_budgets_to_spend_leave_balances_as_they_are() -> None:
    known = replace(SCENE, account=owing(u0=100.0, u1=-60.0, u2=-40.0))
    for cores in ("ProportionalSharing", "Greedy", "UpperBound", "Auction"):
        policy = replace(POLICY, cores=cores)
        assert clear(known, policy).account == known.account
        assert clear(known, policy) == clear(SCENE, replace(WITHOUT, cores=cores))


def test_a_user_without_jobs_earns_nothing_if_nobody_holds_more_than_it_is_entitled_to() -> None:
    bounded = replace(SCENE, jobs=(job(0, most=4), job(1, most=4)))
    assert set(rates(clear(bounded, POLICY)).values()) == {0.0}


def test_cores_that_a_user_alone_cannot_reach_cost_it_nothing() -> None:
    """Its whole budget goes to one of ten nodes, whose cores are fewer than it is entitled to."""
    nodes = tuple(Node(f"n{number}", 12) for number in range(10))
    plan = clear(Snapshot(users(1, 1), nodes, (job(0, "n0"),)), POLICY)
    assert set(rates(plan).values()) == {0.0}


def test_a_job_that_cannot_use_its_part_lends_the_rest() -> None:
    jobs = (job(0, most=2), job(1), job(2))
    plan = clear(replace(SCENE, jobs=jobs), POLICY)
    assert rates(plan) == pytest.approx({"u0": 2, "u1": -1, "u2": -1}, rel=1e-3)


def test_what_a_user_says_about_its_speedup_earns_it_nothing() -> None:
    """Users on a dear node hold fewer cores than entitled, but have spent their budget."""
    nodes = (Node("n", 12), Node("m", 12))
    for fraction in (0.3, 0.6, 0.9, 0.99):
        jobs = (job(0, "n", fraction), job(1, "n"), job(2, "n"), job(2, "m"))
        plan = clear(Snapshot(users(1, 1, 1), nodes, jobs), POLICY)
        assert list(rates(plan).values()) == pytest.approx([0, 0, 0], abs=1e-5)


def test_leaves_of_the_tree_have_credits_also_without_jobs() -> None:
    tree = (
        Entitlement("lab", 1),
        Entitlement("u0", 1, parent="lab", namespaces=frozenset({"u0"})),
        Entitlement("u1", 1, parent="lab"),
        Entitlement("u2", 2, namespaces=frozenset({"u2"})),
    )
    plan = clear(Snapshot(tree, (Node("n", 12),), (job(0), job(2))), POLICY)
    entitled = {name: each.entitled for name, each in plan.account.items() if name != "lab"}
    assert entitled == pytest.approx({"u0": 2, "u1": 2, "u2": 8})
    assert rates(plan) == pytest.approx({"lab": 0, "u0": -2, "u1": 2, "u2": 0}, abs=1e-5)


@pytest.mark.parametrize("cores", [12.0, 1.0, 0.0])
def test_no_number_of_cores_changes_what_is_owed(cores: float) -> None:
    """A night's scale-down once cut the debts that were large for the nodes that were left."""
    known = owing(u0=-59.0, u1=-59.0, u2=118.0)
    plan = clear(replace(SCENE, nodes=(Node("n", cores),), account=known), POLICY)
    assert {name: each.owed for name, each in plan.account.items()} == {
        name: each.owed for name, each in known.items()
    }
    assert sum(each.rate for each in plan.account.values()) == 0


def test_requests_beyond_a_budget_become_a_debt_to_those_who_were_short() -> None:
    """Ann's pods keep 7 of the hot node's 8 cores; her budget buys only some of them."""
    entitlements = users(1, 1, 1)
    nodes = (Node("hot", 8), Node("cold", 8))
    jobs = (
        replace(job(0, "hot"), floor=7.0, requested=7.0),
        job(1, "hot"),
        job(2, "cold"),
    )
    plan = clear(Snapshot(entitlements, nodes, jobs), DEBTS)
    short = {user.name: user.held_utility < 0.99 * user.entitlement_utility for user in plan.users}
    assert short == {"u0": False, "u1": True, "u2": False}
    grows = rates(plan)
    assert grows["u0"] < -1 < 1 < grows["u1"]
    assert grows["u2"] == 0
    assert sum(grows.values()) == 0
    one = next(user for user in plan.users if user.name == "u1")
    assert grows["u1"] <= one.entitled


def test_requests_within_ones_part_owe_nothing_however_dear_the_node_becomes() -> None:
    jobs = (
        replace(job(0), floor=4.0, requested=4.0),
        replace(job(1), floor=8.0, requested=8.0),
        job(2),
    )
    plan = clear(replace(SCENE, jobs=jobs), DEBTS)
    grows = rates(plan)
    assert grows["u0"] >= 0
    assert grows["u1"] < 0 < grows["u2"]


def test_debts_arise_only_where_others_lack_cores() -> None:
    """U3 leaves nobody short on its node; u1 does on the other."""
    nodes = (Node("m", 8), Node("n", 8))
    jobs = (
        replace(job(3, "m"), floor=6.0, requested=6.0),
        job(2, "m", most=2),
        replace(job(1, "n"), floor=7.0, requested=7.0),
        job(0, "n"),
    )
    grows = rates(clear(Snapshot(users(1, 1, 1, 1), nodes, jobs), DEBTS))
    assert grows["u3"] == 0
    assert grows["u1"] == -grows["u0"] < 0


def test_a_debt_is_paid_back_by_a_smaller_budget() -> None:
    account: Mapping[str, Balance] = owing(u0=-30.0, u1=30.0)
    first = clear(replace(SCENE, account=account), DEBTS)
    assert budgets(first)["u0"] < budgets(first)["u2"] < budgets(first)["u1"]
    assert rates(first)["u0"] > 0 > rates(first)["u1"]
    for _ in range(400):
        account = brought_forward(clear(replace(SCENE, account=account), DEBTS).account, HOUR, 0)
    assert -10 < account["u0"].core_hours < 0
    assert sum(each.owed for each in account.values()) == 0


def test_who_owes_nothing_earns_nothing_without_lending() -> None:
    jobs = (job(0, most=2), job(1))
    assert set(rates(clear(replace(SCENE, jobs=jobs), DEBTS)).values()) == {0.0}


TREE = (
    Entitlement("lab", 1),
    Entitlement("ann", 1, parent="lab"),
    Entitlement("bob", 1),
    Entitlement("cyd", 1),
)


def of(account: Mapping[str, Balance]) -> dict[str, float]:
    return {name: each.core_hours for name, each in account.items()}


def known_in(tree: Sequence[Entitlement], **hours: float) -> dict[str, Balance]:
    """Return balances that an earlier decision on these entitlements has stored."""
    return taken_over(owing(**hours), tree)


def test_a_new_child_takes_its_part_of_what_its_relatives_owe() -> None:
    account = known_in(TREE, ann=-8.0, bob=8.0)
    more = (*TREE, Entitlement("dan", 3, parent="lab"))
    after = of(taken_over(account, more))
    assert after == {"ann": -2.0, "bob": 8.0, "cyd": 0.0, "dan": -6.0, "lab": 0.0}


def test_children_of_a_leaf_take_over_all_of_it() -> None:
    account = known_in(TREE, ann=-8.0, bob=8.0)
    more = (*TREE, *(Entitlement(name, 1, parent="ann") for name in ("x", "y")))
    after = taken_over(account, more)
    assert of(after) == {"ann": 0, "bob": 8.0, "cyd": 0.0, "lab": 0, "x": -4.0, "y": -4.0}
    assert of(with_subtrees(after))["lab"] == -8.0


def test_what_a_deleted_child_owes_returns_to_its_parent() -> None:
    tree = (*TREE, Entitlement("dan", 1, parent="lab"))
    account = known_in(tree, ann=-8.0, dan=1.0, bob=7.0)
    assert of(taken_over(account, [each for each in tree if each.name != "ann"])) == {
        "dan": -7.0,
        "bob": 7.0,
        "cyd": 0.0,
        "lab": 0.0,
    }
    alone = [each for each in tree if each.parent is None]
    assert of(taken_over(account, alone)) == {"bob": 7.0, "cyd": 0.0, "lab": -7.0}


def test_the_first_child_of_an_entitlement_takes_nothing_from_its_relatives() -> None:
    """A lead once took half of what others were owed by a child that it created and deleted."""
    tree = (
        Entitlement("dept", 1),
        Entitlement("lab", 1, parent="dept"),
        Entitlement("zed", 1, parent="dept"),
        Entitlement("bob", 1),
    )
    account: dict[str, Balance] = known_in(tree, lab=0.0, zed=200.0, bob=-200.0)
    for _ in range(3):
        account = taken_over(account, (*tree, Entitlement("x", 1, parent="lab")))
        assert of(account)["x"] == 0
        account = taken_over(account, tree)
    assert of(account) == {"bob": -200.0, "dept": 0.0, "lab": 0.0, "zed": 200.0}


trees = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50)), min_size=1, max_size=10)


def grown(rows: Sequence[tuple[int, int]]) -> tuple[Entitlement, ...]:
    """Return a tree: entry i hangs below entry j if j < i is drawn, else at the top."""
    return tuple(
        Entitlement(f"e{i}", shares, parent=f"e{parent}" if parent < i else None)
        for i, (parent, shares) in enumerate(rows)
    )


@given(trees, st.data())
def test_what_a_lead_does_below_its_entitlement_changes_nothing_outside(
    rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    tree = (Entitlement("top", 3), *(_below_top(each, "top") for each in grown(rows)))
    lead = data.draw(st.sampled_from([each.name for each in tree if each.name != "top"]))
    owed = {name: data.draw(st.integers(-(10**9), 10**9)) for name in leaves_of((*tree, OTHER))}
    account = taken_over(
        {name: Balance(each) for name, each in settled_among_others(owed).items()}, (*tree, OTHER)
    )
    below = _all_below(tree, lead)
    outside = {name: each.owed for name, each in account.items() if name not in below | {lead}}
    ours = sum(account[name].owed for name in below | {lead})
    for step in range(4):
        gone = data.draw(st.sets(st.sampled_from(sorted(below)))) if below else set()
        tree = tuple(each for each in tree if not _all_above(tree, each.name) & gone)
        parent = data.draw(st.sampled_from(sorted((_all_below(tree, lead)) | {lead})))
        tree = (*tree, Entitlement(f"new{step}", data.draw(st.integers(1, 9)), parent=parent))
        account = taken_over(account, (*tree, OTHER))
        below = _all_below(tree, lead)
        assert sum(account[name].owed for name in below | {lead}) == ours
        assert {name: account[name].owed for name in outside if name in account} == {
            name: each for name, each in outside.items() if name in account
        }


OTHER = Entitlement("other", 2)


def _below_top(each: Entitlement, top: str) -> Entitlement:
    return replace(each, parent=each.parent or top)


def _all_above(tree: Sequence[Entitlement], name: str) -> set[str]:
    """Return an entitlement and all above it."""
    parents = {each.name: each.parent for each in tree}
    found, at = set(), parents.get(name, "") and name
    while at:
        found.add(at)
        at = parents.get(at)
    return found or {name}


def _all_below(tree: Sequence[Entitlement], name: str) -> set[str]:
    return {each.name for each in tree if each.name != name and name in _all_above(tree, each.name)}


def test_an_orphans_debt_counts_for_the_entitlement_above_it() -> None:
    """A lead who deletes a team between would park the debt of those below."""
    tree = (
        Entitlement("vision", 1),
        Entitlement("a", 1, parent="vision"),
        Entitlement("b", 1, parent="a"),
        Entitlement("bob", 1),
    )
    account = known_in(tree, b=-300.0, bob=300.0)
    left = (tree[0], tree[3])
    after = taken_over(account, left, unusable=["b"])
    assert of(after) == {"b": -300.0, "bob": 300.0, "vision": 0.0}
    assert (
        tilts(after, left, 12.0, POLICY)["vision"] == tilts(account, tree, 12.0, POLICY)["vision"]
    )


def test_a_debt_stays_with_an_ancestor_that_cannot_be_used() -> None:
    account = known_in(TREE, ann=-8.0, bob=8.0)
    left = [each for each in TREE if each.name in {"bob", "cyd"}]
    assert of(taken_over(account, left, unusable=["lab"])) == {"bob": 8.0, "cyd": 0.0, "lab": -8.0}


def test_what_a_deleted_root_owes_is_settled_among_its_creditors() -> None:
    account = known_in(TREE, ann=-9.0, bob=6.0, cyd=3.0)
    left = [each for each in TREE if each.name not in {"lab", "ann"}]
    assert of(taken_over(account, left)) == {"bob": 0.0, "cyd": 0.0}
    account = known_in(TREE, ann=-6.0, bob=-3.0, cyd=9.0)
    assert of(taken_over(account, left)) == {"bob": -3.0, "cyd": 3.0}


def test_an_entitlement_that_moves_keeps_its_balance_and_one_that_is_unusable_too() -> None:
    account = known_in(TREE, ann=-8.0, bob=8.0)
    moved = [replace(each, parent=None) if each.name == "ann" else each for each in TREE]
    assert of(taken_over(account, moved))["ann"] == -8.0
    left = [each for each in TREE if each.name != "bob"]
    assert of(taken_over(account, left, unusable=["bob"])) == of(account)


def test_a_lead_that_moves_its_jobs_between_its_children_sheds_no_debt() -> None:
    """The level of the subtree decides on its budget, whichever child has jobs."""
    tree = (*TREE, Entitlement("dan", 1, parent="lab"))
    account = known_in(tree, ann=-200.0, bob=200.0)
    changed = tilts(account, tree, 12.0, POLICY)
    for active in ("ann", "dan"):
        found = divide_by_shares(tree, [active, "bob", "cyd"], tilts=changed, most=0.2)
        assert found[active] < 0.9 * found["cyd"]


@given(trees, st.data(), st.sampled_from([0.0, 0.2, 0.5]))
def test_no_budget_is_below_the_guaranteed_part(
    rows: list[tuple[int, int]], data: st.DataObject, most: float
) -> None:
    tree = grown(rows)
    leaves = leaves_of(tree)
    active = data.draw(st.sets(st.sampled_from(leaves), min_size=1))
    bare = divide_by_shares(tree, active)
    drawn = {each.name: data.draw(st.floats(-1, 1)) for each in tree}
    found = divide_by_shares(tree, active, tilts=drawn, most=most)
    assert sum(found.values()) == pytest.approx(1)
    for name, part in bare.items():
        assert found[name] >= (1 - most) * part * (1 - 1e-9)


@given(
    st.lists(trees, min_size=1, max_size=6),
    st.lists(st.integers(-(10**9), 10**9), min_size=10, max_size=10),
    st.lists(st.integers(-(10**7), 10**7), min_size=10, max_size=10),
    st.floats(0, 1e7),
)
def test_whatever_happens_to_entitlements_balances_add_up_to_zero(
    history: list[list[tuple[int, int]]], owed: list[int], rate: list[int], seconds: float
) -> None:
    account: dict[str, Balance] = {}
    for rows in history:
        tree = grown(rows)
        account = taken_over(account, tree)
        assert set(account) == {each.name for each in tree}
        assert {name for name, each in account.items() if each.owed} <= set(leaves_of(tree))
        assert sum(each.owed for each in account.values()) == 0
        leaves = leaves_of(tree)
        added = settled_among_others(dict(zip(leaves, owed, strict=False)))
        rates = settled_among_others(dict(zip(leaves, rate, strict=False)))
        account = {
            name: each._replace(owed=each.owed + added.get(name, 0), rate=rates.get(name, 0))
            for name, each in account.items()
        }
        account = brought_forward(account, seconds, HALF_LIFE)
        assert sum(each.owed for each in account.values()) == 0
        assert taken_over(account, tree) == account


@given(st.integers(-(10**15), 10**15), st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_an_amount_is_shared_out_completely(amount: int, weights: list[float]) -> None:
    parts = shared_out(amount, weights)
    assert sum(parts) == amount
    total = sum(weights)
    for part, weight in zip(parts, weights, strict=True):
        assert part == pytest.approx(amount * weight / total, abs=2 + 1e-9 * abs(amount))


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


@examples(40)
@given(months(), st.sampled_from([0.05, 0.2, 0.5]))
def test_nothing_is_minted(month: tuple[Snapshot, list[list[int]]], most: float) -> None:
    """Whatever comes, and however often what it is worth is computed again."""
    snapshot, present = month
    policy = replace(POLICY, most_credit=most)
    known: Mapping[str, Balance] = {}
    for here in present:
        jobs = tuple(each for each in snapshot.jobs if int(each.namespace[1:]) in here)
        now = replace(snapshot, jobs=jobs, account=known)
        plan = clear(now, policy)
        again = clear(replace(now, account=plan.account), policy)
        assert again.account == plan.account
        assert sum(each.rate for each in plan.account.values()) == 0
        before = sum(max(0, each.owed) for each in plan.account.values())
        lent = sum(max(0, each.rate) for each in plan.account.values())
        known = brought_forward(plan.account, HOUR, HALF_LIFE)
        assert sum(each.owed for each in known.values()) == 0
        assert sum(max(0, each.owed) for each in known.values()) <= before + lent + len(known)


@examples(40)
@given(months(), st.lists(st.floats(-1, 1), min_size=5, max_size=5), st.sampled_from([0.2, 0.5]))
def test_no_user_has_less_than_the_guaranteed_part_of_its_bare_entitlements_utility(
    month: tuple[Snapshot, list[list[int]]], levels: list[float], most: float
) -> None:
    """The loss of sharing incentives is bounded, whatever is owed."""
    snapshot, _ = month
    cores = sum(node.cores for node in snapshot.nodes)
    shares = sum(each.shares for each in snapshot.entitlements)
    owed = {
        each.name: round(level * each.shares / shares * cores * 96 / math.log(2) * UNIT)
        for each, level in zip(snapshot.entitlements, levels, strict=False)
    }
    known = {name: Balance(each) for name, each in settled_among_others(owed).items()}
    bare = {user.name: user.entitlement_utility for user in clear(snapshot, WITHOUT).users}
    plan = clear(replace(snapshot, account=known), replace(POLICY, most_credit=most))
    for user in plan.users:
        assert user.utility >= (1 - most) * bare[user.name] * (1 - 1e-2)


def test_the_order_of_objects_does_not_matter() -> None:
    known = owing(u0=-20.0, u1=0.0, u2=20.0)
    one = clear(replace(SCENE, account=known), POLICY)
    turned = Snapshot(
        SCENE.entitlements[::-1],
        SCENE.nodes,
        SCENE.jobs[::-1],
        account=dict(reversed(known.items())),
    )
    other = clear(turned, POLICY)
    assert other.account == one.account
    assert sorted(other.grants, key=lambda each: each.namespace) == list(one.grants)


def test_the_page_shows_what_happens() -> None:
    page = Path(__file__).parents[2] / "docs" / "account.md"
    shown = doctest.testfile(str(page), module_relative=False)
    assert shown.attempted == 15
    assert shown.failed == 0
