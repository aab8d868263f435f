"""Another mechanism on a running cluster: how many cores move, and which CPUs pods keep.

From the decision to the CPUs of every pod: the choices of the operator and of its agents.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras.clearing import clear
from walras.market.snapshot import Bid, CoreMechanism, Entitlement, Job, Node, Policy, Snapshot

if TYPE_CHECKING:
    from walras.market.plan import Plan

MECHANISMS: tuple[CoreMechanism, ...] = get_args(CoreMechanism)
CORES = 16


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Draw some users with jobs on three nodes, alike in no respect."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = tuple(Node(f"n{j}", CORES - 1) for j in range(3))
    users = tuple(
        Entitlement(f"u{i}", int(random.integers(1, 6)), None, frozenset({"a"})) for i in range(3)
    )
    jobs = tuple(
        Job(
            "a",
            f"j{number}",
            f"u{random.integers(3)}",
            f"n{random.integers(3)}",
            float(random.uniform(0.3, 0.99)),
            float(random.uniform(0.5, 2)),
            pod=f"j{number}-0",
            bid=Bid(budget=float(random.uniform(0.5, 4))),
        )
        for number in range(draw(st.integers(2, 14)))
    )
    return Snapshot(users, nodes, jobs)


def own(plan: Plan) -> dict[str, int]:
    return {grant.pod: grant.own_cores for grant in plan.grants}


def moved(before: Plan, after: Plan) -> int:
    """Cores of their own that pods lose or gain."""
    now = own(after)
    return sum(abs(now[pod] - cores) for pod, cores in own(before).items())


@examples(150)
@given(
    clusters(),
    st.sampled_from(MECHANISMS),
    st.sampled_from(MECHANISMS),
    st.sampled_from([0.0, 0.02, 0.2]),
)
def test_a_switch_moves_no_more_cores_than_the_two_divisions_differ_by(
    snapshot: Snapshot, first: CoreMechanism, second: CoreMechanism, hysteresis: float
) -> None:
    before = clear(snapshot, Policy(first, hysteresis=hysteresis))
    policy = Policy(second, hysteresis=hysteresis)
    after = clear(replace(snapshot, held=before.holdings()), policy)
    anew = clear(snapshot, policy)
    assert moved(before, after) <= moved(before, anew)
    kept = {node.name for node in after.nodes if node.stays}
    for grant, old, new in zip(after.grants, before.grants, anew.grants, strict=True):
        assert grant.held == (old if grant.node in kept else new).held
