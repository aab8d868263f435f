"""The guarantee, for what pods hold: nobody is below its entitlement, or it is said why."""

import math

import numpy as np
import pytest

from held_clusters import moved, random_cluster, verdicts
from walras.clearing import clear
from walras.market.plan import Plan
from walras.market.snapshot import Entitlement, Job, Node, Policy, Snapshot
from walras_cli.what_if.held import Machine, as_enforced

LEAST = 0.99
THOUSANDTH = 0.001
"""Cores by which nodes are told what to give: a pod of a few hundredths may lack one."""

IN_THE_GATE, IN_ALL = 4, 200  # batches of 50 clusters


def _decided(random: np.random.Generator, *, modest: bool) -> tuple[Snapshot, Policy, Plan]:
    """Return a random cluster with its plan, often after one that it was to keep."""
    snapshot = random_cluster(random, modest=modest)
    by_socket = random.random() < 0.5
    hysteresis = 0.02 if random.random() < 0.5 else 0.0
    policy = Policy(hysteresis=hysteresis, sold_by="socket" if by_socket else "node")
    plan = clear(snapshot, policy)
    if policy.hysteresis:
        snapshot = moved(random, snapshot, plan)
        plan = clear(snapshot, policy)
    return snapshot, policy, plan


def _machine(node: Node) -> Machine:
    """Return a machine where a pod outside the market requests what the node does not sell."""
    cores = math.ceil(node.cores)
    others = (round(1000 * (cores - node.cores)),) if cores > node.cores else ()
    return Machine(cores, sockets=node.sockets, others=others)


def _check(batch: int) -> None:
    for number in range(50 * batch, 50 * (batch + 1)):
        random = np.random.default_rng(number)
        snapshot, policy, plan = _decided(random, modest=number % 4 > 0)
        sold = {node.name: 0.0 for node in snapshot.nodes}
        for grant in plan.grants:
            sold[grant.node] += grant.held
        for node in snapshot.nodes:
            assert sold[node.name] <= node.cores + 1e-9, (number, node)
        machines = {node.name: _machine(node) for node in snapshot.nodes}
        by_kernel = verdicts(snapshot, policy, as_enforced(plan, snapshot, machines))
        found = verdicts(snapshot, policy, plan)
        several = any(len(grant.sockets) > 1 for grant in plan.grants)
        everybody = all(each.fits for each in found.values()) and not several
        told = {user.name: user.short_of for user in plan.users}
        for user, verdict in found.items():
            short = verdict.held + THOUSANDTH < LEAST * verdict.entitled
            if everybody:
                assert not short, (number, user, verdict)
                has = by_kernel[user]
                assert has.held + THOUSANDTH >= LEAST * has.entitled, (number, user, has)
            elif short and not several:
                assert told[user], (number, user, verdict)


@pytest.mark.parametrize("batch", range(IN_THE_GATE))
def test_nobody_holds_less_than_its_entitlement_or_the_cause_is_named(batch: int) -> None:
    _check(batch)


@pytest.mark.verify
@pytest.mark.parametrize("batch", range(IN_THE_GATE, IN_ALL))
def test_nobody_holds_less_than_its_entitlement_in_many_more_clusters(batch: int) -> None:
    _check(batch)


@pytest.mark.parametrize("batch", range(2))
def test_no_running_pod_starves(batch: int) -> None:
    for number in range(100 * batch, 100 * (batch + 1)):
        random = np.random.default_rng(number)
        snapshot, policy, plan = _decided(random, modest=False)
        cores = {node.name: node.cores for node in snapshot.nodes}
        if policy.sold_by == "socket":
            continue  # its share is then one of each socket that its jobs are on
        budget = {user.name: user.entitled for user in plan.users}
        every = sum(budget.values())
        for grant in plan.grants:
            together = sum(
                (each.entitlement, each.node) == (grant.entitlement, grant.node)
                for each in plan.grants
            )
            equal = budget[grant.entitlement] / every * cores[grant.node] / together
            assert grant.held >= 0.25 * min(1.0, equal) - 1.5e-3, (number, grant)


def _user(name: str, shares: int) -> Entitlement:
    return Entitlement(name, shares, None, frozenset([name]))


def test_requests_of_a_little_more_than_a_core_take_no_second_core_from_others() -> None:
    nodes = tuple(Node(f"s{number}", 4) for number in range(8))
    jobs = tuple(
        Job(user, user, user, node.name, 0.95, pod=f"{user}-{node.name}", floor=floor)
        for node in nodes
        for user, floor in (("ann", 1.01), ("bob", 0.0))
    )
    plan = clear(Snapshot((_user("ann", 26), _user("bob", 74)), nodes, jobs))
    ann, bob = plan.users
    assert ann.held == pytest.approx(8.32, abs=8e-3)
    assert bob.held == pytest.approx(23.68, abs=8e-3)


def test_a_user_of_little_with_a_pod_on_every_node_holds_what_it_is_entitled_to() -> None:
    nodes = tuple(Node(f"s{number}", 4) for number in range(20))
    jobs = tuple(
        Job(user, user, user, node.name, 0.9, pod=f"{user}-{node.name}")
        for node in nodes
        for user in ("few", "many")
    )
    plan = clear(Snapshot((_user("few", 1), _user("many", 99)), nodes, jobs))
    assert plan.users[0].held == pytest.approx(0.8, rel=0.01)


def test_requests_are_paid_at_the_price_of_their_node() -> None:
    nodes = (Node("hot", 16), Node("cold", 16))
    jobs = (
        Job("ann", "a", "ann", "hot", 0.95, floor=15.0),
        Job("ann", "c", "ann", "cold", 0.5),
        Job("bob", "b", "bob", "hot", 0.95),
    )
    plan = clear(Snapshot((_user("ann", 1), _user("bob", 1)), nodes, jobs))
    ann, bob = plan.users
    assert plan.grants[0].held == 15
    assert ann.spent > ann.entitled
    assert [(each.user, each.node, each.cores) for each in bob.short_of] == [("ann", "hot", 7)]
