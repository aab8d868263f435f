"""What nodes are to hold: parts of pools, and when a node is left as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.resources.node_allocation import MOST_GRANTS
from walras_operator.allocations import divide
from walras_operator.decision import decide
from worlds import condition, entitlement, grants, job, market, node, outcome, pod, world


@given(st.integers(1, 64), st.lists(st.integers(1, 100), min_size=1, max_size=MOST_GRANTS))
def test_parts_of_a_pool_are_never_nothing_nor_more_than_it(cores: int, weights: list[int]) -> None:
    parts = divide(cores * 1000, weights)
    assert min(parts) >= 1
    assert sum(parts) <= cores * 1000
    assert sum(parts) > cores * 1000 - len(parts)


def sharing(hysteresis: str, shares: int) -> Any:
    """Return a world of eight users' pods on four cores, all of which share them."""
    names = [f"u{number}" for number in range(8)]
    return world(
        market(cores={"hysteresis": hysteresis}),
        *(entitlement(name, shares=1000) for name in names[1:]),
        entitlement(names[0], shares=shares),
        *(job(f"j-{name}", name) for name in names),
        node(cpu="4"),
        *(pod(f"p-{name}", f"j-{name}") for name in names),
    )


@pytest.mark.parametrize(
    ("hysteresis", "shares", "written"),
    [("0.05", 1010, False), ("0.05", 1500, True), ("0", 1020, True)],
    ids=["a little", "a lot", "a little, but every change counts"],
)
def test_parts_of_pools_follow_weights_when_these_move(
    hysteresis: str, shares: int, written: bool
) -> None:
    before = sharing(hysteresis, 1000)
    running = outcome(before, decide(before))
    later = sharing(hysteresis, shares)
    decision = decide(
        replace(running, objects=replace(running.objects, entitlements=later.objects.entitlements))
    )
    assert bool(decision.nodes) is written


def test_a_node_has_no_more_grants_than_its_allocation_has_room_for() -> None:
    pods = [pod(f"p-{number:04d}", cpu="0") for number in range(MOST_GRANTS + 2)]
    decision = decide(world(market(), entitlement(), job(), node(cpu="4"), *pods))
    assert len(grants(decision)["n1"]) == MOST_GRANTS
    message = condition(decision, "MarketJob", "train", "lab")[2]
    assert "2 of 1002 wait: Pod p-1000 n1 has 1000 pods in the market, the limit" in message


@pytest.mark.parametrize(("later", "written"), [(0, False), (7, True), (2**53, False)])
def test_a_plan_that_its_agent_has_outgrown_is_written_anew(later: int, *, written: bool) -> None:
    before = world(market(), entitlement(), job(), node(), pod("p-0"))
    running = outcome(before, decide(before))
    (found,) = running.allocations.values()
    refused = found.model_copy(update={"status": {"epoch": found.spec.epoch + later}})
    decision = decide(replace(running, allocations={"n1": refused}))
    assert [each.spec["grants"] for each in decision.nodes] == [
        each.spec["grants"] for each in decide(before).nodes if written
    ]
