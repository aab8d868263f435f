"""Floors: jobs keep what their pods requested, and their users pay for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from examples import examples
from walras.analysis.plan_quality import evaluate_plan
from walras.clearing import clear
from walras.division.holdings import THOUSANDTH
from walras.market.plan import Shortfall
from walras.market.snapshot import (
    WITHOUT_FLOORS,
    CoreMechanism,
    Entitlement,
    Job,
    Node,
    Policy,
    Snapshot,
    identity,
)
from walras.speedup.amdahls_law import FIRST_CORE, speedup

if TYPE_CHECKING:
    from walras.market.plan import Plan

MECHANISMS: tuple[CoreMechanism, ...] = get_args(CoreMechanism)


def entitlement(name: str, shares: int = 1) -> Entitlement:
    return Entitlement(name, shares, None, frozenset({"a"}))


def job(name: str, user: str, floor: float = 0.0, **fields: object) -> Job:
    known = Job("a", name, user, "n1", 0.9, requested=floor, floor=floor)
    return replace(known, **fields)  # type: ignore[arg-type]


def cluster(*jobs: Job, cores: int = 8, sockets: int = 1) -> Snapshot:
    users = sorted({each.entitlement for each in jobs})
    nodes = sorted({each.node for each in jobs})
    return Snapshot(
        tuple(map(entitlement, users)),
        tuple(Node(name, cores, sockets=sockets) for name in nodes),
        jobs,
    )


def held(plan: Plan) -> dict[str, float]:
    return {grant.name: grant.held for grant in plan.grants}


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    nodes = [
        Node(f"node-{j}", int(random.choice([1, 2, 7, 16, 48])), sockets=int(random.choice([1, 2])))
        for j in range(draw(st.integers(1, 3)))
    ]
    left = {node.name: float(node.cores) for node in nodes}
    jobs = []
    for number in range(draw(st.integers(1, 14))):
        node = nodes[random.integers(len(nodes))].name
        floor = min(float(random.choice([0, 0, 0.25, 0.5, 1, 2, 2.5, 6, 20])), left[node])
        left[node] -= floor
        least = int(random.choice([1, 1, 1, 3]))
        most = None if random.random() < 0.7 else max(least, int(np.ceil(floor)))
        fraction, user = float(random.uniform(0.05, 0.99)), f"user-{random.integers(4)}"
        known = Job("a", f"job-{number}", user, node, fraction, 1.0, least, most)
        jobs.append(replace(known, requested=floor, floor=floor))
    users = tuple(entitlement(f"user-{i}", int(random.integers(1, 6))) for i in range(4))
    return Snapshot(users, tuple(nodes), tuple(jobs))


@given(
    snapshot=clusters(),
    mechanism=st.sampled_from(MECHANISMS),
    by_socket=st.booleans(),
    before=st.booleans(),
)
@examples(150)
def test_jobs_keep_their_floors_and_no_core_is_sold_twice(
    snapshot: Snapshot, mechanism: CoreMechanism, by_socket: bool, before: bool
) -> None:
    policy = Policy(cores=mechanism, sold_by="socket" if by_socket else "node")
    if before:  # what was held under other floors holds nobody below the present ones
        without = replace(
            snapshot, jobs=tuple(replace(each, floor=0.0) for each in snapshot.jobs[::-1])
        )
        snapshot = replace(snapshot, held=clear(without, policy).holdings())
    plan = clear(snapshot, policy)
    own: defaultdict[str, int] = defaultdict(int)
    shared: defaultdict[str, float] = defaultdict(float)
    together: defaultdict[str, float] = defaultdict(float)
    for each, grant in zip(snapshot.jobs, plan.grants, strict=True):
        own[grant.node] += grant.own_cores
        shared[grant.node] += grant.shared
        together[grant.node] += max(each.floor, policy.least_part)
        assert grant.floor <= each.floor + 1e-9
        assert grant.held >= grant.floor - THOUSANDTH * max(len(grant.sockets), 1)
        assert mechanism != "AmdahlBidding" or grant.bought >= grant.floor - 1e-6
        assert mechanism not in WITHOUT_FLOORS or grant.floor == 0
    for node in plan.nodes:
        assert own[node.name] + shared[node.name] <= node.cores + 1e-9
        here = [each for each in plan.grants if each.node == node.name]
        fits = together[node.name] <= node.cores and mechanism not in WITHOUT_FLOORS
        if fits and not by_socket:
            assert all(abs(each.floor - each.requested) < 1e-9 for each in here)


def slopes(job: Job, cores: float) -> tuple[float, float]:
    """Return what a little more adds to the job's speedup, and what a little less takes."""
    first = max(job.fraction, FIRST_CORE)
    more, less = (job.fraction if x > 1 else first for x in (cores + 1e-6, cores - 1e-6))
    of = (each / (each + (1 - each) * cores) ** 2 for each in (more, less))
    return next(of) * job.work, next(of) * job.work


@given(snapshot=clusters())
@examples(150)
def test_money_beyond_floors_buys_where_it_speeds_work_up_most(snapshot: Snapshot) -> None:
    """The first-order conditions hold for the speedups of all cores, floors included."""
    jobs = tuple(replace(each, min_cores=1, max_cores=None) for each in snapshot.jobs)
    policy = Policy(tolerance=1e-9)
    plan = clear(replace(snapshot, jobs=jobs), policy)
    assume(plan.converged)
    best: defaultdict[str, float] = defaultdict(float)
    sold = [pair for pair in zip(jobs, plan.grants, strict=True) if pair[1].price > 1e-9]
    for each, grant in sold:  # nobody has money left for what costs less
        gained = slopes(each, grant.bought)[0] / grant.price
        best[each.entitlement] = max(best[each.entitlement], gained)
    for each, grant in sold:
        if grant.bought > max(grant.floor, policy.least_part) + 1e-6:
            lost = slopes(each, grant.bought)[1] / grant.price
            assert lost >= best[each.entitlement] * (1 - 1e-4)


@given(snapshot=clusters())
@examples(150)
def test_nobody_does_worse_than_its_share_while_requests_fit_into_shares(
    snapshot: Snapshot,
) -> None:
    jobs = tuple(replace(each, min_cores=1, max_cores=None) for each in snapshot.jobs)
    shares = {each.name: each.shares for each in snapshot.entitlements}
    all_shares = sum(shares[name] for name in {each.entitlement for each in jobs})
    cores = {node.name: node.cores for node in snapshot.nodes}
    floors = {
        identity(each): min(each.floor, shares[each.entitlement] / all_shares * cores[each.node])
        / sum(o.entitlement == each.entitlement and o.node == each.node for o in jobs)
        for each in jobs
    }
    modest = tuple(replace(each, floor=floors[identity(each)]) for each in jobs)
    plan = clear(replace(snapshot, jobs=modest), Policy(tolerance=1e-9))
    assume(plan.converged)
    for user in plan.users:
        assert user.utility >= user.entitlement_utility * FIRST_CORE * (1 - 1e-6)
        assert user.spent <= user.entitled * (1 + 1e-6)
        assert user.short_of == ()


def test_floors_count_against_the_entitlement_that_holds_them() -> None:
    """Each of two equal users has a right to 8 of 16 cores, and A's floor is 6 of them."""
    plan = clear(cluster(job("a", "A", 6), job("b", "B"), cores=16))
    assert held(plan) == {"a": 8, "b": 8}
    assert [grant.spend for grant in plan.grants] == pytest.approx([8, 8])
    assert plan.grants[0].reason.startswith("8.00 of A's budget of 8.00 buys 8.00 cores at 1.000 ")
    assert plan.grants[0].speedup == pytest.approx(speedup(8, 0.9))


def test_a_floor_beyond_the_entitlement_is_kept_and_others_get_the_rest() -> None:
    """B buys 4 cores for all its 8, so that a core costs 2, and A is told what its 12 cost."""
    plan = clear(cluster(job("a", "A", 12), job("b", "B"), cores=16))
    assert held(plan) == {"a": 12, "b": 4}
    assert [user.entitled for user in plan.users] == [8, 8]
    assert [user.spent for user in plan.users] == pytest.approx([24, 8], rel=1e-5)
    assert [user.short_of for user in plan.users] == [(), (Shortfall("A", "n1", 4.0),)]
    assert "no less than it requested" in plan.grants[0].reason


def test_a_floor_is_paid_for_at_the_cost_of_the_users_other_jobs() -> None:
    """A has 8 of each node's 16 cores; the 12 that it keeps of one leave it 4 of the other."""
    jobs = job("a", "A", 12), job("a2", "A", node="n2"), job("b", "B"), job("b2", "B", node="n2")
    plan = clear(cluster(*jobs, cores=16))
    assert held(plan)["a"] == 12
    assert held(plan)["a2"] < 8
    assert plan.users[1].utility >= plan.users[1].entitlement_utility


def test_cores_that_nobody_else_can_use_are_not_left_idle() -> None:
    alone = job("a", "A", 6), job("b", "B", node="n2")
    assert held(clear(cluster(*alone))) == {"a": 8, "b": 8}


def test_a_node_whose_cores_are_all_requested_sells_none() -> None:
    plan = clear(cluster(job("a", "A", 5), job("b", "B", 3), job("c", "C", node="n2")))
    assert held(plan) == {"a": 5, "b": 3, "c": 8}
    assert plan.nodes[1].price == pytest.approx(2 / 3)  # C has 16/3 for the 8 cores of n2


def test_a_user_whose_node_is_all_requested_by_another_has_its_least_part() -> None:
    """B keeps a quarter of a core, and A's requests give way by that; B is told whose they are."""
    mine = [job("a", "A", 7), job("a1", "A", 0.5), job("a2", "A", 0.5)]
    snapshot = cluster(*mine, job("b", "B"), job("c", "C", node="n2"))
    plan = clear(snapshot)
    assert held(plan)["b"] == 0.25
    assert sum(held(plan).values()) == 16
    (short,) = plan.users[1].short_of
    assert (short.user, short.node) == ("A", "n1")
    assert short.cores == pytest.approx(8 - 8 / 3)
    assert plan.users[1].gain == pytest.approx(0.25 / speedup(8 / 3, 0.9) - 1)
    quality = evaluate_plan(snapshot, plan)
    assert np.isfinite([quality.uniformity, quality.held_progress]).all()


def test_requests_that_leave_no_least_part_for_others_give_way_and_are_told() -> None:
    """Of 8 cores, C keeps a quarter of one, and A and B what is left: 3.875 of 4 each."""
    plan = clear(cluster(job("a", "A", 4), job("b", "B", 4), job("c", "C", 0)))
    assert held(plan) == {"a": 3.875, "b": 3.875, "c": 0.25}
    for grant in plan.grants[:2]:
        assert not grant.keeps_request
        assert grant.reason.endswith(
            "less than its request of 4 cores, since the requests and least parts of its pods "
            "exceed what n1 sells"
        )


def test_a_request_that_the_market_does_not_keep_is_said() -> None:
    others = [job(f"other-{k}", f"U{k}") for k in range(9)]
    plan = clear(cluster(job("a", "A", requested=8.0), *others, cores=10))
    assert plan.grants[0].held == 1
    assert plan.grants[0].reason.endswith(
        "less than its request of 8 cores, which spec.cores.floor of the Market does not keep for "
        "it"
    )


def test_parts_of_cores_are_kept() -> None:
    small = [job(f"small-{k}", "A", 0.5) for k in range(5)]
    plan = clear(cluster(*small, job("big", "B"), cores=4))
    assert held(plan) == {**{each.name: 0.5 for each in small}, "big": 1.5}


def test_a_job_spans_the_sockets_that_its_floor_needs() -> None:
    jobs = job("a", "A", 6), job("b", "B", 1)
    plan = clear(cluster(*jobs, sockets=2), Policy(sold_by="socket"))
    assert plan.grants[0].sockets == (0, 1)
    assert plan.grants[0].held >= 6


def test_a_division_below_a_floor_is_not_kept() -> None:
    jobs = job("a", "A", 4), job("b", "B", fraction=0.99)
    before = {identity(jobs[0]): 3.0, identity(jobs[1]): 5.0}
    plan = clear(replace(cluster(*jobs), held=before), Policy(hysteresis=0.5))
    assert held(plan) == {"a": 4, "b": 4}


def test_a_floor_is_at_most_the_maximum_of_the_job() -> None:
    plan = clear(cluster(job("a", "A", 6, max_cores=2), job("b", "B")))
    assert held(plan) == {"a": 2, "b": 6}
    assert "all that its maxCores or CPU limit of 2 allows" in plan.grants[0].reason


@pytest.mark.parametrize("mechanism", sorted(WITHOUT_FLOORS))
def test_mechanisms_without_floors_say_so(mechanism: CoreMechanism) -> None:
    plan = clear(cluster(job("a", "A", 6), job("b", "B")), Policy(cores=mechanism))
    assert held(plan) == {"a": 4, "b": 4}
    assert f"less than its request of 6 cores, which {mechanism} does not keep" in (
        plan.grants[0].reason
    )
