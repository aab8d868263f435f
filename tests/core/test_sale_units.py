"""Nodes sold by socket through `clear`: who is on which, and that none is sold twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras.clearing import clear
from walras.forecast import held_cores
from walras.snapshot import CoreMechanism, Entitlement, Job, Node, Policy, Snapshot

BY_SOCKET = Policy(sold_by="socket")


def user(name: str, shares: int = 1) -> Entitlement:
    return Entitlement(name, shares, None, frozenset({"a"}))


def test_two_jobs_of_two_sockets_get_one_each_in_place_of_parts_of_both() -> None:
    jobs = tuple(Job("a", name, name, "n", 0.9) for name in "xy")
    snapshot = Snapshot((user("x"), user("y")), (Node("n", 48, sockets=2),), jobs)
    plan = clear(snapshot, BY_SOCKET)
    assert [grant.granted_cores for grant in plan.grants] == [24, 24]
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
    assert large.granted_cores >= 30
    assert len(small.sockets) == 1
    assert large.granted_cores + small.granted_cores == 48


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
        assert grant.granted_cores == wanted
        assert grant.floor == pytest.approx(each.floor)
        assert "short of" not in grant.reason


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["AmdahlBidding", "ProportionalSharing", "BestResponse", "Greedy"]),
    st.integers(0, 2**32 - 1),
)
def test_no_socket_is_sold_twice(mechanism: CoreMechanism, seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes = tuple(
        Node(f"n{j}", int(random.integers(1, 20)), sockets=int(random.integers(1, 4)))
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
    pools: dict[tuple[str, int], int] = {}
    own: defaultdict[tuple[str, int], int] = defaultdict(int)
    for grant in plan.grants:
        for socket in grant.sockets if len(grant.sockets) == 1 else ():
            own[grant.node, socket] += grant.granted_cores
            if not grant.granted_cores:
                pools[grant.node, socket] = grant.shared_cores
    held = held_cores(plan)
    for node in nodes:
        sockets = min(node.sockets, node.cores)
        largest = -(-node.cores // sockets)
        for socket in range(sockets):
            assert own[node.name, socket] + pools.get((node.name, socket), 0) <= largest
        here = [grant for grant in plan.grants if grant.node == node.name]
        assert sum(
            cores for (*_, name), cores in held.items() if name == node.name
        ) <= node.cores * (1 + 1e-9)
        for grant in here:
            assert grant.granted_cores + grant.shared_cores >= 1
            job = next(each for each in jobs if each.name == grant.name)
            if job.min_cores <= largest - 1 or sockets == 1:
                assert len(grant.sockets) <= 1
