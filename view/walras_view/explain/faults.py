"""Pure: the conditions of objects that do not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_view.documents import Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from walras_api.status import Condition


MEASURING = "Measuring"
"""Reason of a condition while the speedup is measured and no attempt has failed."""


@dataclass(frozen=True, slots=True)
class Fault(Shown):
    """A condition that does not hold.

    Attributes:
        object: Object that has the problem.
        condition: Type of the condition.
        reason: Reason of the condition, a CamelCase word for programs.
        message: Message of the condition: the field or object to change, and how.
    """

    object: str
    condition: str
    reason: str
    message: str


def failing(title: str, conditions: Iterable[Condition]) -> Iterator[Fault]:
    """Yield what does not hold, each message once: Ready sums up the others.

    A measurement under way is no problem.
    """
    seen: set[str] = set()
    for each in sorted(conditions, key=lambda each: each.type == "Ready"):
        if each.status == "False" and each.reason != MEASURING and each.message not in seen:
            seen.add(each.message)
            yield Fault(title, each.type, each.reason, each.message)
