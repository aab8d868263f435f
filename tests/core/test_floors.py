"""Floors: jobs keep what their pods requested, and the market divides the other cores."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras.clearing import clear
from walras.plan_quality import evaluate_plan
from walras.snapshot import (
    WITHOUT_FLOORS,
    CoreMechanism,
    Entitlement,
    Holding,
    Job,
    Node,
    Policy,
    Snapshot,
    identity,
)
from walras.speedup import speedup

if TYPE_CHECKING:
    from walras.plan import Plan

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


def whole_cores(plan: Plan) -> dict[str, int]:
    return {grant.name: grant.granted_cores for grant in plan.grants}


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
    held=st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_jobs_keep_their_floors_and_no_core_is_sold_twice(
    snapshot: Snapshot, mechanism: CoreMechanism, by_socket: bool, held: bool
) -> None:
    policy = Policy(cores=mechanism, sold_by="socket" if by_socket else "node")
    if held:  # what was held under other floors holds nobody below the present ones
        without = replace(
            snapshot, jobs=tuple(replace(each, floor=0.0) for each in snapshot.jobs[::-1])
        )
        snapshot = replace(snapshot, held=clear(without, policy).holdings())
    plan = clear(snapshot, policy)
    cores = {node.name: node.cores for node in snapshot.nodes}
    pools: defaultdict[str, set[int]] = defaultdict(set)
    own: defaultdict[str, int] = defaultdict(int)
    together: defaultdict[str, float] = defaultdict(float)
    for each, grant in zip(snapshot.jobs, plan.grants, strict=True):
        own[grant.node] += grant.granted_cores
        pools[grant.node].add(grant.shared_cores)
        together[grant.node] += each.floor
        assert grant.floor <= each.floor + 1e-9
        assert grant.cores >= grant.floor - 1e-6
        assert mechanism not in WITHOUT_FLOORS or grant.floor == 0
        if grant.granted_cores and not by_socket:
            assert grant.granted_cores >= int(grant.floor + 1e-6)
    for node in plan.nodes:
        if not by_socket:
            pool = max(pools[node.name], default=0)
            assert own[node.name] + pool <= cores[node.name]
            small = any(each.floor < 1 for each in snapshot.jobs if each.node == node.name)
            fits = together[node.name] + small <= cores[node.name]
            here = [each for each in plan.grants if each.node == node.name]
            fits = fits and mechanism not in WITHOUT_FLOORS
            assert not fits or all(abs(each.floor - each.requested) < 1e-9 for each in here)


@given(snapshot=clusters())
@settings(deadline=None, max_examples=150)
def test_money_beyond_floors_buys_where_it_speeds_work_up_most(snapshot: Snapshot) -> None:
    """The first-order conditions hold for the speedups of all cores, floors included."""
    jobs = tuple(replace(each, min_cores=1, max_cores=None) for each in snapshot.jobs)
    plan = clear(replace(snapshot, jobs=jobs), Policy(tolerance=1e-9))
    if not plan.converged:
        return
    best: defaultdict[str, list[float]] = defaultdict(list)
    for each, grant in zip(jobs, plan.grants, strict=True):
        if grant.price > 0:
            f = each.fraction
            slope = each.work * f / (f + (1 - f) * grant.cores) ** 2  # of x / (f + (1 - f) x)
            best[each.entitlement].append(slope / grant.price)
    for each, grant in zip(jobs, plan.grants, strict=True):
        if grant.price > 0 and grant.cores - grant.floor > 1e-6:
            f = each.fraction
            slope = each.work * f / (f + (1 - f) * grant.cores) ** 2 / grant.price
            assert slope >= max(best[each.entitlement]) * (1 - 1e-4)


@given(snapshot=clusters())
@settings(deadline=None, max_examples=150)
def test_no_user_does_worse_than_with_floors_and_its_part_of_the_rest(snapshot: Snapshot) -> None:
    jobs = tuple(replace(each, min_cores=1, max_cores=None) for each in snapshot.jobs)
    plan = clear(replace(snapshot, jobs=jobs), Policy(tolerance=1e-9))
    if plan.converged:
        for user in plan.users:
            assert user.utility >= user.entitlement_utility * (1 - 1e-6)


def test_floors_count_against_the_entitlement_that_holds_them() -> None:
    """Each of two equal users has a right to 8 of 16 cores, and A's floor is 6 of them."""
    plan = clear(cluster(job("a", "A", 6), job("b", "B"), cores=16))
    assert whole_cores(plan) == {"a": 8, "b": 8}
    (kept, bought) = plan.grants
    assert kept.spend == pytest.approx(2)
    assert bought.spend == pytest.approx(8)
    assert kept.reason.startswith("6 cores are kept as requested, and 2.00 of A's budget of 2.00 ")
    assert "buys 2.00 cores more at 1.000 each" in kept.reason
    assert kept.speedup == pytest.approx(speedup(8, 0.9))


def test_a_floor_beyond_the_entitlement_is_kept_and_others_get_the_rest() -> None:
    plan = clear(cluster(job("a", "A", 12), job("b", "B"), cores=16))
    assert whole_cores(plan) == {"a": 12, "b": 4}
    assert plan.users[0].entitled_cores == 8


def test_cores_that_nobody_else_can_use_are_not_left_idle() -> None:
    alone = job("a", "A", 6), job("b", "B", node="n2")
    assert whole_cores(clear(cluster(*alone))) == {"a": 8, "b": 8}


def test_a_node_whose_cores_are_all_requested_sells_none() -> None:
    plan = clear(cluster(job("a", "A", 5), job("b", "B", 3), job("c", "C", node="n2")))
    assert whole_cores(plan) == {"a": 5, "b": 3, "c": 8}
    # C has all its budget of 16/3 for the 8 cores of n2; A and B have nothing to buy.
    assert [node.price for node in plan.nodes] == [0, pytest.approx(2 / 3)]


def test_a_user_whose_nodes_are_all_requested_by_others_is_entitled_to_nothing() -> None:
    """Its job has a part of the pool, and no figure of the plan is undefined."""
    mine = [job("a", "A", 7), job("a1", "A", 0.5), job("a2", "A", 0.5)]
    snapshot = cluster(*mine, job("b", "B"), job("c", "C", node="n2"))
    plan = clear(snapshot)
    assert plan.grants[3].shared_cores == 1
    assert [user.gain is None for user in plan.users] == [False, True, False]
    quality = evaluate_plan(snapshot, plan)
    assert np.isfinite([quality.uniformity, quality.held_progress]).all()


def test_requests_that_leave_no_core_for_small_jobs_are_scaled_and_said() -> None:
    plan = clear(cluster(job("a", "A", 4), job("b", "B", 4), job("c", "C", 0)))
    assert sorted(whole_cores(plan).values()) == [0, 3, 4]
    assert plan.grants[2].shared_cores == 1
    (short,) = [grant for grant in plan.grants if grant.granted_cores == 3]
    assert not short.keeps_request
    assert short.reason.endswith(
        "less than its request of 4 cores, since requests and a core for small jobs exceed what n1 "
        "sells"
    )


def test_a_request_that_the_market_does_not_keep_is_said() -> None:
    others = [job(f"other-{k}", f"U{k}") for k in range(9)]
    plan = clear(cluster(job("a", "A", requested=8.0), *others, cores=10))
    assert plan.grants[0].granted_cores == 1
    assert plan.grants[0].reason.endswith(
        "less than its request of 8 cores, which spec.cores.floor of the Market does not keep for "
        "it"
    )


def test_parts_of_cores_are_kept_in_the_pool() -> None:
    """Small jobs that requested 2.5 cores of 4 together share a pool of three at least."""
    small = [job(f"small-{k}", "A", 0.5) for k in range(5)]
    plan = clear(cluster(*small, job("big", "B", entitlement="B"), cores=4))
    assert plan.grants[0].shared_cores == 3
    assert whole_cores(plan)["big"] == 1


def test_a_job_spans_the_sockets_that_its_floor_needs() -> None:
    jobs = job("a", "A", 6), job("b", "B", 1)
    plan = clear(cluster(*jobs, sockets=2), Policy(sold_by="socket"))
    assert plan.grants[0].sockets == (0, 1)
    assert plan.grants[0].granted_cores >= 6


def test_a_division_below_a_floor_is_not_kept() -> None:
    jobs = job("a", "A", 4), job("b", "B", fraction=0.99)
    before = {identity(jobs[0]): Holding(3, 0), identity(jobs[1]): Holding(5, 0)}
    plan = clear(replace(cluster(*jobs), held=before), Policy(hysteresis=0.5))
    assert whole_cores(plan) == {"a": 4, "b": 4}


def test_a_floor_is_at_most_the_maximum_of_the_job() -> None:
    plan = clear(cluster(job("a", "A", 6, max_cores=2), job("b", "B")))
    assert whole_cores(plan) == {"a": 2, "b": 6}
    assert "all that its maxCores of 2 allows" in plan.grants[0].reason


@pytest.mark.parametrize("mechanism", sorted(WITHOUT_FLOORS))
def test_mechanisms_without_floors_say_so(mechanism: CoreMechanism) -> None:
    plan = clear(cluster(job("a", "A", 6), job("b", "B")), Policy(cores=mechanism))
    assert whole_cores(plan) == {"a": 4, "b": 4}
    assert f"less than its request of 6 cores, which {mechanism} does not keep" in (
        plan.grants[0].reason
    )
