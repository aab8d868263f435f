"""Jobs with minimums of utility: what they hold, and who pays for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.clearing import clear
from walras.division.auctions import PricingError
from walras.market.snapshot import Bid, Entitlement, Job, MemoryDemand, Node, Policy, Snapshot

if TYPE_CHECKING:
    from walras.market.plan import BidOutcome, Plan

GIB = 1024**3
CORES = Policy("Auction")
BOTH = Policy("Auction", memory="Auction")
SHARES = {"rich": 4, "double": 2}


def user(name: str, shares: int = 1) -> Entitlement:
    return Entitlement(name, shares, None, frozenset({"a"}))


def job(
    name: str,
    owner: str = "x",
    node: str = "n",
    bid: Bid | None = None,
    *,
    pod: str = "",
    demand: int | None = None,
    least: int = 0,
    most: int | None = None,
) -> Job:
    memory = None if demand is None else MemoryDemand(demand * GIB, least * GIB)
    return Job(
        "a", name, owner, node, 0.9, max_cores=most, bid=bid or Bid(), pod=pod, memory=memory
    )


def market(*jobs: Job, nodes: tuple[Node, ...] = (Node("n", 30, 30 * GIB),)) -> Snapshot:
    """A market in which entitlement ``rich`` has four times the shares of most others."""
    users = {
        each.entitlement: user(each.entitlement, SHARES.get(each.entitlement, 1)) for each in jobs
    }
    return Snapshot(tuple(users.values()), nodes, jobs)


def bids(plan: Plan) -> dict[str, BidOutcome]:
    return {each.name: each for each in plan.bids}


def held(plan: Plan) -> dict[str, float]:
    return {each.title.partition("/")[2]: each.held for each in plan.grants}


def test_a_job_is_one_bidder_however_many_pods_it_has() -> None:
    """Two jobs of one user with equal budgets: one has two pods, and no more money for that."""
    jobs = (job("j", pod="j-0"), job("j", pod="j-1"), job("k"))
    plan = clear(market(*jobs), CORES)
    assert [grant.bought for grant in plan.grants] == pytest.approx([7.5, 7.5, 15])
    assert {name: each.budget for name, each in bids(plan).items()} == pytest.approx(
        {"j": 15, "k": 15}
    )


def test_a_job_on_several_nodes_divides_its_budget_among_them() -> None:
    """It bids where it contends, and its utility is its share of all cores of its nodes."""
    nodes = Node("n", 30), Node("m", 10)
    jobs = (job("j", "x", "n", pod="j-0"), job("j", "x", "m", pod="j-1"), job("k", "y", "n"))
    plan = clear(market(*jobs, nodes=nodes), CORES)
    cores = {(grant.pod, grant.node): grant.bought for grant in plan.grants}
    assert cores["j-1", "m"] == 10
    assert cores["j-0", "n"] == pytest.approx(15)
    assert bids(plan)["j"].utility == pytest.approx(25 / 40)


def test_a_minimum_counts_what_a_job_has_on_all_its_nodes() -> None:
    nodes = Node("n", 30), Node("m", 10)
    modest = Bid(minimum_utility=0.6)
    jobs = (
        job("j", "x", "n", modest, pod="j-0"),
        job("j", "x", "m", modest, pod="j-1"),
        job("k", "y", "n"),
    )
    plan = clear(market(*jobs, nodes=nodes), CORES)
    assert all(each.met for each in plan.bids)
    greedy = tuple(replace(each, bid=Bid(minimum_utility=0.7)) for each in jobs[:2])
    missed = clear(market(*greedy, jobs[2], nodes=nodes), CORES)
    assert held(missed) == held(plan)
    assert not bids(missed)["j"].met


def test_a_minimum_moves_money_from_its_users_other_jobs_on_any_node() -> None:
    """Ada's job needs 7.5 of 16 cores; her job on another node pays, and bob has no less there."""
    nodes = Node("n", 16), Node("m", 16)
    mine = (job("a", "x", "n"), job("b", "x", "m"))
    others = (job("c", "y", "n"), job("d", "z", "m"))
    plain = held(clear(market(*mine, *others, nodes=nodes), CORES))
    urgent = replace(mine[0], bid=Bid(minimum_utility=7.5 / 16))
    plan = clear(market(urgent, mine[1], *others, nodes=nodes), CORES)
    now = held(plan)
    assert plain["a"] < 7.5 <= now["a"] < 7.51
    assert now["b"] < plain["b"]
    assert bids(plan)["a"].promised
    assert bids(plan)["a"].budget + bids(plan)["b"].budget == pytest.approx(32 / 3)


def test_of_a_users_minimums_those_of_the_largest_budgets_count() -> None:
    jobs = [
        job(name, "x", bid=Bid(budget=budget, minimum_utility=0.3))
        for name, budget in (("a", 1.0), ("b", 3.0), ("c", 2.0))
    ]
    plan = clear(market(*jobs, job("k", "y"), nodes=(Node("n", 30),)), CORES)
    outcome = bids(plan)
    assert [name for name in "abc" if outcome[name].promised] == ["b"]
    assert held(plan)["b"] >= 9
    assert "costs more than x's budget pays for" in plan.grants[0].reason


def test_a_promise_is_kept_to_the_thousandth() -> None:
    """Of 10 cores, jobs whose budgets win 3.5, 3.5 and 3 hold that; a promise of 3.6 takes more."""
    nodes = (Node("n", 10),)
    budgets = {"a": 0.35**2, "b": 0.35**2, "c": 0.3**2}
    jobs = [job(name, "x", bid=Bid(budget=each)) for name, each in budgets.items()]
    plain = clear(market(*jobs, nodes=nodes), CORES)
    assert held(plain) == {"a": 3.5, "b": 3.5, "c": 3}
    jobs[1] = replace(jobs[1], bid=replace(jobs[1].bid, minimum_utility=0.36))
    plan = clear(market(*jobs, nodes=nodes), CORES)
    assert held(plan)["b"] >= 3.6
    assert bids(plan)["b"].met


def test_whole_cores_cost_the_job_that_asks_for_them_its_promise_and_no_other() -> None:
    """Three equal jobs win 8/3 of 8 cores each; one that shares none holds 2."""
    jobs = [job(name, name, bid=Bid(minimum_utility=0.33)) for name in ("u", "v", "w")]
    jobs[2] = replace(jobs[2], whole_cores=True)
    plan = clear(market(*jobs, nodes=(Node("n", 8),)), CORES)
    assert held(plan) == {"u": 3, "v": 3, "w": 2}
    outcome = bids(plan)
    assert all(each.promised for each in plan.bids)
    assert [name for name, each in outcome.items() if each.met] == ["u", "v"]
    reasons = {grant.name: grant.reason for grant in plan.grants}
    assert "its minimum utility of 0.33 is missed at 0.25" in reasons["w"]


def test_a_minimum_beyond_what_a_job_can_use_is_not_promised() -> None:
    jobs = (job("big", "x", bid=Bid(minimum_utility=0.5), most=6), job("k", "y"))
    plan = clear(market(*jobs), CORES)
    outcome = bids(plan)["big"]
    assert (outcome.promised, outcome.met) == (False, False)
    assert outcome.reach == pytest.approx(6 / 30)
    assert "out of reach" in plan.grants[0].reason


def test_who_asks_for_a_whole_node_takes_nothing_of_others() -> None:
    nodes, all_of_it = (Node("n", 16),), Bid(minimum_utility=1)
    plan = clear(market(job("a", "x", bid=all_of_it), job("b", "y"), nodes=nodes), CORES)
    assert held(plan) == {"a": 8, "b": 8}
    alone = clear(market(job("a", "x", bid=all_of_it), nodes=nodes), CORES)
    assert bids(alone)["a"].met
    assert held(alone)["a"] == 16


def test_a_minimum_takes_a_hundredth_less_than_all_of_its_users_money() -> None:
    jobs = (job("a", "x", bid=Bid(minimum_utility=0.9)), job("b", "x"), job("c", "y"))
    plan = clear(market(*jobs), CORES)
    assert not bids(plan)["a"].promised
    assert held(plan)["a"] == held(plan)["b"]
    less = (replace(jobs[0], bid=Bid(minimum_utility=0.47)), *jobs[1:])
    plan = clear(market(*less), CORES)
    assert bids(plan)["a"].met
    assert bids(plan)["b"].budget >= 0.01 * 15


def test_what_a_job_cannot_use_counts_for_the_promises_of_others() -> None:
    """One job can use 4 of 16 cores and needs 3.2, the other needs 9.6: both are promised."""
    jobs = (
        job("few", "double", bid=Bid(minimum_utility=0.2), most=4),
        job("many", "y", bid=Bid(minimum_utility=0.6)),
    )
    plan = clear(market(*jobs, nodes=(Node("n", 16),)), CORES)
    assert held(plan) == {"few": 4, "many": 12}
    assert all(each.promised and each.met for each in plan.bids)


def test_minimums_of_memory_come_before_shares() -> None:
    """A program that is running has its least memory, though its bid wins less."""
    jobs = (job("rich", "rich", demand=40), job("poor", "y", demand=28, least=12))
    plan = clear(market(*jobs), BOTH)
    memory = {grant.name: grant.memory for grant in plan.grants}
    assert memory == {"rich": 18 * GIB, "poor": 12 * GIB}


def test_the_minimum_of_a_logarithmic_job_is_a_product_of_shares() -> None:
    """Two such jobs of equal weights share everything equally: each has a half of a half."""
    for minimum, met in ((0.24, True), (0.26, False)):
        log = Bid(utility="Log", minimum_utility=minimum)
        jobs = (job("j", "x", bid=log, demand=30), job("k", "y", bid=Bid(utility="Log"), demand=30))
        plan = clear(market(*jobs), BOTH)
        assert bids(plan)["j"].met is met
        assert bids(plan)["j"].utility == pytest.approx(0.25, rel=1e-3)


def test_an_auction_that_is_too_large_names_another_mechanism(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walras.division.auctions.LARGEST_MATRIX", 3)
    jobs = (job("j", pod="j-0"), job("j", node="m", pod="j-1"), job("k"))
    with pytest.raises(PricingError, match=r"2 jobs with pods on 2 nodes .* AmdahlBidding"):
        clear(market(*jobs, nodes=(Node("n", 4), Node("m", 4))), CORES)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Draw jobs of one to three pods on three nodes, some with minimums, some logarithmic."""
    nodes = tuple(Node(f"n{j}", draw(st.integers(1, 24)), 16 * GIB) for j in range(3))
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, 6))):
        minimum = draw(st.none() | st.floats(0.01, 1.5))
        bid = Bid(
            draw(st.floats(0.1, 10)),
            draw(st.sampled_from(["Linear", "Log"])),
            draw(st.floats(0.1, 3)),
            draw(st.floats(0.1, 3)),
            minimum,
        )
        most = draw(st.none() | st.integers(1, 12))
        demand = draw(st.none() | st.integers(1, 20))
        for pod in range(draw(st.integers(1, 3))):
            node = nodes[draw(st.integers(0, 2))].name
            where = job(
                f"j{number}", "xyz"[number % 3], node, bid,
                pod=f"p{pod}", demand=demand, most=most,
            )  # fmt: skip
            jobs.append(where)
    return market(*jobs, nodes=nodes)


@examples(80)
@given(clusters(), st.sampled_from([CORES, BOTH, Policy("AmdahlBidding", memory="Auction")]))
def test_what_is_met_is_held_in_thousandths_and_pages(snapshot: Snapshot, policy: Policy) -> None:
    plan = clear(snapshot, policy)
    cores = {node.name: node.cores for node in snapshot.nodes}
    for bid in plan.bids:
        if bid.minimum is not None:
            assert bid.met == (bid.utility >= bid.minimum * (1 - 1e-5) - 1e-4) or (
                abs(bid.utility - bid.minimum) < 1e-3
            )
        assert bid.utility <= bid.reach * (1 + 1e-9)
    for node, capacity in cores.items():
        mine = [grant for grant in plan.grants if grant.node == node]
        assert sum(grant.held for grant in mine) <= capacity + 1e-9
        assert all(grant.held >= 0.001 for grant in mine)
    budget: dict[str, float] = {}
    for bid in plan.bids:
        budget[bid.entitlement] = budget.get(bid.entitlement, 0.0) + bid.budget
    for each in (user for user in plan.users if user.name in budget):
        assert budget[each.name] == pytest.approx(each.entitled)


@examples(80)
@given(clusters(), st.sampled_from([CORES, BOTH]))
def test_minimums_move_the_money_of_their_users_and_nothing_else(
    snapshot: Snapshot, policy: Policy
) -> None:
    """Whoever gives its jobs these budgets, and states no minimums, has the same."""
    plan = clear(snapshot, policy)
    budgets = {bid.name: bid.budget for bid in plan.bids}
    plain = tuple(
        replace(each, bid=replace(each.bid, budget=budgets[each.name], minimum_utility=None))
        for each in snapshot.jobs
    )
    again = clear(replace(snapshot, jobs=plain), policy)
    assert [grant.bought for grant in again.grants] == pytest.approx(
        [grant.bought for grant in plan.grants], rel=1e-3, abs=1e-3
    )


@examples(40)
@given(clusters(), st.integers(0, 2**32 - 1))
def test_promises_hold_under_hysteresis_and_nothing_moves_again(
    snapshot: Snapshot, seed: int
) -> None:
    random = np.random.default_rng(seed)
    policy = replace(CORES, hysteresis=0.05)
    before = clear(snapshot, policy)
    factors = {each.name: float(random.uniform(0.9, 1.1)) for each in snapshot.jobs}
    moved = tuple(
        replace(each, bid=replace(each.bid, cores=each.bid.cores * factors[each.name]))
        for each in snapshot.jobs
    )
    now = replace(snapshot, jobs=moved, held=before.holdings())
    free = {each.name: each for each in clear(replace(now, held={}), policy).bids}
    plan = clear(now, policy)
    for bid in plan.bids:
        if bid.minimum is not None and free[bid.name].met and bid.promised:
            assert bid.met
    assert clear(replace(now, held=plan.holdings()), policy).holdings() == plan.holdings()
