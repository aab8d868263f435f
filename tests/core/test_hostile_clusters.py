"""Clusters at the edges of what can be: every mechanism decides on them, in finite numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

import pytest

from walras.clearing import clear
from walras.division.pricing import USABLE
from walras.market.snapshot import CoreMechanism, Entitlement, Job, Node, Policy, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 2000


def users(*shares: int) -> tuple[Entitlement, ...]:
    return tuple(
        Entitlement(f"user-{i}", share, None, frozenset({"a"})) for i, share in enumerate(shares)
    )


def job(user: int, node: int, number: int, fraction: float, work: float = 1.0) -> Job:
    return Job("a", f"job-{number}", f"user-{user}", f"node-{node}", fraction, work)


def many_users_of_one_node() -> Snapshot:
    jobs = (job(i, 0, i, 0.5 + i % 7 / 15) for i in range(MANY))
    return Snapshot(users(*[1] * MANY), (Node("node-0", 64),), tuple(jobs))


def one_user_of_many_nodes() -> Snapshot:
    nodes = (Node(f"node-{i}", 1 + i % 64) for i in range(MANY))
    jobs = (job(0, i, i, 0.5 + i % 7 / 15) for i in range(MANY))
    return Snapshot(users(1), tuple(nodes), tuple(jobs))


def everything_equal() -> Snapshot:
    side = range(30)
    nodes = tuple(Node(f"node-{i}", 8) for i in side)
    jobs = (job(i, k, 30 * i + k, 0.9) for i in side for k in side)
    return Snapshot(users(*[1] * 30), nodes, tuple(jobs))


def magnitudes() -> Snapshot:
    """Budgets and works up to 24 orders of magnitude apart, fractions next to 0 and 1."""
    jobs = tuple(
        job(k % 3, i % 2, 4 * i + k, fraction, work)
        for i, work in enumerate((1e-12, 1.0, 1e12))
        for k, fraction in enumerate((1e-12, 0.5, 1 - 1e-12, 1.0))
    )
    return Snapshot(users(1, 10**6, 10**12), (Node("node-0", 1), Node("node-1", 4096)), jobs)


def budgets_of_next_to_nothing() -> Snapshot:
    """A chain of entitlements of one share, each beside a sibling of the most shares."""
    depth, both = 40, frozenset({"a"})
    parents = [None, *(f"chain-{i}" for i in range(depth - 1))]
    chain = (Entitlement(f"chain-{i}", 1, parent) for i, parent in enumerate(parents))
    rich = (Entitlement(f"user-{i}", 2**31 - 1, parent, both) for i, parent in enumerate(parents))
    last = Entitlement(f"user-{depth}", 1, f"chain-{depth - 1}", both)
    jobs = (job(i, 0, i, 0.9) for i in range(depth + 1))
    return Snapshot((*chain, *rich, last), (Node("node-0", 512),), tuple(jobs))


def one_of_everything() -> Snapshot:
    return Snapshot(users(1), (Node("node-0", 1),), (job(0, 0, 0, 1.0),))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mechanism", get_args(CoreMechanism))
@pytest.mark.parametrize(
    "cluster",
    [
        many_users_of_one_node,
        one_user_of_many_nodes,
        everything_equal,
        magnitudes,
        budgets_of_next_to_nothing,
        one_of_everything,
    ],
)
def test_every_mechanism_decides_in_finite_numbers(
    cluster: Callable[[], Snapshot], mechanism: CoreMechanism
) -> None:
    snapshot = cluster()
    plan = clear(snapshot, Policy(cores=mechanism))
    # The market's search is inexact for users of a millionth of a thousandth of a core.
    tiny = mechanism == "AmdahlBidding" and min(u.entitled for u in plan.users) < 1e-8
    assert plan.converged or (tiny and plan.residual < USABLE)
    assert plan.iterations >= 1
    assert len(plan.grants) == len(snapshot.jobs)
    held = dict.fromkeys((node.name for node in snapshot.nodes), 0.0)
    for grant in plan.grants:
        for figure in (grant.bought, grant.price, grant.spend, grant.speedup):
            assert math.isfinite(figure)
            assert figure >= 0
        assert grant.reason
        assert grant.held == round(grant.held, 3) >= 0.001
        held[grant.node] += grant.held
    for node in snapshot.nodes:
        assert held[node.name] <= node.cores * (1 + 1e-12)
    for user in plan.users:
        assert math.isfinite(user.utility)
