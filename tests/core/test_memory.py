"""Memory through `clear`: what users hold of every node, what their jobs get, and credits."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.clearing import clear
from walras.division.memory import PAGE
from walras.market.snapshot import (
    Entitlement,
    Job,
    MemoryDemand,
    MemoryMechanism,
    Node,
    Policy,
    Snapshot,
)
from walras.mechanisms.karma.ledger import INITIAL_CREDITS, LARGEST_BALANCE, UNIT, Ledger
from walras.mechanisms.karma.record import MOST_LOANS
from walras.numerics.byte_text import format_bytes
from walras_api.entitlement import MOST_LOANS as STATUS_LISTS

if TYPE_CHECKING:
    from walras.market.plan import Plan

GIB = 1024**3
KARMA = Policy(memory="Karma", slice_bytes=GIB)
MECHANISMS: tuple[MemoryMechanism, ...] = ("Karma", "MaxMin", "Strict", "Auction")


def user(name: str, shares: int = 1, memory_shares: int | None = None) -> Entitlement:
    return Entitlement(name, shares, None, frozenset({"a"}), memory_shares=memory_shares)


def job(name: str, owner: str, demand: float, least: float = 0, node: str = "n") -> Job:
    memory = MemoryDemand(int(demand * GIB), int(least * GIB))
    return Job("a", name, owner, node, 0.9, memory=memory)


def granted(plan: Plan) -> dict[str, float]:
    return {grant.name: (grant.memory or 0) / GIB for grant in plan.grants}


def accounts(plan: Plan) -> dict[str, tuple[str, str]]:
    """Credits earned and spent, by user."""
    return {
        each.name: (each.account.earned, each.account.spent) for each in plan.memory if each.account
    }


def test_karmas_running_example_is_what_clear_decides() -> None:
    """Sections 2 and 3: f = 2, alpha = 1/2, six credits to begin, five quanta."""
    demands = [(3, 2, 1), (3, 0, 0), (0, 3, 0), (2, 2, 4), (2, 3, 5)]
    expected = [(3, 2, 1), (3, 0, 0), (0, 3, 0), (1, 1, 4), (1, 2, 3)]
    users = tuple(user(name) for name in "ABC")
    ledger = Ledger.open("ABC", 6)
    for wanted, slices in zip(demands, expected, strict=True):
        jobs = tuple(job(name, name, wanted[i]) for i, name in enumerate("ABC"))
        plan = clear(Snapshot(users, (Node("n", 4, 6 * GIB),), jobs, ledger=ledger), KARMA)
        assert plan.ledger is not None
        assert tuple(granted(plan).values()) == slices
        ledger = plan.ledger
    # Six were too few: all balances were moved alike.
    assert [ledger.credits(name) - INITIAL_CREDITS for name in "ABC"] == [8 - 6] * 3


def test_credits_of_idle_memory_never_stop_the_market() -> None:
    users = user("A"), user("B")
    jobs = job("A", "A", 5), job("B", "B", 1)
    few = Ledger.open("AB", 10**12)
    many = Ledger(few.users, np.full(2, LARGEST_BALANCE - 1))
    plans = [
        clear(Snapshot(users, (Node("n", 4, 6 * GIB),), jobs, ledger=ledger), KARMA)
        for ledger in (few, many)
    ]
    assert [granted(plan) for plan in plans] == [{"A": 5, "B": 1}] * 2
    assert plans[0].ledger == plans[1].ledger


def test_a_user_with_few_shares_has_idle_memory_however_long_it_borrows() -> None:
    """It pays more for a slice than anybody earns with one."""
    users = user("light"), user("heavy", 10**6)
    snapshot = Snapshot(users, (Node("n", 4, 4096 * GIB),), (job("j", "light", 4096),))
    ledger: Ledger | None = None
    for quantum in range(600):
        plan = clear(replace(snapshot, ledger=ledger), KARMA)
        assert granted(plan) == {"j": 4096}, quantum
        ledger = plan.ledger
    assert ledger is not None
    assert ledger.credits("light") < ledger.credits("heavy") - 10**12 + 10**10
    both = (*snapshot.jobs, job("k", "heavy", 4096))
    assert granted(clear(replace(snapshot, ledger=ledger, jobs=both), KARMA))["k"] == 4096


@pytest.mark.parametrize(
    ("users", "nodes", "memory", "slices"),
    [
        (1, 300, 1024 * GIB, GIB // 8),
        (3, 1000, 1024 * GIB, GIB // 8),
        (1, 5000, 4096 * GIB, PAGE),
        (3, 5000, 4096 * GIB, PAGE),
        (300, 1000, 4096 * GIB, PAGE),
    ],
)
@pytest.mark.parametrize("weights", ["equal", "unequal"])
def test_no_cluster_is_too_large_for_karma(
    users: int, nodes: int, memory: int, slices: int, weights: str
) -> None:
    """On every tenth node the lightest user alone wants all: it has it, whatever its credits."""
    shares = [1 if number == 0 or weights == "equal" else 10**6 for number in range(users)]
    owners = tuple(user(f"u{number}", each) for number, each in enumerate(shares))
    jobs = tuple(
        job(f"j{node}", "u0", memory / GIB, node=f"n{node}") for node in range(0, nodes, 10)
    )
    snapshot = Snapshot(owners, tuple(Node(f"n{node}", 4, memory) for node in range(nodes)), jobs)
    for _ in range(2):
        plan = clear(snapshot, Policy(memory="Karma", slice_bytes=slices))
        assert set(granted(plan).values()) == {memory / GIB}
        snapshot = replace(snapshot, ledger=plan.ledger)


def test_a_guaranteed_fraction_may_have_as_many_digits_as_a_market_takes() -> None:
    snapshot = Snapshot((user("A"), user("B", 2)), (Node("n", 4, 6 * GIB),), (job("j", "A", 5),))
    policy = replace(KARMA, guaranteed_fraction=Fraction("0.33333333333333333333333"))
    assert granted(clear(snapshot, policy)) == {"j": 5}


def test_a_demand_beyond_the_node_is_the_whole_node() -> None:
    snapshot = Snapshot((user("A"),), (Node("n", 4, 6 * GIB),), (job("j", "A", 8 * 10**9),))
    for mechanism in ("Karma", "MaxMin", "Strict"):
        plan = clear(snapshot, Policy(memory=mechanism, slice_bytes=PAGE))
        assert granted(plan) == {"j": 6}


def test_a_light_user_is_charged_by_its_part_to_a_millionth() -> None:
    """A part of a billionth is not rounded up to one of a million."""
    users = (user("light"), user("heavy", 10**9))
    snapshot = Snapshot(users, (Node("n", 4, 1000 * GIB),), (job("j", "light", 1),))
    _, spent = accounts(clear(snapshot, KARMA))["light"]
    assert float(spent) == pytest.approx(10**9 / 2, rel=0.02)


@pytest.mark.parametrize("richest", [12 * 10**17, LARGEST_BALANCE - 1])
def test_balances_far_apart_never_stop_the_market(richest: int) -> None:
    users = user("A"), user("B")
    jobs = job("A", "A", 5), job("B", "B", 5)
    ledger = Ledger(("A", "B"), np.array([richest, UNIT // 2]))
    plan = clear(Snapshot(users, (Node("n", 4, 6 * GIB),), jobs, ledger=ledger), KARMA)
    assert granted(plan) == {"A": 5, "B": 1}


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = [f"user-{i}" for i in range(draw(st.integers(1, 4)))]
    users = [user(name, int(random.integers(1, 5))) for name in names]
    nodes = [Node(f"n{j}", 4, int(random.integers(0, 20)) * GIB // 2) for j in range(3)]
    jobs = [
        job(f"job-{k}", str(random.choice(names)), float(random.uniform(0, 8)), node=f"n{k % 3}")
        for k in range(draw(st.integers(1, 9)))
    ]
    return Snapshot(tuple(users), tuple(nodes), tuple(jobs))


@examples(60)
@given(snapshots(), st.sampled_from(MECHANISMS))
def test_no_node_gives_more_than_it_has_and_no_job_gets_more_than_it_wants(
    snapshot: Snapshot, mechanism: MemoryMechanism
) -> None:
    policy = replace(KARMA, memory=mechanism)
    plan = clear(snapshot, policy)
    assert repr(clear(snapshot, policy)) == repr(plan)
    wanted = {each.name: each.memory.demand for each in snapshot.jobs if each.memory}
    given: defaultdict[str, int] = defaultdict(int)
    for grant in plan.grants:
        assert grant.memory is not None
        assert 0 <= grant.memory <= wanted[grant.name]
        given[grant.node] += grant.memory
    for node in snapshot.nodes:
        assert given[node.name] <= node.memory
    assert sum(given.values()) == sum(each.granted for each in plan.memory)


@examples(60)
@given(snapshots(), st.sampled_from(["Karma", "MaxMin"]))
def test_nothing_stays_idle_that_somebody_wants(
    snapshot: Snapshot, mechanism: MemoryMechanism
) -> None:
    """Pareto efficiency, but for what a user's last slice holds beyond its demand."""
    plan = clear(snapshot, replace(KARMA, memory=mechanism))
    for node in snapshot.nodes:
        here = [each for each in snapshot.jobs if each.node == node.name]
        got = sum(grant.memory or 0 for grant in plan.grants if grant.node == node.name)
        wanted = sum(each.memory.demand for each in here if each.memory)
        slices = node.memory // GIB * GIB
        assert got >= min(wanted, slices - len(here) * GIB) - len(here) * PAGE


def test_who_has_no_jobs_lends_and_earns() -> None:
    users = (user("idle"), user("busy"))
    plan = clear(Snapshot(users, (Node("n", 4, 8 * GIB),), (job("j", "busy", 8),)), KARMA)
    assert granted(plan) == {"j": 8}
    # Of four slices each, two are guaranteed. All earn the two shared ones each, and the idle
    # user's two are lent: six borrowed cost six.
    assert accounts(plan) == {"idle": ("4", "0"), "busy": ("2", "6")}
    idle, busy = (each.account for each in plan.memory)
    assert idle is not None
    assert busy is not None
    assert (idle.lent, idle.borrowed) == ((("busy", 2 * GIB),), ())
    assert (busy.lent, busy.borrowed) == ((), (("", 4 * GIB), ("idle", 2 * GIB)))


def test_an_account_names_the_largest_loans_as_many_as_a_status_lists() -> None:
    """Fifteen users lend in proportion to their shares, two of them alike."""
    lenders = [user(f"u{number:02}", 1 + number // 2) for number in range(15)]
    users = (*lenders, user("busy", 1))
    plan = clear(Snapshot(users, (Node("n", 4, 640 * GIB),), (job("j", "busy", 640),)), KARMA)
    of = {each.name: each.account for each in plan.memory}
    busy = of["busy"]
    assert busy is not None
    assert [name for name, _ in busy.borrowed[:4]] == ["", "u14", "u12", "u13"]
    assert len(busy.borrowed) == MOST_LOANS == STATUS_LISTS
    for name, amount in busy.borrowed[1:]:
        account = of[name]
        assert account is not None
        assert account.lent == (("busy", amount),)


def test_newcomers_start_with_the_mean() -> None:
    node = Node("n", 4, 8 * GIB)
    first = clear(Snapshot((user("a"), user("b")), (node,), (job("j", "a", 8),)), KARMA)
    assert first.ledger is not None
    kept = first.ledger.part_of("bc")
    after = clear(
        Snapshot((user("b"), user("c")), (node,), (job("k", "c", 0),), ledger=kept), KARMA
    ).ledger
    assert after is not None
    assert after.users == ("b", "c")
    assert after.credits("c") == after.credits("b")


def test_the_balance_of_who_takes_no_part_is_parked() -> None:
    """Shares, grants and credits of the others are as if it did not exist."""
    node, jobs = Node("n", 4, 8 * GIB), (job("j", "b", 8), job("k", "c", 1))
    ledger = Ledger(tuple("abc"), np.array([900, 1000, 1001]) * 10**15)
    without = Snapshot((user("b"), user("c")), (node,), jobs, ledger=ledger.part_of("bc"))
    plain, parked = (clear(each, KARMA) for each in (without, replace(without, ledger=ledger)))
    assert plain.grants == parked.grants
    assert plain.memory == parked.memory
    assert parked.ledger is not None
    assert parked.ledger.part_of("bc") == plain.ledger
    assert parked.ledger.users == ledger.users
    # All eight slices are guaranteed or borrowed, so that there is nothing that raises it.
    assert parked.ledger.balances[0] == ledger.balances[0]


def test_claims_on_memory_may_differ_from_those_on_cores() -> None:
    users = (user("a", 1, memory_shares=3), user("b", 1))
    jobs = (job("j", "a", 8), job("k", "b", 8))
    plan = clear(Snapshot(users, (Node("n", 4, 8 * GIB),), jobs), replace(KARMA, memory="Strict"))
    assert granted(plan) == {"j": 6, "k": 2}
    assert [each.entitled // GIB for each in plan.memory] == [6, 2]


def test_minimums_come_before_what_other_jobs_of_the_user_could_use() -> None:
    users = (user("a"), user("b"))
    jobs = (job("big", "a", 8), job("least", "a", 4, least=3), job("k", "b", 8))
    plan = clear(Snapshot(users, (Node("n", 4, 8 * GIB),), jobs), replace(KARMA, memory="Strict"))
    assert granted(plan) == {"big": 1, "least": 3, "k": 4}


def test_a_job_short_of_its_minimum_is_told_so() -> None:
    users = (user("a"), user("b"))
    jobs = (job("needs", "a", 8, least=6), job("k", "b", 8))
    plan = clear(Snapshot(users, (Node("n", 4, 8 * GIB),), jobs), replace(KARMA, memory="Strict"))
    assert plan.grants[0].memory_reason == (
        "4Gi of the 8Gi that it can use; a has no more on n; short of its minimum of 6Gi"
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_demand_counts_within_the_bounds_of_its_job(mechanism: MemoryMechanism) -> None:
    """Below its minimum a job does not run, and more than its maximum it never gets."""
    idle = replace(job("idle", "a", 0), memory=MemoryDemand(GIB, least=3 * GIB))
    greedy = replace(job("greedy", "b", 0), memory=MemoryDemand(8 * GIB, most=2 * GIB))
    snapshot = Snapshot((user("a"), user("b")), (Node("n", 4, 8 * GIB),), (idle, greedy))
    plan = clear(snapshot, replace(KARMA, memory=mechanism))
    assert granted(plan) == {"idle": 3, "greedy": 2}
    assert [each.demand // GIB for each in plan.memory] == [3, 2]


def test_jobs_that_take_no_part_get_no_memory_and_no_reason() -> None:
    plain = Job("a", "plain", "a", "n", 0.9)
    snapshot = Snapshot((user("a"),), (Node("n", 4, GIB),), (plain, job("j", "a", 1)))
    both = clear(snapshot, KARMA).grants
    assert [(grant.memory, grant.memory_reason) for grant in both] == [
        (None, ""),
        (GIB, "all 1Gi that it can use"),
    ]
    assert clear(snapshot).memory == ()
    assert clear(replace(snapshot, jobs=(plain,)), KARMA).memory == ()


def test_the_guaranteed_fraction_is_an_exact_number() -> None:
    users = (user("a"), user("b"))
    jobs = (job("j", "a", 10), job("k", "b", 10))
    policy = replace(KARMA, guaranteed_fraction=Fraction(1, 10))
    plan = clear(Snapshot(users, (Node("n", 4, 20 * GIB),), jobs), policy)
    assert granted(plan) == {"j": 10, "k": 10}
    assert accounts(plan) == {"a": ("9", "9"), "b": ("9", "9")}


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (4096, "4Ki"), (1536 * 1024**2, "1.5Gi"), (GIB, "1Gi"), (3 << 20, "3Mi")],
)
def test_amounts_are_written_for_people(amount: int, text: str) -> None:
    assert format_bytes(amount) == text


@pytest.mark.long
def test_what_is_entitled_to_is_right_on_clusters_of_any_size() -> None:
    """A petabyte times the weights of users is more than 64 bits hold."""
    nodes = tuple(Node(f"n{number}", 1, 1024 * GIB) for number in range(1000))
    snapshot = Snapshot((user("a", 1), user("b", 3)), nodes, (job("j", "a", 1, node="n0"),))
    entitled = [each.entitled for each in clear(snapshot, KARMA).memory]
    assert entitled == [256_000 * GIB, 768_000 * GIB]
