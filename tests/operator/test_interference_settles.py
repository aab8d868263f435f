"""Successive decisions about pods that slow each other down, on a node with two sockets.

Which sockets a pod is on follows from its grant. If a pod's grant followed from its sockets in
turn, cores could move at every decision. The agent's own functions choose the CPUs here.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from machines import machine
from walras_agent.daemon.plans import node_plan
from walras_agent.pod_cpus import allocate_cpus
from whole_decisions import decide
from worlds import entitlement, job, market, node, outcome, pod, profile, world

if TYPE_CHECKING:
    from walras_agent.cpuset import CpuSet
    from walras_operator.decide.world import World

SOCKETS = machine(nodes=2, cores=8)
ROUNDS = 6


def crowded(seed: int) -> World:
    """Return two or three users' jobs on one node, which lose much beside each other."""
    lots = Random(seed)
    names = ["a", "b", "c"][: lots.choice([2, 3])]
    shared = node(cpu="16")
    shared["metadata"]["labels"] = {"walras.dev/sockets": "2"}
    documents = [market(), shared]
    for name in names:
        penalties = [
            {"profile": other, "penalty": f"{lots.uniform(0.2, 0.9):.2f}"}
            for other in names
            if other != name
        ]
        fraction = f"{lots.uniform(0.5, 0.99):.3f}"
        documents += [
            entitlement(name, shares=lots.randint(1, 5)),
            profile(name, parallelFraction=fraction, penalties=penalties),
            job(name, name, profile=name),
            pod(name, name),
        ]
    return world(*documents)


def seated(before: World, had: dict[str, CpuSet]) -> tuple[World, dict[str, CpuSet]]:
    """Return the world after the agent chose the pods' CPUs and reported their sockets."""
    allocation = before.allocations["n1"]
    plan = node_plan(allocation)
    pods = allocate_cpus(SOCKETS, plan.grants, had, plan.unit).pods
    reported = [
        {
            "podUID": uid,
            "state": "Enforced",
            "cpus": str(each.cpus),
            "sockets": list(SOCKETS.sockets_of(each.cpus)),
        }
        for uid, each in pods.items()
    ]
    status = {
        "epoch": allocation.spec.epoch,
        "mode": allocation.spec.mode,
        "acceptsNewFields": True,
        "pods": reported,
    }
    after = {"n1": allocation.model_copy(update={"status": status})}
    return replace(before, allocations=after), {uid: each.exclusive for uid, each in pods.items()}


@pytest.mark.parametrize("seed", [0, 1, 24, 124, 156, 211, 264])
def test_cores_stay_whatever_sockets_the_agent_seats_pods_on(seed: int) -> None:
    """In the last five seeds, cores would swing if a loss counted on shared sockets only."""
    seen, cpus = crowded(seed), dict[str, "CpuSet"]()
    moved = []
    for _ in range(ROUNDS):
        decision = decide(seen)
        seen, cpus = seated(outcome(seen, decision), cpus)
        moved.append(bool(decision.nodes))
    assert moved == [True] + [False] * (ROUNDS - 1)
