"""Pure: decide which changes of a status are worth a write, and which an Event.

Prices follow everything in the cluster, so a pod that comes or goes somewhere moves the last digits
of all numbers. A status is written when any of them has moved visibly, or anything else in it has
changed; as it is compared with what was written, small moves add up until they are visible.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from walras_operator.decide.conditions import clipped, conditions_of, listed, summarize
from walras_operator.decide.status.market import PODS_SHARE, REQUESTS_BOUNDED, without_stamp
from walras_operator.decide.world import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walras_operator.decide.world import Reference

VISIBLE = 0.005
"""Smallest relative change of a number that is worth a write."""

NUMBERS = frozenset(
    {
        "atEntitlement", "bought", "budget", "budgetFactor", "budgetShare",
        "coreValue", "cores", "coverage", "crps", "entitled", "entitlementError", "envyFreeness",
        "heldProgress", "memoryValue", "now", "otherSpend", "price", "progress",
        "proportionalProgress", "residual", "speedup", "spend", "systemProgress", "uniformity",
        "unmetMemory", "utility", "weight", "widening", "width",
    }
)  # fmt: skip
"""Fields whose numbers follow prices, or every progress check in the cluster."""

WITH_OTHERS = frozenset(
    {
        "coreHours", "gaining", "losing", "neededCores", "payableCores", "progressError",
        "workLeftError",
    }
)  # fmt: skip
"""Fields that change all the time, and are written when another one is."""


class Tolerance(NamedTuple):
    """A change of a number that is not worth a write.

    Attributes:
        part: Largest such part of the number.
        amount: The same as an amount, if that is more.
    """

    part: float
    amount: float = 0.0


ANY = Tolerance(math.inf)

MEMORY = Tolerance(0.1, 1 << 28)
"""A change of bytes that is told in turn."""

ALWAYS: Final[Mapping[str, Tolerance]] = {
    **dict.fromkeys(NUMBERS, Tolerance(VISIBLE)),
    **dict.fromkeys(WITH_OTHERS, ANY),
}
"""Changes of fields that are not worth a write at any time."""

BETWEEN_TURNS: Final[Mapping[str, Tolerance]] = {
    **ALWAYS,
    **dict.fromkeys(("demand", "granted", "memory"), MEMORY),
    **dict.fromkeys(("credits", "memoryReason"), ANY),
}
"""The same while it is not an object's turn: Karma changes memory and credits in every quantum."""

TURN_SECONDS = 600
"""Time within which each object of a kind has its turn, if `MOST_TURNS` suffice."""

LEAST_TURNS, MOST_TURNS = 0.2, 10.0
"""Objects of a kind that have their turn in a second."""

SENTENCES = frozenset({"message", "reason"})
"""Fields whose text may contain such numbers."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def in_turn(objects: Sequence[Reference], quantum: int, seconds: int) -> frozenset[Reference]:
    """Return the objects of a kind whose turn it is in a quantum of memory.

    Args:
        objects: All objects of the kind, in an order that lasts.
        quantum: Number of the quantum; 0 if memory is not divided in quanta: all have their turn.
        seconds: Length of a quantum.
    """
    turns = min(max(len(objects) / TURN_SECONDS, LEAST_TURNS), MOST_TURNS)
    every = math.ceil(len(objects) / (turns * seconds)) if quantum and objects else 1
    return frozenset(objects[(-quantum) % every :: every])


def worth_writing(before: Mapping[str, Any], after: Mapping[str, Any], turn: bool = True) -> bool:
    """Return whether a status differs visibly from the one last written.

    Args:
        before: Status as last written.
        after: Status as it is to be.
        turn: Whether it is the object's turn to have its memory and credits written.
    """
    return not _same(without_stamp(before), after, "", ALWAYS if turn else BETWEEN_TURNS)


def _same(before: Any, after: Any, field: str, tolerated: Mapping[str, Tolerance]) -> bool:
    tolerance = tolerated.get(field)
    if before == after or tolerance is ANY:
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        if field in {"account", "ledger", "runs"} or before.keys() != after.keys():
            return False
        return all(_same(before[key], after[key], key, tolerated) for key in after)
    if tolerance is not None:
        return is_near(before, after, tolerance)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(
            _same(one, other, field, tolerated) for one, other in zip(before, after, strict=True)
        )
    if field in SENTENCES and isinstance(before, str) and isinstance(after, str):
        return _NUMBER.sub("0", before) == _NUMBER.sub("0", after)
    return False


def is_near(before: Any, after: Any, tolerance: Tolerance) -> bool:
    """Whether two numbers differ by no more than is tolerated, or are the same texts."""
    if before == after:
        return True
    try:
        one, other = float(before), float(after)
    except (TypeError, ValueError):
        return False
    most = max(tolerance.part * max(abs(one), abs(other)), tolerance.amount)
    return abs(one - other) <= most


WARNINGS = frozenset(
    {
        "AccountDropped", "AccountUnreadable", "BadReport", "BelowUnusable", "CannotClear",
        "Cycle", "EmptySelector",
        "EntitlementUnusable", "Invalid", "Late", "LedgerUnreadable", "LessThanOneCore", "Missed",
        "NoAnswer", "NoNamespaces", "NoSelector", "NotEnforced", "NotMeasured", "NotUsed",
        "OutOfReach", "Overcommitted", "Overlap", "ParentMissing", "PodsLeftOut",
        "ProfileMissing",
        "ProfileUnusable", "Refused", "TooNoisy", "Unaffordable", "Unusable",
    }
)  # fmt: skip
"""Reasons that call for action; their Events are warnings."""


TOLD = (
    "Admitted",
    "Ready",
    "ObjectiveMet",
    "OnTime",
    "RequestsKept",
    "WholeCores",
    PODS_SHARE,
    REQUESTS_BOUNDED,
)
"""Types of the conditions whose changes are Events."""

MAX_EVENT_MESSAGE = 1000
"""Most characters of an Event's message, a little less than the API server accepts."""


def events(
    reference: Reference, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Event]:
    """Yield Events about the difference between two statuses of an object, each reason once."""
    former, now = conditions_of(before), conditions_of(after)
    said: set[str] = set()
    for kind in TOLD:
        condition = now.get(kind)
        if condition is None or _state(former.get(kind)) == _state(condition):
            continue
        reason = str(condition["reason"])
        if reason not in said:
            said.add(reason)
            message = clipped(str(condition["message"]), MAX_EVENT_MESSAGE)
            yield Event(reference, "Warning" if reason in WARNINGS else "Normal", reason, message)
    moves = list(_moves(before, after))
    if moves:
        yield Event(
            reference, "Normal", "CoresChanged", clipped(summarize(moves), MAX_EVENT_MESSAGE)
        )


def _state(condition: Mapping[str, Any] | None) -> tuple[Any, Any] | None:
    return None if condition is None else (condition.get("status"), condition.get("reason"))


def _moves(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each pod whose cores differ from those of the last pod of its name."""
    former = {str(each.get("name")): each for each in listed(before, "pods")}
    for pod in listed(after, "pods"):
        had, has = (_cores(each) for each in (former.get(pod["name"], {}), pod))
        if not is_near(had, has, Tolerance(VISIBLE)):
            node = f" on {pod['node']}" if "node" in pod else ""
            yield f"Pod {pod['name']}{node}: now {has} cores, before {had}"


def _cores(pod: Mapping[str, Any]) -> str:
    return str(pod.get("held") or "0")
