"""Chooses (pure): conditions, which tell people what is wrong with which object and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras.resources.status import Condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_TOLD = 3
"""Objects that a message tells of; it counts the others."""

LONGEST_REASON = 4096
"""Characters of a pod's reason, as its schema has it."""

LONGEST_MESSAGE = 32768
"""Characters of a condition's message, likewise."""


class Problem(NamedTuple):
    """What is wrong with an object.

    Attributes:
        reason: in one word, for programs.
        message: field or object, what is wrong, the way out.
    """

    reason: str
    message: str


class Verdict(NamedTuple):
    """What a condition says."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def holds(reason: str, message: str) -> Verdict:
    """Return a verdict that all is well."""
    return Verdict("True", reason, message)


def fails(problem: Problem) -> Verdict:
    """Return a verdict about a problem."""
    return Verdict("False", problem.reason, problem.message)


def conditions(
    verdicts: Mapping[str, Verdict], before: Mapping[str, Any], now: str, generation: int
) -> list[Condition]:
    """Return conditions; the time of each is that of the last change of its status.

    Args:
        verdicts: by type.
        before: the object's status before.
        now: the time.
        generation: of the object.
    """
    since = {
        kind: str(each.get("lastTransitionTime") or now)
        for kind, each in conditions_of(before).items()
        if kind in verdicts and each.get("status") == verdicts[kind].status
    }
    return [
        Condition(
            type=kind,
            status=verdict.status,
            reason=verdict.reason,
            message=clipped(verdict.message, LONGEST_MESSAGE),
            last_transition_time=since.get(kind, now),
            observed_generation=generation or None,
        )
        for kind, verdict in verdicts.items()
    ]


def conditions_of(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a status's conditions by type, whatever else may be in their place."""
    return {
        each["type"]: each
        for each in listed(status, "conditions")
        if isinstance(each.get("type"), str)
    }


def listed(status: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of a status, whatever else may be in its place."""
    entries = status.get(field)
    if not isinstance(entries, list):
        return []
    return [each for each in entries if isinstance(each, dict)]


def clipped(text: str, most: int) -> str:
    """Return a text, cut to so many characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def told(parts: Sequence[str]) -> str:
    """Return the first of some sentences, and how many more there are."""
    more = f"; and {len(parts) - MOST_TOLD} more" if len(parts) > MOST_TOLD else ""
    return "; ".join(parts[:MOST_TOLD]) + more
