"""Pure: decide which changes of a status are worth a write, and which an Event.

Prices follow everything in the cluster, so a pod that comes or goes somewhere moves the last digits
of all numbers. A status is written when any of them has moved visibly, or anything else in it has
changed; as it is compared with what was written, small moves add up until they are visible.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from walras_operator.decide.conditions import clipped, conditions_of, listed, summarize
from walras_operator.decide.status.market import without_stamp
from walras_operator.decide.world import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_operator.decide.world import Reference

VISIBLE = 0.005
"""Smallest relative change of a number that is worth a write."""

NUMBERS = frozenset(
    {
        "atEntitlement", "bought", "budget", "budgetFactor", "budgetShare",
        "coreValue", "cores", "entitled", "entitlementError", "envyFreeness",
        "heldProgress", "memoryValue", "now", "otherSpend", "price", "priceError", "progress",
        "proportionalProgress", "residual", "speedup", "spend", "systemProgress", "uniformity",
        "unmetMemory", "utility", "weight",
    }
)  # fmt: skip
"""Fields whose numbers follow prices."""

WITH_OTHERS = frozenset(
    {
        "coreHours", "gaining", "losing", "neededCores", "payableCores", "workLeftError",
    }
)  # fmt: skip
"""Fields that change all the time, and are written when another one is."""

SENTENCES = frozenset({"message", "reason"})
"""Fields whose text may contain such numbers."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def worth_writing(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a status differs visibly from the one last written."""
    return not _same(without_stamp(before), after, "")


def _same(before: Any, after: Any, field: str) -> bool:
    if before == after or field in WITH_OTHERS:
        return True
    if field in NUMBERS:
        return _near(before, after)
    if isinstance(before, dict) and isinstance(after, dict):
        if field in {"account", "ledger", "runs"} or before.keys() != after.keys():
            return False
        return all(_same(before[key], after[key], key) for key in after)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(
            _same(one, other, field) for one, other in zip(before, after, strict=True)
        )
    if field in SENTENCES and isinstance(before, str) and isinstance(after, str):
        return _NUMBER.sub("0", before) == _NUMBER.sub("0", after)
    return False


def _near(before: Any, after: Any) -> bool:
    """Return whether two numbers, or objects of numbers, differ by less than `VISIBLE`."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(
            _same(before[key], after[key], key) for key in after
        )
    try:
        one, other = float(before), float(after)
    except (TypeError, ValueError):
        return False
    return abs(one - other) <= VISIBLE * max(abs(one), abs(other))


WARNINGS = frozenset(
    {
        "AccountDropped", "AccountUnreadable", "BadReport", "BelowUnusable", "CannotClear",
        "Cycle", "EmptySelector",
        "EntitlementUnusable", "Invalid", "Late", "LedgerUnreadable", "LessThanOneCore", "Missed",
        "NoAnswer", "NoNamespaces", "NoSelector", "NotEnforced", "NotMeasured", "NotUsed",
        "OutOfReach", "Overcommitted", "Overlap", "ParentMissing", "ProfileMissing",
        "ProfileUnusable", "Refused", "TooNoisy", "Unaffordable", "Unusable",
    }
)  # fmt: skip
"""Reasons that call for action; their Events are warnings."""


MAX_EVENT_MESSAGE = 1000
"""Most characters of an Event's message, a little less than the API server accepts."""


def events(
    reference: Reference, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Event]:
    """Yield Events about the difference between two statuses of an object, each reason once."""
    former, now = conditions_of(before), conditions_of(after)
    said: set[str] = set()
    for kind in ("Admitted", "Ready", "ObjectiveMet", "OnTime", "RequestsKept", "WholeCores"):
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
        if not _near(had, has):
            node = f" on {pod['node']}" if "node" in pod else ""
            yield f"Pod {pod['name']}{node}: now {has} cores, before {had}"


def _cores(pod: Mapping[str, Any]) -> str:
    return str(pod.get("held") or "0")
