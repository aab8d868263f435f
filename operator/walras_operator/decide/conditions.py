"""Pure: conditions of statuses: what is wrong with an object, and what to do about it.

Also reads fields of statuses that may be malformed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras_api.status import Condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_LISTED = 3
"""Most objects that a message lists; it counts the others."""

MAX_REASON = 4096
"""Most characters of a pod's reason, as in the CustomResourceDefinition."""

MAX_MESSAGE = 32768
"""Most characters of a condition's message, as in the CustomResourceDefinition."""


class Problem(NamedTuple):
    """Something that is wrong with an object.

    Attributes:
        reason: CamelCase word for programs.
        message: Field or object, what is wrong, and the way out.
    """

    reason: str
    message: str


class ConditionState(NamedTuple):
    """Status, reason and message of a condition."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def holds(reason: str, message: str) -> ConditionState:
    """Return the state of a condition that is True."""
    return ConditionState("True", reason, message)


def fails(problem: Problem) -> ConditionState:
    """Return the state of a condition that is False because of a problem."""
    return ConditionState("False", problem.reason, problem.message)


def conditions(
    states: Mapping[str, ConditionState], before: Mapping[str, Any], now: str, generation: int
) -> list[Condition]:
    """Return conditions, with the times at which their statuses last changed.

    Args:
        states: States by type of condition.
        before: Status of the object as last written.
        now: Current time (RFC 3339).
        generation: Generation of the object; 0 if unknown.
    """
    return conditions_since(states, last_changes(states, before, now), generation)


def last_changes(
    states: Mapping[str, ConditionState], before: Mapping[str, Any], now: str
) -> dict[str, str]:
    """Return the times at which the statuses of conditions last changed, by type.

    Args:
        states: States by type of condition.
        before: Status of the object as last written.
        now: Current time (RFC 3339).
    """
    since = {
        kind: str(each.get("lastTransitionTime") or now)
        for kind, each in conditions_of(before).items()
        if kind in states and each.get("status") == states[kind].status
    }
    return {kind: since.get(kind, now) for kind in states}


def conditions_since(
    states: Mapping[str, ConditionState], since: Mapping[str, str], generation: int
) -> list[Condition]:
    """Return conditions whose statuses last changed at the given times, by type."""
    return [
        Condition(
            type=kind,
            status=state.status,
            reason=state.reason,
            message=clipped(state.message, MAX_MESSAGE),
            last_transition_time=since[kind],
            observed_generation=generation or None,
        )
        for kind, state in states.items()
    ]


def conditions_of(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the conditions of a status by type; malformed ones are left out."""
    return {
        each["type"]: each
        for each in listed(status, "conditions")
        if isinstance(each.get("type"), str)
    }


def listed(status: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of a status; empty if the field is malformed."""
    entries = status.get(field)
    if not isinstance(entries, list):
        return []
    return [each for each in entries if isinstance(each, dict)]


def number_at(status: Any, *path: str) -> float | None:
    """Return the finite number at a path of a status; None if it is missing or malformed."""
    for name in path:
        status = status.get(name) if isinstance(status, dict) else None
    try:
        value = float(status)
    except (OverflowError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def clipped(text: str, most: int) -> str:
    """Return a text cut to at most ``most`` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def summarize(parts: Sequence[str], count: int = 0) -> str:
    """Return the first `MAX_LISTED` sentences, and how many more there are.

    Args:
        parts: Sentences, or only the first of them.
        count: Number of all sentences, if ``parts`` are only the first.
    """
    count = max(count, len(parts))
    more = f"; and {count - MAX_LISTED} more" if count > MAX_LISTED else ""
    return "; ".join(parts[:MAX_LISTED]) + more
