"""What the largest objects of a user cost a decision: calls of Python functions, and writes.

Calls are counted, since a clock says more about the machine than about the operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from counted_calls import calls_of
from largest_objects import FIELDS, largest
from walras_operator.decide.decision import decide
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from walras_operator.decide.world import World

Document = dict[str, Any]

MOST_CALLS = 30_000
"""Calls that one object may add to a decision: some milliseconds."""

LINEAR = 1.5
"""How much more each of many objects may cost than each of a few."""


def beside(kind: str, document: Document, copies: int) -> World:
    """Return a small cluster, and in a namespace of it the copies of an object."""
    mirror = Mirror(Scope("walras-system").kinds, lambda _: None, lambda: 0.0)
    around = (market(), node(), entitlement(), job(), pod("train-0"))
    for each in around:
        metadata = {**each["metadata"], "resourceVersion": "1"}
        mirror.receive(each["kind"], {**each, "metadata": metadata})
    for number in range(copies):
        own = {"name": f"o{number}", "uid": f"u{number}", "resourceVersion": "1"}
        mirror.receive(kind, {**document, "metadata": {**document["metadata"], **own}})
    return mirror.world("2026-01-31T12:00:00Z")


def cost(kind: str, document: Document, copies: int) -> tuple[int, int]:
    """Return the calls that a decision makes, and the objects that it writes."""
    known, writes = beside(kind, document, copies), 0

    def whole() -> None:
        nonlocal writes
        made = decide(known).writes()
        writes = len(made.nodes) + len(made.jobs) + len(made.profiles) + len(made.statuses)

    return calls_of(whole), writes


@pytest.mark.long
@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_the_largest_objects_cost_little_and_each_as_much_as_the_next(
    kind: str, field: str
) -> None:
    document = largest(kind, field)
    none, few, many = (cost(kind, document, copies) for copies in (0, 2, 6))
    each = (few[0] - none[0]) / 2
    assert each <= MOST_CALLS
    assert many[0] - none[0] <= 6 * (LINEAR * max(each, 0) + 500)
    assert many[1] - none[1] <= 2 * 6, "a status of each, and of what it names"


def test_most_of_the_largest_objects_are_accepted() -> None:
    """Else only refusals were measured."""
    refused = {
        (kind, field): problem
        for kind, field in FIELDS
        for broken in beside(kind, largest(kind, field), 1).broken.values()
        for problem in broken.problems[:1]
    }
    assert len(refused) < len(FIELDS) / 4, refused
