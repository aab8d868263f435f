"""Pure: which jobs of a list are shown, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from walras_view.rows.jobs import JobRow

if TYPE_CHECKING:
    from collections.abc import Iterable


SORTED_BY = frozenset({*(each.name for each in fields(JobRow)), "state", "node"} - {"each"})
"""Fields of a job that a list can be sorted by."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Filter and order of a list of jobs.

    Attributes:
        user: Entitlement that pays for them; empty for all.
        node: Node that a pod of them runs on; empty for all.
        text: A part of their namespace, name or Entitlement; empty for all.
        sort: Field to sort by, descending after a minus sign; empty for namespace and name.
        offset: Number of jobs to pass over.
        limit: Largest number of jobs to list.
    """

    user: str = ""
    node: str = ""
    text: str = ""
    sort: str = ""
    offset: int = 0
    limit: int = 200

    @property
    def is_sortable(self) -> bool:
        """Whether there is such a field."""
        return not self.sort or _field(self.sort) in SORTED_BY


def _field(sort: str) -> str:
    """Return the name in Python of a field of the API."""
    name = sort.removeprefix("-")
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)


def matches(row: JobRow, query: JobQuery) -> bool:
    """Say whether a job is in a list."""
    if query.user and row.entitlement != query.user:
        return False
    if query.node and all(pod.node != query.node for pod in row.each):
        return False
    text = query.text.casefold()
    return not text or any(
        text in each.casefold() for each in (f"{row.namespace}/{row.name}", row.entitlement)
    )


def in_order(rows: Iterable[JobRow], sort: str) -> list[JobRow]:
    """Sort by a field; what is not known is last in both orders, and equals stay by name."""
    field = _field(sort)
    pairs = [(getattr(row, field), row) for row in rows]
    with_figure = [pair for pair in pairs if pair[0] is not None]
    with_figure.sort(key=lambda pair: pair[0], reverse=sort.startswith("-"))
    return [row for _, row in with_figure] + [row for figure, row in pairs if figure is None]
