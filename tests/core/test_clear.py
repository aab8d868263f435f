"""A plan from a snapshot: what adds up, who is better off, and what is said, on any cluster."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.analysis.forecast import expected_speedup
from walras.clearing import clear, cores_held
from walras.market.snapshot import (
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
    from collections.abc import Sequence

    from walras.market.plan import Grant, Plan

MECHANISMS: tuple[CoreMechanism, ...] = get_args(CoreMechanism)
SELLING: tuple[CoreMechanism, ...] = ("AmdahlBidding", "ProportionalSharing")
every = pytest.mark.parametrize("mechanism", MECHANISMS)
both = pytest.mark.parametrize("mechanism", SELLING)


def entitlement(name: str, shares: int = 1, parent: str | None = None) -> Entitlement:
    return Entitlement(name, shares, parent, frozenset({"a", "b"}))


def alice_and_bob() -> Snapshot:
    """Section V-B on two nodes of ten cores."""
    return Snapshot(
        (entitlement("alice"), entitlement("bob")),
        (Node("one", 10), Node("two", 10)),
        (
            Job("a", "dedup", "alice", "one", 0.53),
            Job("a", "bodytrack", "alice", "two", 0.93),
            Job("b", "x264", "bob", "one", 0.96),
            Job("b", "raytrace", "bob", "two", 0.68),
        ),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw a tree of entitlements, nodes some of which sell nothing, and jobs of every kind."""
    tree = [entitlement("top", draw(st.integers(1, 5)))]
    for number in range(draw(st.integers(1, 5))):
        parent = draw(st.sampled_from([None, "top"]))
        tree.append(entitlement(f"user-{number}", draw(st.integers(1, 5)), parent))
    nodes = [
        Node(f"node-{j}", draw(st.sampled_from([0, 0.6, 1, 2, 3.87, 8, 64]))) for j in range(4)
    ]
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bounded = draw(st.booleans())
    highest = draw(st.sampled_from([0.99, 1.0]))
    jobs = []
    for number in range(draw(st.integers(0, 16))):
        least = int(random.choice([1, 1, 2, 5])) if bounded else 1
        most = (None, least, least + 3)[random.integers(3)] if bounded else None
        jobs.append(
            Job(
                str(random.choice(["a", "b", "elsewhere"], p=[0.45, 0.45, 0.1])),
                f"job-{number}",
                str(random.choice([each.name for each in tree])),
                str(random.choice([node.name for node in nodes])),
                min(float(random.uniform(0.05, 1.1)), highest),
                float(np.exp(random.standard_normal())),
                least,
                most,
            )
        )
    return Snapshot(tuple(tree), tuple(nodes), tuple(jobs))


def unbounded(snapshot: Snapshot) -> Snapshot:
    jobs = (replace(job, min_cores=1, max_cores=None) for job in snapshot.jobs)
    return replace(snapshot, jobs=tuple(jobs))


policies = st.builds(Policy, st.sampled_from(MECHANISMS))
selling = st.builds(Policy, st.sampled_from(SELLING))


def by_entitlement(plan: Plan) -> dict[str, list[Grant]]:
    result: defaultdict[str, list[Grant]] = defaultdict(list)
    for grant in plan.grants:
        result[grant.entitlement].append(grant)
    return result


def by_node(plan: Plan) -> dict[str, list[Grant]]:
    result: defaultdict[str, list[Grant]] = defaultdict(list)
    for grant in plan.grants:
        result[grant.node].append(grant)
    return result


def test_the_papers_two_users_trade_where_each_gains() -> None:
    plan = clear(alice_and_bob())
    assert plan.converged
    assert plan.residual <= 1e-6
    assert [grant.bought for grant in plan.grants] == pytest.approx(
        [1.3363738, 8.6806897, 8.6636262, 1.3193103], abs=1e-5
    )
    # The odd thousandth of each node goes to the job that would lose the larger part of its cores.
    assert [grant.held for grant in plan.grants] == [1.337, 8.68, 8.663, 1.32]
    # A budget of 10 cores each in place of 1: prices are ten times the paper's.
    assert [node.price for node in plan.nodes] == pytest.approx([1.0023234, 0.9976766], abs=1e-6)
    assert all(user.utility > 1.1 * user.entitlement_utility for user in plan.users)


def test_proportional_sharing_gives_each_user_half_of_each_node() -> None:
    plan = clear(alice_and_bob(), Policy("ProportionalSharing"))
    assert [grant.held for grant in plan.grants] == [5, 5, 5, 5]
    assert [node.price for node in plan.nodes] == [1, 1]
    assert plan.system_progress < clear(alice_and_bob()).system_progress


@given(snapshots(), policies)
def test_every_job_is_granted_or_refused_once(snapshot: Snapshot, policy: Policy) -> None:
    plan = clear(snapshot, policy)
    granted = [(grant.namespace, grant.name) for grant in plan.grants]
    refused = [(each.namespace, each.name) for each in plan.refused]
    wanted = [(job.namespace, job.name) for job in snapshot.jobs]
    assert sorted(granted + refused) == sorted(wanted)
    assert granted == [each for each in wanted if each in set(granted)]
    assert [node.name for node in plan.nodes] == [node.name for node in snapshot.nodes]


@given(snapshots(), policies)
def test_cores_that_are_held_need_no_explanation(snapshot: Snapshot, policy: Policy) -> None:
    grants = clear(snapshot, policy).grants
    assert cores_held(snapshot, policy) == {identity(grant): grant.held for grant in grants}


@given(snapshots(), policies)
def test_entitled_cores_add_up_to_all_cores(snapshot: Snapshot, policy: Policy) -> None:
    plan = clear(snapshot, policy)
    if plan.grants:
        total = sum(node.cores for node in snapshot.nodes)
        assert sum(user.entitled for user in plan.users) == pytest.approx(total)


@given(snapshots(), selling)
def test_every_nodes_cores_are_sold(snapshot: Snapshot, policy: Policy) -> None:
    plan = clear(snapshot, policy)
    most = {(job.namespace, job.name): job.max_cores or math.inf for job in snapshot.jobs}
    grants = by_node(plan)
    for node in plan.nodes:
        here = grants.get(node.name, [])
        own = sum(grant.own_cores for grant in here)
        assert own + node.shared_cores == pytest.approx(node.cores, abs=1e-9)
        if not here:
            assert node.price in {0, 1}
            continue
        usable = sum(most[grant.namespace, grant.name] for grant in here)
        assert sum(grant.bought for grant in here) == pytest.approx(min(node.cores, usable))
        held = sum(grant.held for grant in here)
        assert held == pytest.approx(min(node.cores, usable), abs=1e-9)
        assert held - own <= node.shared_cores + 1e-9


@pytest.mark.long
@examples(200)
@given(snapshots(), policies)
def test_no_core_has_two_owners_under_any_mechanism(snapshot: Snapshot, policy: Policy) -> None:
    plan = clear(snapshot, policy)
    assert math.isfinite(plan.residual)
    grants = by_node(plan)
    most = {(job.namespace, job.name): job.max_cores or math.inf for job in snapshot.jobs}
    for node in plan.nodes:
        here = grants.get(node.name, [])
        own = sum(grant.own_cores for grant in here)
        assert own + node.shared_cores <= node.cores + 1e-9
        assert sum(grant.shared for grant in here) <= node.shared_cores + 1e-9
        assert sum(grant.bought for grant in here) <= node.cores * (1 + 1e-6)
        for grant in here:
            assert grant.held == round(grant.held, 3) >= 0.001
            assert grant.held <= most[grant.namespace, grant.name]
            assert math.isfinite(grant.spend)
            assert grant.reason


@given(snapshots())
def test_users_spend_their_budgets_and_buy_what_they_pay_for(snapshot: Snapshot) -> None:
    plan = clear(snapshot)
    assert plan.converged
    grants = by_entitlement(plan)
    price = {node.name: node.price for node in plan.nodes}
    most = {job.name: job.max_cores or math.inf for job in snapshot.jobs}
    for user in plan.users:
        mine = grants[user.name]
        spent = sum(grant.spend for grant in mine)
        assert spent <= user.entitled * (1 + 1e-5)
        if any(grant.bought < 0.999 * most[grant.name] for grant in mine):
            assert spent == pytest.approx(user.entitled, rel=1e-5) or _sated(snapshot, mine)
        assert sum(grant.bought for grant in mine) == pytest.approx(user.bought)
        assert all(grant.price == pytest.approx(price[grant.node]) for grant in mine)
        assert all(grant.spend == grant.price * grant.bought for grant in mine)
        assert user.spent == pytest.approx(spent)


@given(snapshots())
def test_the_average_core_costs_one(snapshot: Snapshot) -> None:
    """Weighted by cores, those of nodes without jobs at price 0 among them; if nobody is sated."""
    snapshot = unbounded(snapshot)
    plan = clear(snapshot)
    if plan.grants:
        total = sum(node.cores for node in plan.nodes)
        worth = sum(node.price * node.cores for node in plan.nodes)
        assert worth <= total * (1 + 1e-5)
        if not any(_sated(snapshot, mine) for mine in by_entitlement(plan).values()):
            assert worth == pytest.approx(total, rel=1e-5)


def _sated(snapshot: Snapshot, grants: Sequence[Grant]) -> bool:
    """Return whether a user's last coin gains it less than half of what a coin does on average."""
    jobs = {(job.namespace, job.name): job for job in snapshot.jobs}
    done, last = 0.0, 0.0
    for grant in grants:
        job, x = jobs[grant.namespace, grant.name], grant.bought
        f = max(job.fraction, FIRST_CORE) if x < 1 else job.fraction
        done += job.work * speedup(x, f)
        if x < 0.999 * (job.max_cores or math.inf) and grant.price:
            last = max(last, job.work * f / (f + (1 - f) * x) ** 2 / grant.price)
    return last * sum(grant.spend for grant in grants) < 0.501 * done


@given(snapshots(), selling)
def test_nobody_does_worse_than_their_entitlement(snapshot: Snapshot, policy: Policy) -> None:
    """By what they buy; V-C for the market, up to how it takes the first core of jobs.

    Proportional sharing does not choose among a user's jobs on a node. Of users who spend money on
    minimums rather than where it does most, nothing is said.
    """
    determined = {job.entitlement for job in snapshot.jobs if job.min_cores > 1}
    plan = clear(snapshot, policy)
    if policy.cores == "ProportionalSharing":
        pairs = Counter((grant.entitlement, grant.node) for grant in plan.grants)
        determined |= {user for (user, _), jobs in pairs.items() if jobs > 1}
    part = FIRST_CORE if policy.cores == "AmdahlBidding" else 1.0
    for user in plan.users:
        if user.name not in determined:
            assert user.utility >= part * user.entitlement_utility * (1 - 1e-5)


@given(snapshots(), policies)
def test_utilities_and_progress_are_those_of_the_grants(snapshot: Snapshot, policy: Policy) -> None:
    plan = clear(snapshot, policy)
    job_of = {(job.namespace, job.name): job for job in snapshot.jobs}
    grants = by_entitlement(plan)
    for user in plan.users:
        jobs = [job_of[grant.namespace, grant.name] for grant in grants[user.name]]
        weights = [job.work for job in jobs]
        bought = [
            expected_speedup(job, grant.bought)
            for job, grant in zip(jobs, grants[user.name], strict=True)
        ]
        held = [grant.speedup for grant in grants[user.name]]
        assert user.utility == pytest.approx(np.average(bought, weights=weights))
        assert user.held_utility == pytest.approx(np.average(held, weights=weights))
    if plan.users:
        budgets = [user.entitled for user in plan.users]
        progress = np.average([user.utility for user in plan.users], weights=budgets)
        assert plan.system_progress == pytest.approx(progress)


@given(snapshots(), policies, st.integers(0, 2**32 - 1))
def test_the_order_of_a_snapshot_does_not_matter(
    snapshot: Snapshot, policy: Policy, seed: int
) -> None:
    random = np.random.default_rng(seed)
    other = Snapshot(
        tuple(snapshot.entitlements[i] for i in random.permutation(len(snapshot.entitlements))),
        tuple(snapshot.nodes[j] for j in random.permutation(len(snapshot.nodes))),
        tuple(snapshot.jobs[k] for k in random.permutation(len(snapshot.jobs))),
    )
    one, two = clear(snapshot, policy), clear(other, policy)
    for field in ("grants", "users", "nodes", "refused", "memory"):
        assert sorted(map(repr, getattr(one, field))) == sorted(map(repr, getattr(two, field)))
    assert [grant.name for grant in two.grants] == [
        job.name for job in other.jobs if job.name in {grant.name for grant in one.grants}
    ]
    assert [node.name for node in two.nodes] == [node.name for node in other.nodes]


@given(snapshots(), policies)
def test_refused_jobs_leave_the_rest_as_if_they_were_not_there(
    snapshot: Snapshot, policy: Policy
) -> None:
    plan = clear(snapshot, policy)
    refused = {each.name for each in plan.refused}
    rest = tuple(job for job in snapshot.jobs if job.name not in refused)
    assert repr(clear(replace(snapshot, jobs=rest), policy)) == repr(replace(plan, refused=()))


FIGURE = re.compile(
    r"(?P<spend>[\d.]+) of (?P<user>\S+)'s budget of (?P<budget>[\d.]+) buys (?P<bought>[\d.]+) "
    r"cores at (?P<price>[\d.]+) each, where a parallel fraction of (?P<fraction>[\d.]+) gives a "
    r"speedup of (?P<speedup>[\d.]+); "
)

HAVING = re.compile(r"so it holds (?P<held>[\d.]+) cores?$")


@given(snapshots())
def test_reasons_state_figures_that_are_true(snapshot: Snapshot) -> None:
    plan = clear(snapshot)
    job_of = {job.name: job for job in snapshot.jobs}
    budget = {user.name: user.entitled for user in plan.users}
    for grant in plan.grants:
        told = FIGURE.match(grant.reason)
        assert told is not None, grant.reason
        assert told["user"] == grant.entitlement
        assert float(told["spend"]) == pytest.approx(grant.spend, abs=0.006)
        assert float(told["budget"]) == pytest.approx(budget[grant.entitlement], abs=0.006)
        assert float(told["bought"]) == pytest.approx(grant.bought, abs=0.006)
        assert float(told["price"]) == pytest.approx(grant.price, abs=0.0006)
        assert float(told["fraction"]) == pytest.approx(job_of[grant.name].fraction, abs=0.0006)
        assert float(told["speedup"]) == pytest.approx(grant.speedup, abs=0.006)
        rest = grant.reason[told.end() :]
        having = next(filter(None, map(HAVING.match, rest.split("; "))))
        assert float(having["held"]) == grant.held


@given(snapshots())
def test_bounds_are_mentioned_where_they_bind(snapshot: Snapshot) -> None:
    job_of = {job.name: job for job in snapshot.jobs}
    plan = clear(snapshot)
    for grant in plan.grants:
        job = job_of[grant.name]
        if job.max_cores is not None:
            assert grant.bought < job.max_cores * (1 + 1e-6)
            if grant.bought > job.max_cores - 0.001:
                assert f"maxCores or CPU limit of {job.max_cores}" in grant.reason
        if "as much as its minCores" in grant.reason:
            assert grant.bought == pytest.approx(job.min_cores, abs=0.006)
        short = f"short of its minCores of {job.min_cores}" in grant.reason
        assert short == (job.min_cores > max(grant.held + 0.005, 1))


@every
def test_an_empty_snapshot_gives_an_empty_plan(mechanism: CoreMechanism) -> None:
    plan = clear(Snapshot((), (), ()), Policy(mechanism))
    assert (plan.grants, plan.users, plan.nodes, plan.refused) == ((), (), (), ())
    assert plan.converged
    assert plan.system_progress == 0


@every
def test_a_cluster_without_jobs_sells_nothing(mechanism: CoreMechanism) -> None:
    plan = clear(replace(alice_and_bob(), jobs=()), Policy(mechanism))
    assert plan.grants == ()
    assert plan.users == ()
    assert [node.shared_cores for node in plan.nodes] == [10, 10]


@every
def test_jobs_without_any_node_wait(mechanism: CoreMechanism) -> None:
    plan = clear(replace(alice_and_bob(), nodes=()), Policy(mechanism))
    assert plan.grants == ()
    assert len(plan.refused) == 4
    assert "sells no cores" in plan.refused[0].reason


@both
def test_a_node_with_nothing_left_to_sell_does_not_stop_the_others(
    mechanism: CoreMechanism,
) -> None:
    snapshot = alice_and_bob()
    plan = clear(replace(snapshot, nodes=(Node("one", 0), Node("two", 10))), Policy(mechanism))
    assert {grant.node for grant in plan.grants} == {"two"}
    assert [(node.name, node.cores) for node in plan.nodes] == [("one", 0), ("two", 10)]
    nothing, price = (node.price for node in plan.nodes)
    assert nothing == 0 < price <= 1 + 1e-6


def test_an_answer_short_of_the_tolerance_asked_for_is_owned_up_to() -> None:
    plan = clear(alice_and_bob(), Policy(tolerance=1e-300))
    assert not plan.converged
    assert plan.residual > 0
    assert clear(alice_and_bob()).converged
