"""Demand of pods with several containers, on the model kernel: whose limit it is that squeezes.

The kernel tells a pod's group of refaults and pressure in all of its containers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_kernel import MIB, Memory, ModelKernel
from model_node import Node
from walras_agent.memory.demand import PodDemand, estimate
from walras_agent.memory.pressure import headroom
from walras_agent.memory.stats import MemoryLimits, MemorySample, MemoryStall
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
HARD = {1: "memory.limit_in_bytes", 2: "memory.max"}


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(ModelKernel(request.param), tmp_path)


def limit(node: Node, group: str, amount: int) -> None:
    node.kernel.set_by_others(CgroupFile("memory", group, HARD[node.kernel.version]), str(amount))


def two_containers(node: Node) -> None:
    """Start a pod of two containers, one of which has too low a limit, and the other a high one.

    The first reads 400 MiB of files again and again within 256 MiB; the second needs only 100 MiB
    of 7 GiB.
    """
    node.start_pod("a", 0, Memory(anonymous=20 * MIB, hot=400 * MIB))
    node.start_pod("a", 1, Memory(anonymous=100 * MIB))
    limit(node, node.pod("a"), 8 * GIB)
    limit(node, node.container("a", 0), 256 * MIB)
    limit(node, node.container("a", 1), 7 * GIB)


def test_a_container_at_its_own_limit_does_not_have_its_pod_ask_by_the_pods(node: Node) -> None:
    two_containers(node)
    node.plan("observe", memory=1 * GIB, a=1000)
    told = [node.step(10).pods[0].demand for _ in range(30)]
    assert all(each is not None and each < 1 * GIB for each in told), told
    assert (told[-1] or 0) > 400 * MIB, "it could use more than its limit"


def test_a_grant_that_follows_the_demand_lifts_the_containers_limit_and_is_enough(
    node: Node,
) -> None:
    two_containers(node)
    node.plan(memory=256 * MIB, a=1000)
    stays = []
    for _ in range(40):
        demand = node.step(10).pods[0].demand
        assert demand is not None
        assert demand < 1 * GIB
        node.plan(memory=demand, a=1000)
        stays.append(node.kernel.memory_of(node.container("a", 0)).reclaimable)
    assert stays[0] < 256 * MIB
    assert max(stays[:6]) >= 400 * MIB, "all that it reads, after a few steps"


def sample(
    mib: int, limit: int = 1 << 62, *, refaulted: int = 0, stall: MemoryStall | None = None
) -> MemorySample:
    return MemorySample(MemoryLimits(limit), usage=mib * MIB, refaulted=refaulted, stall=stall)


def used(mib: int) -> int:
    return mib * MIB + headroom(mib * MIB)


def looks(
    *seen: tuple[MemorySample, dict[str, MemorySample]], before: PodDemand | None = None
) -> PodDemand:
    known = before
    for number, (pod, containers) in enumerate(seen):
        known = estimate(pod, known, 10.0 * number, containers)
    assert known is not None
    return known


def test_pressure_where_no_limit_is_near_is_no_demand() -> None:
    """The node is short of memory, or a group inside the container is: more would help nobody."""
    calm = sample(100, 8 * GIB, stall=MemoryStall())
    pressed = replace(calm, stall=MemoryStall(some=80, some_total=8), refaulted=900 * MIB)
    main = sample(100, 4 * GIB)
    known = looks((calm, {"main": main}), (pressed, {"main": replace(main, refaulted=900 * MIB)}))
    assert known.amount == used(100)


def test_each_squeezed_container_wants_by_its_own_limit() -> None:
    seen = [
        (
            sample(300, 8 * GIB, refaulted=number * 900 * MIB),
            {
                "one": sample(99, 100 * MIB, refaulted=number * 300 * MIB),
                "two": sample(199, 200 * MIB, refaulted=number * 600 * MIB),
                "three": sample(2, 7 * GIB),
            },
        )
        for number in range(20)
    ]
    assert looks(*seen).amount == used(300) + used(99) + used(199)


def test_a_pod_at_its_own_limit_wants_by_that_whatever_its_containers_may_have() -> None:
    seen = [
        (
            sample(198, 200 * MIB, refaulted=number * 900 * MIB),
            {"main": sample(198, 8 * GIB, refaulted=number * 900 * MIB)},
        )
        for number in range(20)
    ]
    assert looks(*seen).amount == 2 * used(198)


def test_a_container_that_is_gone_wants_nothing() -> None:
    pod = sample(110, 8 * GIB)
    squeezed = [{"one": sample(99, 100 * MIB, refaulted=n * 300 * MIB)} for n in range(5)]
    known = looks(*((pod, each) for each in squeezed))
    assert known.amount > used(110)
    assert estimate(pod, known, 50.0, {}).amount == used(110)


def test_what_was_told_before_a_restart_is_gone_on_from() -> None:
    known = estimate(sample(198, 200 * MIB), None, 0, prior=300 * MIB)
    assert known.amount == 300 * MIB
    assert known.reported >= 300 * MIB
    grown = estimate(sample(198, 200 * MIB, refaulted=900 * MIB), known, 10)
    assert grown.amount == 375 * MIB
    late = estimate(sample(198, 200 * MIB), estimate(sample(198), None, 0), 1, prior=300 * MIB)
    assert late.amount > 290 * MIB, "also where a look was made before it was known"
    wild = estimate(sample(198, 200 * MIB), None, 0, prior=10**18)
    assert wild.amount == 2 * used(198), "no more than it would have come to"


sizes = st.integers(1, 4000)
groups = st.lists(st.tuples(sizes, sizes, st.booleans()), min_size=1, max_size=4)


@given(st.lists(groups, min_size=1, max_size=12), sizes)
def test_demand_is_between_what_is_used_and_twice_what_squeezed_groups_have(
    course: list[list[tuple[int, int, bool]]], pod_limit: int
) -> None:
    refaulted = [0, 0, 0, 0]
    known = None
    most = 0
    for number, seen in enumerate(course):
        containers = {}
        for place, (usage, limit, squeezed) in enumerate(seen):
            refaulted[place] += 4000 * MIB if squeezed else 0
            containers[str(place)] = sample(usage, limit * MIB, refaulted=refaulted[place])
        total = sum(usage for usage, _, _ in seen)
        pod = sample(total, pod_limit * MIB, refaulted=sum(refaulted))
        known = estimate(pod, known, 10.0 * number, containers)
        have = sum(max(used(usage), limit * MIB) for usage, limit, _ in seen)
        most = max(most, used(total) + 2 * max(have, pod_limit * MIB))
        assert used(total) <= known.amount <= most
        assert known.amount <= known.reported
