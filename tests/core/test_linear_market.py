"""The proportional-share market through `clear`: linear utilities, and few nodes at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from examples import examples
from walras.clearing import clear
from walras.market.snapshot import Entitlement, Job, Node, Policy, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

Floats = NDArray[np.float64]
LINEAR = Policy("PriceAnticipating")


def user(name: str, most: int | None = None, shares: int = 1) -> Entitlement:
    return Entitlement(name, shares, None, frozenset({"a"}), max_nodes=most)


def market(
    *users: Entitlement, works: Mapping[str, tuple[float, ...]], cores: int = 10
) -> Snapshot:
    """A market in which each user has one job on each node, of these works."""
    nodes = tuple(Node(f"n{j}", cores) for j in range(max(map(len, works.values()))))
    jobs = tuple(
        Job("a", f"{name}-{j}", name, f"n{j}", 0.9, work)
        for name, per_node in works.items()
        for j, work in enumerate(per_node)
    )
    return Snapshot(users, nodes, jobs)


def test_opposite_tastes_have_the_papers_efficiency() -> None:
    """Two users of weights (a, 1-a) and (1-a, a): at a = 1 / sqrt 2, 0.8284 of the optimum."""
    a = 2**-0.5
    plan = clear(market(user("x"), user("y"), works={"x": (a, 1 - a), "y": (1 - a, a)}), LINEAR)
    cores = {grant.name: grant.bought for grant in plan.grants}
    done = a * cores["x-0"] + (1 - a) * cores["x-1"] + (1 - a) * cores["y-0"] + a * cores["y-1"]
    assert done / (2 * a * 10) == pytest.approx(2 * 2**0.5 - 2, abs=1e-3)


def test_a_user_of_one_node_at_a_time_bids_where_it_gets_most() -> None:
    works = {"x": (1.0, 3.0, 2.0), **dict.fromkeys("yzuv", (1.0, 1.0, 1.0))}
    others = [user(name) for name in "yzuv"]
    free = clear(market(user("x"), *others, works=works), LINEAR)
    assert sum(grant.bought > 0 for grant in free.grants if grant.entitlement == "x") > 1
    plan = clear(market(user("x", 1), *others, works=works), LINEAR)
    assert plan.converged
    cores = {grant.name: grant.bought for grant in plan.grants}
    assert (cores["x-0"], cores["x-2"]) == (0, 0)
    assert cores["x-1"] > 4
    assert sum(cores.values()) == pytest.approx(30, rel=1e-4)
    reasons = {grant.name: grant.reason for grant in plan.grants}
    assert reasons["x-0"].startswith(
        "x does not bid on n0, since its maxNodes lets it bid on 1 at once"
    )
    assert "maxNodes" not in reasons["x-1"]
    # A quarter of its part of a fifth of ten cores is the least that x's job on a node has.
    held = {grant.name: grant.held for grant in plan.grants}
    assert (held["x-0"], held["x-2"]) == (0.25, 0.25)
    assert sum(held.values()) == pytest.approx(30, abs=1e-9)


def test_what_has_no_equilibrium_is_still_divided_and_said_not_to_have_settled() -> None:
    """Section 7.2: with about one competitor a node, whoever is alone somewhere draws the other."""
    works = {"x": (1.0, 3.0, 2.0), "y": (1.0, 1.0, 1.0)}
    plan = clear(market(user("x", 1), user("y"), works=works), LINEAR)
    assert not plan.converged
    assert plan.residual > 1e-3
    assert plan == clear(market(user("x", 1), user("y"), works=works), LINEAR)


def test_other_mechanisms_know_no_such_bound() -> None:
    works = {"x": (1.0, 3.0, 2.0), "y": (1.0, 1.0, 1.0)}
    bounded = market(user("x", 1), user("y"), works=works)
    free = market(user("x"), user("y"), works=works)
    for policy in (Policy("AmdahlBidding"), Policy("BestResponse"), Policy("Greedy")):
        assert clear(bounded, policy) == clear(free, policy)


def test_nodes_are_whole_where_users_bid_on_few() -> None:
    snapshot = market(user("x", 1), user("y"), works={"x": (1.0, 2.0), "y": (1.0, 1.0)})
    two = tuple(replace(node, sockets=2) for node in snapshot.nodes)
    plan = clear(replace(snapshot, nodes=two), replace(LINEAR, sold_by="socket"))
    assert all(grant.sockets == () for grant in plan.grants)


@examples(60)
@given(
    users=st.integers(2, 4),
    nodes=st.integers(2, 4),
    most=st.lists(st.none() | st.integers(1, 5), min_size=4, max_size=4),
    seed=st.integers(0, 2**32 - 1),
)
def test_nobody_bids_on_more_nodes_than_it_may_and_nothing_is_lost(
    users: int, nodes: int, most: list[int | None], seed: int
) -> None:
    random = np.random.default_rng(seed)
    works = {f"u{i}": tuple(random.uniform(0.1, 3, nodes)) for i in range(users)}
    snapshot = market(*(user(f"u{i}", most[i]) for i in range(users)), works=works)
    plan = clear(snapshot, LINEAR)
    for i in range(users):
        held = [each for each in plan.grants if each.entitlement == f"u{i}" and each.bought > 0]
        assert len(held) <= (most[i] or nodes)
        budget = plan.users[i].entitled
        assert sum(each.spend for each in held) == pytest.approx(budget, rel=1e-3)
    for node in snapshot.nodes:
        assert sum(each.bought for each in plan.grants if each.node == node.name) <= 10 * (1 + 1e-9)


@examples(30)
@given(st.integers(2, 4), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_no_other_choice_of_nodes_serves_better_where_the_market_is_at_rest(
    nodes: int, most: int, seed: int
) -> None:
    """Against the price that the other user leaves, every set of nodes by brute force."""
    random = np.random.default_rng(seed)
    works = {"x": tuple(random.uniform(0.1, 3, nodes)), "y": tuple(random.uniform(0.1, 3, nodes))}
    plan = clear(market(user("x", most), user("y"), works=works), LINEAR)
    assume(plan.converged)
    mine, theirs = np.zeros((2, nodes))
    for grant in plan.grants:
        (mine if grant.entitlement == "x" else theirs)[int(grant.node[1:])] = grant.spend
    weights, budget = np.array(works["x"]), plan.users[0].entitled
    theirs = np.maximum(theirs, 1e-9)
    now = float(weights @ (mine / (mine + theirs)))
    best = max(
        _best(weights[list(few)], theirs[list(few)], budget)
        for few in combinations(range(nodes), min(most, nodes))
    )
    assert now >= best * (1 - 2e-3)


def _best(weights: Floats, others: Floats, budget: float) -> float:
    """The best response of section 6.1.1, as the paper has it: by sorting."""
    order = np.argsort(-weights / others)
    w, y = weights[order], others[order]
    for k in range(len(w), 0, -1):
        roots = np.sqrt(w[:k] * y[:k])
        bids = roots / roots.sum() * (budget + y[:k].sum()) - y[:k]
        if bids[-1] >= 0:
            return float((w[:k] * bids / (bids + y[:k])).sum())
    return 0.0
