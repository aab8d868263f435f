"""Auctions through `clear`: shares go by bids, budgets to where they count, promises first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.clearing import clear
from walras.market.snapshot import Bid, Entitlement, Job, MemoryDemand, Node, Policy, Snapshot

if TYPE_CHECKING:
    from walras.market.plan import Plan

GIB = 1024**3
CORES = Policy("Auction")
BOTH = Policy("Auction", memory="Auction")


def user(name: str, shares: int) -> Entitlement:
    return Entitlement(name, shares, None, frozenset({"a"}))


def job(name: str, owner: str, bid: Bid | None = None, demand: int | None = None) -> Job:
    memory = None if demand is None else MemoryDemand(demand * GIB)
    return Job("a", name, owner, "n", 0.9, bid=bid or Bid(), memory=memory)


def market(*jobs: Job, shares: tuple[int, int] = (4, 1)) -> Snapshot:
    users = (user("x", shares[0]), user("y", shares[1]))
    return Snapshot(users, (Node("n", 30, 30 * GIB),), jobs)


def cores(plan: Plan) -> dict[str, float]:
    return {grant.name: grant.bought for grant in plan.grants}


@pytest.mark.parametrize(
    ("exponent", "first"),
    [(0.0, 15.0), (0.5, 20.0), (1.0, 24.0), (0.25, 30 * 4**0.25 / (4**0.25 + 1))],
)
def test_shares_of_cores_go_by_bids_to_the_power_of_alpha(exponent: float, first: float) -> None:
    """Equation 1, with budgets of 4 to 1."""
    plan = clear(market(job("j", "x"), job("k", "y")), replace(CORES, exponent=exponent))
    assert plan.converged
    assert cores(plan) == pytest.approx({"j": first, "k": 30 - first})


def test_a_budget_is_divided_among_its_users_jobs_as_their_bids_say() -> None:
    jobs = (job("j", "x", Bid(budget=3)), job("k", "x", Bid(budget=1)), job("l", "y"))
    plan = clear(market(*jobs, shares=(1, 1)), replace(CORES, exponent=1.0))
    assert cores(plan) == pytest.approx({"j": 11.25, "k": 3.75, "l": 15})
    assert [grant.spend for grant in plan.grants] == pytest.approx([11.25, 3.75, 15])
    assert plan.nodes[0].price == pytest.approx(1)


def test_who_wants_memory_more_bids_for_it_and_leaves_cores_to_others() -> None:
    likes_cores, likes_memory = Bid(cores=3, memory=1), Bid(cores=1, memory=3)
    plan = clear(
        market(job("j", "x", likes_cores, 30), job("k", "y", likes_memory, 30), shares=(1, 1)), BOTH
    )
    memory = {grant.name: grant.memory or 0 for grant in plan.grants}
    assert cores(plan)["j"] > 17
    assert memory["k"] > 17 * GIB
    assert sum(memory.values()) <= 30 * GIB
    assert plan.residual < 1e-6


def test_memory_that_one_job_cannot_use_goes_to_the_others() -> None:
    plan = clear(market(job("j", "x", demand=2), job("k", "y", demand=40)), BOTH)
    assert {grant.name: grant.memory for grant in plan.grants} == {"j": 2 * GIB, "k": 28 * GIB}


def test_what_a_minimum_takes_others_pay_nothing_for() -> None:
    """Each user has one job, so that no money can move to it: bids divide the node as without."""
    jobs = (
        job("rich", "x", Bid(minimum_utility=0.9)),
        job("poor", "y", Bid(minimum_utility=0.5)),
    )
    plan = clear(market(*jobs), CORES)
    assert cores(plan) == pytest.approx({"rich": 20, "poor": 10})
    assert [grant.spend for grant in plan.grants] == pytest.approx([24, 6])


def test_logarithmic_utilities_are_taken() -> None:
    logarithmic = Bid(utility="Log", cores=1, memory=1)
    plan = clear(market(job("j", "x", logarithmic, 30), job("k", "y", logarithmic, 30)), BOTH)
    assert plan.converged
    assert cores(plan) == pytest.approx({"j": 20, "k": 10}, rel=1e-4)


def test_the_reason_names_the_bid() -> None:
    (grant, _) = clear(market(job("j", "x"), job("k", "y")), CORES).grants
    assert grant.reason.startswith("a bid of 24.00, of x's budget of 24.00, wins 20.00 cores of n")


@examples(60)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 100), st.floats(0.01, 10), st.floats(0.01, 10), st.booleans()),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_all_of_a_node_is_sold_to_the_last_bit_of_it_and_no_more(
    bids: list[tuple[float, float, float, bool]], exponent: float
) -> None:
    jobs = [
        job(f"j{k}", "xy"[k % 2], Bid(budget, "Log" if log else "Linear", c, m), 30)
        for k, (budget, c, m, log) in enumerate(bids)
    ]
    plan = clear(market(*jobs), replace(BOTH, exponent=exponent))
    assert sum(cores(plan).values()) == pytest.approx(30)
    assert sum(grant.memory or 0 for grant in plan.grants) == pytest.approx(30 * GIB, rel=1e-5)
    spent = dict.fromkeys("xy", 0.0)
    for grant in plan.grants:
        spent[grant.entitlement] += grant.spend
    for each in plan.users:
        assert spent[each.name] <= each.entitled * (1 + 1e-6)
