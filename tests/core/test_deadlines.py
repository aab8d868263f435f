"""Deadlines: what they take, which are accepted, and that nobody else pays for them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from examples import examples
from walras.analysis.forecast import expected_speedup, forecast
from walras.clearing import clear
from walras.division.deadlines.need import cores_for, cores_needed, reservation
from walras.division.deadlines.reserve import LEEWAY
from walras.market.snapshot import (
    Bid,
    Deadline,
    Entitlement,
    Job,
    Node,
    Policy,
    Snapshot,
    identity,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.market.plan import DeadlineOutcome, Plan
    from walras.market.snapshot import CoreMechanism

HOUR = 3600.0


def job(
    name: str,
    user: str,
    node: str = "one",
    fraction: float = 0.95,
    deadline: Deadline | None = None,
    **fields: Any,
) -> Job:
    return Job("default", name, user, node, fraction, deadline=deadline, **fields)


def cluster(
    nodes: Mapping[str, float], *jobs: Job, shares: dict[str, int] | None = None
) -> Snapshot:
    users = sorted({each.entitlement for each in jobs})
    of = shares or {}
    return Snapshot(
        tuple(
            Entitlement(user, of.get(user, 1), namespaces=frozenset(["default"])) for user in users
        ),
        tuple(Node(name, cores) for name, cores in nodes.items()),
        jobs,
    )


def outcome_of(plan: Plan, name: str) -> DeadlineOutcome:
    return next(each for each in plan.deadlines if each.name == name)


def cores_of(plan: Plan, name: str) -> float:
    return next(grant.held for grant in plan.grants if grant.name == name)


def work_for(cores: float, fraction: float = 0.95, seconds: float = HOUR) -> Deadline:
    """Return a deadline that needs exactly this many cores."""
    return Deadline(seconds, seconds * expected_speedup(job("x", "u", fraction=fraction), cores))


# The arithmetic of a deadline.


@given(st.floats(0.001, 1.0), st.floats(0.01, 200.0))
def test_cores_for_a_speed_give_that_speed(fraction: float, cores: float) -> None:
    speed = expected_speedup(job("x", "u", fraction=fraction), cores)
    found = cores_for(speed, fraction)
    assert expected_speedup(job("x", "u", fraction=fraction), found) == pytest.approx(
        speed, rel=1e-6
    )


@given(st.floats(0.5, 1.0), st.floats(0.1, 30.0))
def test_cores_are_the_fewest_that_give_a_speed(fraction: float, speed: float) -> None:
    one = job("x", "u", fraction=fraction)
    found = cores_for(speed, fraction)
    assume(found < 1e6)
    assert expected_speedup(one, found * 1.0001) >= speed
    assert expected_speedup(one, found * 0.9999) < speed


def test_no_number_of_cores_reaches_a_speed_beyond_the_sequential_part() -> None:
    assert cores_for(1 / (1 - 0.9), 0.9) == math.inf
    assert cores_for(11, 0.9) == math.inf
    assert cores_for(10_000, 1.0) == 10_000


def test_the_error_is_a_margin_and_a_passed_deadline_takes_all() -> None:
    assert cores_needed(Deadline(100.0, 400.0, 0.0), 1.0) == pytest.approx(4)
    assert cores_needed(Deadline(100.0, 400.0, 100.0), 1.0) == pytest.approx(5)
    assert cores_needed(Deadline(-1.0, 400.0), 1.0) == math.inf
    assert cores_needed(Deadline(-1.0, 0.0), 1.0) == 0


@given(st.floats(2.0, 60.0), st.lists(st.floats(0.96, 1.04), min_size=1, max_size=30))
def test_an_estimate_that_wavers_moves_no_cores_down(needed: float, wavers: list[float]) -> None:
    """Once they are more than were needed at first, cores are kept whatever the estimate says."""
    first = reserved = reservation(needed, 0, 64)
    for waver in wavers:
        before, reserved = reserved, reservation(needed * waver, reserved, 64)
        assert reserved >= min(needed * waver, 64) - 1e-6
        assert reserved == before or before == first


@given(st.floats(0.0, 80.0), st.integers(0, 64_000), st.integers(1, 64))
def test_a_reservation_suffices_and_is_settled_after_one_step(
    needed: float, before: int, most: int
) -> None:
    first = reservation(needed, before / 1000, most)
    assert first == round(first, 3)
    assert min(needed, most) - 1e-9 <= first <= most
    assert first < 1.1 * needed + 0.001 + 1e-9 or first == before / 1000 <= 1.3 * needed
    assert reservation(needed, first, most) == first


def test_parts_of_cores_are_reserved() -> None:
    assert reservation(0.0, 2, 8) == 0
    assert reservation(0.3337, 0, 8) == 0.334
    assert reservation(0.3, 0.39, 8) == 0.39
    assert reservation(0.3, 0.4, 8) == 0.33
    assert reservation(0.3, 0.29, 8) == 0.33
    assert reservation(7.9, 7.8, 8) == 8
    jobs = [job("a", "ada", deadline=work_for(0.75)), job("b", "ada"), job("c", "bob")]
    plan = clear(cluster({"one": 2}, *jobs))
    assert outcome_of(plan, "a").reserved == 0.75
    assert [grant.held for grant in plan.grants] == [0.75, 0.25, 1]


# Acceptance.


def beside(loss: float, needed: float) -> Snapshot:
    """A job that needs some cores beside a program that takes a part of its throughput."""
    mine = job("a", "ada", program="solve", deadline=work_for(needed, 0.95 * (1 - loss)))
    other = job("c", "bob", program="stream")
    return replace(
        cluster({"one": 16}, mine, job("b", "ada"), other),
        penalties={("solve", "stream"): loss},
    )


def test_a_job_that_loses_throughput_beside_others_needs_more_cores_and_ends_in_time() -> None:
    market = beside(0.25, 6)
    plan = clear(market)
    found = outcome_of(plan, "a")
    assert found.state == "Reserved"
    assert found.needed == pytest.approx(6)
    mine = market.jobs[0]
    assert mine.deadline
    ends = forecast(market, Policy(), {identity(mine): mine.deadline.left})
    assert ends[identity(mine)] <= mine.deadline.seconds * 1.0001
    ignored = outcome_of(clear(market, Policy(interference=False)), "a")
    assert ignored.needed < 3


def test_what_no_cores_can_do_beside_others_is_out_of_reach() -> None:
    """A speed of 3.4 takes 4 cores alone; beside the other program, 16 cores reach 3.0."""
    market = beside(0.25, 6)
    mine = replace(market.jobs[0], deadline=work_for(4))
    found = outcome_of(clear(replace(market, jobs=(mine, *market.jobs[1:]))), "a")
    assert (found.state, found.needed) == ("OutOfReach", math.inf)


def test_the_own_jobs_of_a_user_give_way_and_no_others() -> None:
    """Each of two equal users has 8 of a node's 16 cores, whatever is reserved."""
    jobs = [job("a", "ada", deadline=work_for(6)), job("b", "ada"), job("c", "bob")]
    plan = clear(cluster({"one": 16}, *jobs))
    without = clear(cluster({"one": 16}, *[replace(each, deadline=None) for each in jobs]))
    assert outcome_of(plan, "a").state == "Reserved"
    assert (cores_of(plan, "a"), cores_of(plan, "b"), cores_of(plan, "c")) == (6, 2, 8)
    assert cores_of(without, "c") == 8
    assert cores_of(without, "a") == 4
    reason = next(grant.reason for grant in plan.grants if grant.name == "a")
    assert "the 6 cores reserved for its deadline" in reason


def test_what_the_budget_does_not_pay_for_is_not_reserved() -> None:
    jobs = [job("a", "ada", deadline=work_for(12)), job("b", "ada"), job("c", "bob")]
    plan = clear(cluster({"one": 16}, *jobs))
    outcome = outcome_of(plan, "a")
    assert (outcome.state, outcome.reserved) == ("Unaffordable", 0)
    assert outcome.needed == pytest.approx(12)
    # Bob spends 8. For R cores and a quarter for b, Ada must spend 8 (R + 1/4) / (16 - R - 1/4).
    assert outcome.payable == pytest.approx(16 * 0.95 / 1.95 - 0.25)
    assert (cores_of(plan, "a"), cores_of(plan, "c")) == (4, 8)


def test_a_budget_may_be_spent_on_one_of_two_nodes() -> None:
    """Half of the cluster is worth 16 cores; 10 of one node's 16 are within what that pays."""
    jobs = [
        job("a", "ada", deadline=work_for(10)),
        job("b", "ada", "two"),
        job("c", "bob"),
        job("d", "bob", "two"),
    ]
    plan = clear(cluster({"one": 16, "two": 16}, *jobs))
    assert outcome_of(plan, "a").state == "Reserved"
    assert cores_of(plan, "a") == 10
    bob = next(user for user in plan.users if user.name == "bob")
    assert bob.utility >= bob.entitlement_utility * (1 - 1e-6)


def test_the_earliest_deadline_comes_first() -> None:
    soon, late = work_for(5, seconds=HOUR), work_for(5, seconds=2 * HOUR)
    others = (job("c", "ada"), job("d", "bob"))
    plan = clear(
        cluster(
            {"one": 16}, job("a", "ada", deadline=late), job("b", "ada", deadline=soon), *others
        )
    )
    assert (outcome_of(plan, "b").state, outcome_of(plan, "a").state) == (
        "Reserved",
        "Unaffordable",
    )


def test_a_promise_is_not_broken_for_an_earlier_deadline_of_the_same_user() -> None:
    soon, late = work_for(5, seconds=HOUR), work_for(5, seconds=2 * HOUR)
    jobs = (
        job("a", "ada", deadline=replace(late, reserved=5)),
        job("b", "ada", deadline=soon),
        job("d", "bob"),
    )
    plan = clear(cluster({"one": 16}, *jobs))
    assert (outcome_of(plan, "a").state, outcome_of(plan, "b").state) == (
        "Reserved",
        "Unaffordable",
    )


def test_what_no_cores_can_do_is_not_bent() -> None:
    hopeless = Deadline(HOUR, 30 * HOUR)
    jobs = (job("a", "ada", deadline=hopeless), job("b", "bob"))
    plan = clear(cluster({"one": 16}, *jobs))
    assert outcome_of(plan, "a").state == "OutOfReach"
    assert cores_of(plan, "a") == 8
    bounded = replace(jobs[0], deadline=work_for(6), max_cores=4)
    plan = clear(cluster({"one": 16}, bounded, jobs[1]))
    assert outcome_of(plan, "a").state == "OutOfReach"


def test_all_pods_of_a_job_are_accepted_together() -> None:
    def pod(name: str, cores: float) -> Job:
        return replace(job("a", "ada", deadline=work_for(cores)), pod=name)

    others = (job("b", "ada"), job("c", "bob"))
    plan = clear(cluster({"one": 32}, pod("x", 6), pod("y", 6), *others))
    assert {each.state for each in plan.deadlines} == {"Reserved"}
    plan = clear(cluster({"one": 32}, pod("x", 2), pod("y", 15), *others))
    assert {(each.state, each.reserved) for each in plan.deadlines} == {("Unaffordable", 0)}


def test_a_user_cannot_block_another_by_minimums_that_it_does_not_pay_for() -> None:
    """A minimum beyond the node keeps nobody from a reservation within its share."""
    greedy = job("z", "eve", min_cores=1000)
    jobs = (job("a", "ada", deadline=work_for(6)), job("b", "ada"), greedy)
    plan = clear(cluster({"one": 16}, *jobs))
    assert outcome_of(plan, "a").state == "Reserved"
    assert cores_of(plan, "a") == 6


def test_a_share_is_not_lost_to_an_earlier_promise_beyond_another_share() -> None:
    """Bob's promise took more of the node than his share; Ada's, within hers, comes first."""
    two = {"one": 16, "two": 16}
    bobs = job("c", "bob", deadline=replace(work_for(10), reserved=10))
    alone = clear(cluster(two, job("a", "ada"), bobs, job("b", "ada", "two")))
    assert outcome_of(alone, "c").state == "Reserved"
    both = cluster(two, job("a", "ada", deadline=work_for(8)), bobs, job("b", "ada", "two"))
    plan = clear(both)
    assert outcome_of(plan, "a").state == "Reserved"
    assert cores_of(plan, "a") >= 8
    assert outcome_of(plan, "c").state != "Reserved"


@pytest.mark.parametrize("mechanism", ["ProportionalSharing", "BestResponse", "PriceAnticipating"])
def test_other_markets_reserve_within_what_a_user_buys_on_the_node(
    mechanism: CoreMechanism,
) -> None:
    jobs = (job("a", "ada", deadline=work_for(6)), job("b", "ada"), job("c", "bob"))
    plan = clear(cluster({"one": 16}, *jobs), Policy(mechanism))
    assert outcome_of(plan, "a").state == "Reserved"
    assert (cores_of(plan, "a"), cores_of(plan, "c")) == (6, 8)
    jobs = (job("a", "ada", deadline=work_for(12)), *jobs[1:])
    plan = clear(cluster({"one": 16}, *jobs), Policy(mechanism))
    assert outcome_of(plan, "a").state == "Unaffordable"
    assert cores_of(plan, "c") == 8


@pytest.mark.parametrize("mechanism", ["Greedy", "UpperBound"])
def test_mechanisms_without_budgets_only_forecast(mechanism: CoreMechanism) -> None:
    jobs = (job("a", "ada", deadline=work_for(6)), job("b", "ada"), job("c", "bob"))
    plan = clear(cluster({"one": 16}, *jobs), Policy(mechanism))
    without = clear(
        cluster({"one": 16}, *[replace(each, deadline=None) for each in jobs]), Policy(mechanism)
    )
    assert outcome_of(plan, "a").state == "Forecast"
    assert plan.grants == without.grants


@pytest.mark.parametrize("utility", ["Linear", "Log"])
def test_an_auction_keeps_a_deadline_as_far_as_its_users_budget_pays(utility: str) -> None:
    """Ada's other job pays for what her urgent one needs; bob has the same in the end."""

    def plan_for(needed: float) -> Plan:
        jobs = [
            replace(each, bid=Bid(utility=utility))  # type: ignore[arg-type]
            for each in (
                job("a", "ada", deadline=work_for(needed) if needed else None),
                job("b", "ada"),
                job("c", "bob"),
            )
        ]
        return clear(cluster({"one": 16}, *jobs), Policy("Auction"))

    plain, met = plan_for(0), plan_for(7.5)
    assert outcome_of(met, "a").state == "Reserved"
    assert cores_of(plain, "a") < 7.5 <= cores_of(met, "a")
    assert cores_of(met, "c") >= cores_of(plain, "c")
    lost = plan_for(9)
    assert outcome_of(lost, "a").state == "Outbid"
    assert lost.grants == plain.grants


@pytest.mark.parametrize(
    ("others", "own"),
    [
        (Bid(minimum_utility=0.4), None),
        (Bid(), None),
        (Bid(minimum_utility=0.4), 0.1),
    ],
    ids=["beside a minimum", "beside a plain bid", "with a minimum of its own"],
)
def test_a_deadline_that_an_auction_does_not_give_leaves_the_job_as_without_it(
    others: Bid, own: float | None
) -> None:
    """Bob has twice the money, so that Ada's job cannot have the 12 of 16 cores that it needs."""

    def plan_with(deadline: Deadline | None) -> Plan:
        mine = replace(job("a", "ada", deadline=deadline), bid=Bid(minimum_utility=own))
        jobs = (mine, replace(job("c", "bob"), bid=others))
        shares = {"ada": 1, "bob": 2}
        return clear(cluster({"one": 16}, *jobs, shares=shares), Policy("Auction"))

    plan, plain = plan_with(work_for(12)), plan_with(None)
    assert outcome_of(plan, "a").state == "Outbid"
    assert plan.grants == plain.grants
    assert plan.bids == plain.bids
    assert cores_of(plan, "a") == cores_of(plain, "a")


def test_a_deadline_is_won_only_with_the_cores_of_every_pod() -> None:
    """A pod alone on a node has 16 cores, which make up for the other's in the utility of both."""
    mine = [
        replace(job("a", "ada", node, deadline=work_for(5)), pod=f"a-{node}")
        for node in ("one", "two")
    ]
    nodes, shares = {"one": 16, "two": 8}, {"ada": 1, "bob": 2}
    market = cluster(nodes, *mine, job("c", "bob", "two"), shares=shares)
    plan = clear(market, Policy("Auction"))
    held = {each.pod: each.held for each in plan.grants if each.name == "a"}
    assert (held["a-one"], held["a-two"] < 5) == (16, True)
    assert {(each.state, each.reserved) for each in plan.deadlines} == {("Outbid", 0)}
    poorer = cluster(nodes, *mine, job("c", "bob", "two"), shares={"ada": 4, "bob": 1})
    plan = clear(poorer, Policy("Auction"))
    assert {(each.state, each.reserved) for each in plan.deadlines} == {("Reserved", 5)}


def test_an_auction_may_give_a_deadline_almost_all_of_a_node() -> None:
    """All other jobs there are of the same user."""

    def plan_of(*deadlines: Deadline) -> Plan:
        mine = [
            replace(job("a", "ada", deadline=each), pod=f"a-{number}")
            for number, each in enumerate(deadlines)
        ]
        return clear(cluster({"one": 16}, *mine, job("c", "ada")), Policy("Auction"))

    plain, most = plan_of(Deadline(HOUR, 0.0)), plan_of(work_for(14.5))
    assert cores_of(plain, "a") == 8
    assert (outcome_of(most, "a").state, outcome_of(most, "a").reserved) == ("Reserved", 14.5)
    assert cores_of(most, "a") >= 14.5 - 0.0015
    two = plan_of(work_for(8.5), work_for(7.6))
    assert {each.state for each in two.deadlines} == {"OutOfReach"}


ODD: dict[str, tuple[Job, ...]] = {
    "names an entitlement that does not exist": (job("x", "nobody"),),
    "names an entitlement of others": (
        replace(job("x", "ada", deadline=work_for(4, seconds=HOUR / 2)), namespace="other"),
    ),
    "has another pod on a node that sells nothing": (
        replace(job("a", "ada", "full", deadline=work_for(6)), pod="a-1"),
    ),
    "has another pod that waits for a node": (
        replace(job("a", "ada", "", deadline=work_for(6)), pod="a-1"),
    ),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("mechanism", ["AmdahlBidding", "ProportionalSharing", "Auction"])
def test_a_deadline_is_kept_beside_jobs_that_take_no_part(
    mechanism: CoreMechanism, odd: tuple[Job, ...]
) -> None:
    """Such a job neither ends the decision nor displaces the deadlines of whom it names."""
    jobs = (job("a", "ada", deadline=work_for(6)), job("c", "bob"))
    market = cluster({"one": 16, "full": 0}, *jobs)
    plan = clear(replace(market, jobs=(*jobs, *odd)), Policy(mechanism))
    assert outcome_of(plan, "a").state == "Reserved"
    assert cores_of(plan, "a") >= 6


# Properties of any market.


@st.composite
def markets(draw: st.DrawFn) -> Snapshot:
    """Draw users, nodes, and jobs some of which have deadlines, minimums or reservations."""
    users = [f"user-{i}" for i in range(draw(st.integers(2, 4)))]
    nodes = {f"node-{j}": draw(st.sampled_from([4, 8, 16])) for j in range(draw(st.integers(1, 3)))}
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs = []
    for number in range(draw(st.integers(2, 9))):
        deadline = None
        if random.random() < 0.6:
            deadline = Deadline(
                float(random.uniform(-10, 7200)),
                float(random.uniform(0, 36000)),
                float(random.uniform(0, 2000)),
                float(random.choice([0, 0, 0.7, 2, 3.3])),
            )
        jobs.append(
            Job(
                "default",
                f"job-{number}",
                str(random.choice(users)),
                str(random.choice(list(nodes))),
                float(random.uniform(0.5, 0.99)),
                min_cores=int(random.choice([1, 1, 1, 3])),
                deadline=deadline,
            )
        )
    shares = {user: draw(st.integers(1, 5)) for user in users}
    return cluster(nodes, *jobs, shares=shares)


@pytest.mark.long
@given(markets())
@examples(60)
def test_nobody_falls_below_its_entitlement_for_the_deadlines_of_others(market: Snapshot) -> None:
    """This concerns users without deadlines or minimums, which would lower their own utility."""
    plan = clear(market)
    assume(plan.converged)
    bound = {each.entitlement for each in market.jobs if each.deadline or each.min_cores > 1}
    for user in plan.users:
        if user.name not in bound:
            assert user.utility >= user.entitlement_utility * (0.99 - 1e-4)


@pytest.mark.long
@given(markets(), st.randoms(use_true_random=False))
@examples(60)
def test_outcomes_do_not_depend_on_the_order_and_hold_in_the_plan(
    market: Snapshot, random: object
) -> None:
    plan = clear(market)
    shuffled = list(market.jobs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = clear(replace(market, jobs=tuple(shuffled)))
    assert sorted(plan.deadlines, key=identity) == sorted(again.deadlines, key=identity)
    held = plan.holdings()
    for each in plan.deadlines:
        assert held[identity(each)] >= each.reserved - LEEWAY
        assert (each.reserved > 0) == (each.state == "Reserved") or each.state == "Reserved"


@pytest.mark.long
@given(markets())
@examples(60)
def test_what_was_accepted_is_accepted_again(market: Snapshot) -> None:
    """Deciding again on the outcome changes no reservation."""
    plan = clear(market)
    reserved = {identity(each): each.reserved for each in plan.deadlines}
    jobs = tuple(
        replace(each, deadline=replace(each.deadline, reserved=reserved[identity(each)]))
        if each.deadline and identity(each) in reserved
        else each
        for each in market.jobs
    )
    again = clear(replace(market, jobs=jobs, held=plan.holdings()))
    for each in again.deadlines:
        before = reserved[identity(each)]
        assert each.reserved >= before or each.needed < before


@pytest.mark.long
@given(markets(), st.sampled_from([0.0, 0.02]), st.sampled_from([0.0, 0.2]))
@examples(60)
def test_states_settle_and_do_not_alternate(
    market: Snapshot, hysteresis: float, loss: float
) -> None:
    """Deciding on its own outcome, a market changes no deadline's state after the second time."""
    programs = ("p", "q")
    named = (replace(each, program=programs[i % 2]) for i, each in enumerate(market.jobs))
    penalties = dict.fromkeys(itertools.product(programs, programs), loss)
    market = replace(market, jobs=tuple(named), penalties=penalties)
    states: list[dict[tuple[str, str, str, str], str]] = []
    for _ in range(5):
        plan = clear(market, Policy(hysteresis=hysteresis))
        states.append({identity(each): each.state for each in plan.deadlines})
        reserved = {identity(each): each.reserved for each in plan.deadlines}
        jobs = tuple(
            replace(each, deadline=replace(each.deadline, reserved=reserved[identity(each)]))
            if each.deadline and identity(each) in reserved
            else each
            for each in market.jobs
        )
        market = replace(market, jobs=jobs, held=plan.holdings())
    assert states[1:] == states[1:2] * 4


@pytest.mark.long
@given(markets())
@examples(60)
def test_of_a_users_equal_deadlines_on_a_node_the_earliest_are_accepted(market: Snapshot) -> None:
    """A later deadline is accepted before an earlier one only if it takes fewer cores."""
    fresh = tuple(
        replace(each, min_cores=1, deadline=each.deadline and replace(each.deadline, reserved=0))
        for each in market.jobs
    )
    plan = clear(replace(market, jobs=fresh))
    seconds = {identity(each): each.deadline.seconds for each in fresh if each.deadline}
    for one in plan.deadlines:
        for other in plan.deadlines:
            same = (one.entitlement, one.node) == (other.entitlement, other.node)
            if same and one.state == "Unaffordable" and other.reserved:
                earlier = seconds[identity(other)] <= seconds[identity(one)]
                assert earlier or other.reserved <= one.needed + 0.001


# A run to its end.


def test_accepted_deadlines_are_met_in_a_simulated_run_and_the_market_alone_misses() -> None:
    done = {"a": 6.0 * HOUR, "b": 40.0 * HOUR, "c": 60.0 * HOUR}
    jobs = {name: job(name, "ada" if name < "c" else "bob") for name in done}
    alone = {identity(jobs[name]): work for name, work in done.items()}
    deadline = Deadline(1.5 * HOUR, done["a"])
    market = cluster({"one": 16}, *jobs.values())
    policy = Policy(hysteresis=0.02)
    late = forecast(market, policy, alone)[identity(jobs["a"])]
    assert late > deadline.seconds
    promised = replace(market, jobs=(replace(jobs["a"], deadline=deadline), *market.jobs[1:]))
    assert forecast(promised, policy, alone)[identity(jobs["a"])] <= deadline.seconds * 1.0001


def test_spare_cores_that_a_budget_does_not_pay_for_are_not_reserved() -> None:
    """7.4 cores no longer suffice; 8.25 would cost more than the budget, 7.5 do not."""
    mine = job("a", "ada", deadline=replace(work_for(7.5), reserved=7.4))
    plan = clear(cluster({"one": 16}, mine, job("b", "ada"), job("c", "bob")))
    assert outcome_of(plan, "a").reserved == pytest.approx(7.5, abs=0.002)
    less = replace(mine, deadline=replace(work_for(6), reserved=5.9))
    plan = clear(cluster({"one": 16}, less, job("b", "ada"), job("c", "bob")))
    assert outcome_of(plan, "a").reserved == pytest.approx(6.6, abs=0.002)


@pytest.mark.parametrize("mechanism", ["AmdahlBidding", "ProportionalSharing", "Auction"])
def test_spare_cores_cost_no_deadline_its_acceptance(mechanism: CoreMechanism) -> None:
    accepted = 0
    for needed in np.arange(5.0, 9.0, 0.1).tolist():
        fresh = work_for(needed)
        states = []
        for before in (0.0, needed - 0.05):
            mine = job("a", "ada", deadline=replace(fresh, reserved=before))
            market = cluster({"one": 16}, mine, job("b", "ada"), job("c", "bob"))
            states.append(outcome_of(clear(market, Policy(mechanism)), "a").state)
        assert states[1] == "Reserved" or states[0] != "Reserved"
        accepted += states[0] == "Reserved"
    assert 0 < accepted < 40


@pytest.mark.parametrize(("needed", "kept"), [(2.0, 5.1), (3.3, 4.0)])
def test_a_new_deadline_takes_the_spare_cores_of_earlier_ones(needed: float, kept: float) -> None:
    earlier = job("a", "ada", deadline=replace(work_for(4), reserved=5.1))
    new = job("b", "ada", deadline=work_for(needed))
    plan = clear(cluster({"one": 16}, earlier, new, job("c", "bob")))
    assert outcome_of(plan, "b").reserved == pytest.approx(needed, abs=0.002)
    assert outcome_of(plan, "a").reserved == pytest.approx(kept, abs=0.002)


@pytest.mark.parametrize("seed", range(5))
def test_a_job_decided_every_minute_keeps_its_cores_steady_and_is_in_time(seed: int) -> None:
    """Each estimate of the work left is 2 % off; what is reserved is at most 30 % more than the
    need, and nobody else pays for it."""
    random = np.random.default_rng(seed)
    left, seconds, reserved = 5.0 * HOUR, 1.2 * HOUR, 0.0
    held: dict[tuple[str, str, str, str], float] = {}
    history = []
    while left > 0:
        estimate = left * (1 + 0.02 * random.standard_normal())
        mine = job("a", "ada", deadline=Deadline(seconds, estimate, 0.02 * left, reserved))
        market = cluster({"one": 16}, mine, job("b", "ada"), job("c", "bob"))
        plan = clear(replace(market, held=held), Policy(hysteresis=0.02))
        outcome = outcome_of(plan, "a")
        held, reserved = plan.holdings(), outcome.reserved
        assert min(outcome.needed, 7.7) - 0.01 <= reserved <= 1.3 * outcome.needed + 0.001
        assert cores_of(plan, "c") >= 7.99
        history.append(cores_of(plan, "a"))
        left -= 60 * expected_speedup(mine, history[-1])
        seconds -= 60
    assert seconds > -60
    steps = [(a, b) for a, b in itertools.pairwise(history) if a != b]
    assert len(steps) <= 6
