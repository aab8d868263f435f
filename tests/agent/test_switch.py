"""Another mechanism on a running cluster: how many cores move, and which CPUs pods keep.

From the decision to the CPUs of every pod: the choices of the operator and of its agents.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from machines import machine
from walras.clearing import clear
from walras.market.snapshot import Bid, CoreMechanism, Entitlement, Job, Node, Policy, Snapshot
from walras_agent.node_plan import EnforcedGrant
from walras_agent.pod_cpus import allocate_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.market.plan import Plan
    from walras_agent.cpuset import CpuSet

MECHANISMS: tuple[CoreMechanism, ...] = get_args(CoreMechanism)
CORES = 16
TOPOLOGY = machine(cores=CORES)


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


def cpus(plan: Plan, previous: Mapping[str, CpuSet]) -> dict[str, CpuSet]:
    """The CPUs that agents give pods of their own."""
    found: dict[str, CpuSet] = {}
    for node in plan.nodes:
        grants = [
            EnforcedGrant(grant.pod, grant.title, max(round(1000 * grant.held), 1))
            for grant in plan.grants
            if grant.node == node.name
        ]
        node_cpus = allocate_cpus(TOPOLOGY, grants, previous)
        found |= {each.pod: node_cpus.pods[each.pod].exclusive for each in grants}
    return found


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


@examples(150)
@given(clusters(), st.sampled_from(MECHANISMS), st.sampled_from(MECHANISMS))
def test_a_pod_keeps_its_cpus_but_for_those_it_loses(
    snapshot: Snapshot, first: CoreMechanism, second: CoreMechanism
) -> None:
    before = clear(snapshot, Policy(first, hysteresis=0.02))
    after = clear(replace(snapshot, held=before.holdings()), Policy(second, hysteresis=0.02))
    had = cpus(before, {})
    has = cpus(after, had)
    for pod, old in had.items():
        assert len(old & has[pod]) == min(len(old), len(has[pod]))
    assert cpus(after, has) == has
