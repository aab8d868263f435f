"""Nodes sold by socket through `clear`: who is on which, and that none is sold twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.clearing import clear
from walras.division.holdings import THOUSANDTH
from walras.market.snapshot import CoreMechanism, Entitlement, Job, Node, Policy, Snapshot

BY_SOCKET = Policy(sold_by="socket")


def user(name: str, shares: int = 1) -> Entitlement:
    return Entitlement(name, shares, None, frozenset({"a"}))


def test_two_jobs_of_two_sockets_get_one_each_in_place_of_parts_of_both() -> None:
    jobs = tuple(Job("a", name, name, "n", 0.98) for name in "xy")
    snapshot = Snapshot((user("x"), user("y")), (Node("n", 48, sockets=2),), jobs)
    plan = clear(snapshot, BY_SOCKET)
    assert [grant.held for grant in plan.grants] == [24, 24]
    assert sorted(grant.sockets for grant in plan.grants) == [(0,), (1,)]
    assert [grant.sockets for grant in clear(snapshot).grants] == [(), ()]
    assert plan.nodes[0].price == pytest.approx(1)


def test_only_a_job_larger_than_a_socket_is_on_several() -> None:
    jobs = (
        Job("a", "large", "x", "n", 0.99, min_cores=30),
        Job("a", "small", "y", "n", 0.9),
    )
    plan = clear(Snapshot((user("x", 4), user("y")), (Node("n", 48, sockets=2),), jobs), BY_SOCKET)
    large, small = plan.grants
    assert large.sockets == (0, 1)
    assert large.held >= 30 - THOUSANDTH
    assert len(small.sockets) == 1
    assert large.held + small.held == pytest.approx(48, abs=1e-9)


@given(st.data())
def test_a_job_of_several_sockets_gets_all_the_cores_that_it_must_have(data: st.DataObject) -> None:
    cores, sockets = data.draw(st.integers(2, 24)), data.draw(st.integers(2, 4))
    wanted = data.draw(st.integers(1, cores))
    job = Job("a", "x", "x", "n", 0.9, min_cores=wanted, max_cores=wanted)
    requested = data.draw(st.integers(1000 * (wanted - 1) + 1, 1000 * wanted)) / 1000
    asking = replace(job, min_cores=1, requested=requested, floor=requested)
    for each in (job, asking):
        snapshot = Snapshot((user("x"),), (Node("n", cores, sockets=sockets),), (each,))
        (grant,) = clear(snapshot, BY_SOCKET).grants
        assert wanted - THOUSANDTH * sockets < grant.held <= wanted
        assert grant.floor == pytest.approx(each.floor)
        assert "short of" not in grant.reason


@examples(150)
@given(
    st.sampled_from(["AmdahlBidding", "ProportionalSharing", "BestResponse", "Greedy"]),
    st.integers(0, 2**32 - 1),
)
def test_no_socket_is_sold_twice(mechanism: CoreMechanism, seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes = tuple(
        Node(
            f"n{j}",
            int(random.integers(1, 20)) + float(random.choice([0, 0.4])),
            sockets=int(random.integers(1, 4)),
        )
        for j in range(2)
    )
    jobs = tuple(
        Job(
            "a",
            f"j{k}",
            f"u{random.integers(3)}",
            f"n{random.integers(2)}",
            float(random.uniform(0.3, 0.99)),
            min_cores=int(random.choice([1, 1, 1, 3, 8])),
            max_cores=None if random.random() < 0.7 else int(random.integers(8, 12)),
        )
        for k in range(int(random.integers(1, 9)))
    )
    snapshot = Snapshot(tuple(user(f"u{i}", i + 1) for i in range(3)), nodes, jobs)
    policy = replace(BY_SOCKET, cores=mechanism)
    plan = clear(snapshot, policy)
    assert repr(clear(snapshot, policy)) == repr(plan)
    on: defaultdict[tuple[str, int], float] = defaultdict(float)
    own: defaultdict[tuple[str, int], int] = defaultdict(int)
    for grant in plan.grants:
        for socket in grant.sockets if len(grant.sockets) == 1 else ():
            on[grant.node, socket] += grant.held
            own[grant.node, socket] += grant.own_cores
    for node in nodes:
        sockets = min(node.sockets, max(int(node.cores), 1))
        largest = node.cores - (sockets - 1) * (int(node.cores) // sockets)
        for socket in range(sockets):
            assert own[node.name, socket] <= on[node.name, socket] <= largest + 1e-9
        here = [grant for grant in plan.grants if grant.node == node.name]
        assert sum(grant.held for grant in here) <= node.cores + 1e-9
        for grant in here:
            assert grant.held >= THOUSANDTH
            job = next(each for each in jobs if each.name == grant.name)
            if job.min_cores <= int(node.cores) // sockets or sockets == 1:
                assert len(grant.sockets) <= 1


def test_the_part_of_a_core_that_a_node_sells_is_on_its_last_socket() -> None:
    """Of 7.87 cores, 4 and 3.87: equal users have what their socket has, to the thousandth."""
    jobs = tuple(Job("a", name, name, "n", 0.9) for name in "xy")
    node = Node("n", 7.87, sockets=2)
    plan = clear(Snapshot((user("x"), user("y")), (node,), jobs), BY_SOCKET)
    assert {grant.sockets: grant.held for grant in plan.grants} == {(0,): 4.0, (1,): 3.87}
