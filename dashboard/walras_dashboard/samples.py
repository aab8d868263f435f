"""Figures of users, jobs and nodes at one time, seen by a server or recorded by a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras.outcome.history import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["user", "job", "node"]

FIELDS: Mapping[Kind, tuple[tuple[str, str], ...]] = {
    "user": (
        ("entitled", "cores"),
        ("bought", "cores"),
        ("held", "cores"),
        ("used", "cores"),
        ("lent", "cores"),
        ("borrowed", "cores"),
        ("credits", "credits"),
        ("price", "price"),
    ),
    "job": (
        ("held", "cores"),
        ("bought", "cores"),
        ("used", "cores"),
        ("price", "price"),
        ("speedup", "speedup"),
    ),
    "node": (("price", "price"), ("sold", "cores")),
}
"""Figures that are kept, with their units."""

Figures = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class FigureSample:
    """Figures at one time, by kind and name."""

    time: float
    figures: Mapping[Kind, Mapping[str, Figures]]


class Samples(NamedTuple):
    """Samples over time, which are read as a `History` is."""

    samples: Sequence[FigureSample]

    def names(self, kind: Kind) -> set[str]:
        """Return the names of all users, nodes or jobs that were sampled."""
        return {name for each in self.samples for name in each.figures[kind]}

    def series(self, kind: Kind, name: str) -> tuple[Series, ...]:
        """Return all figures of a user, node or job; none if it was never sampled."""
        rows = [each.figures[kind].get(name) for each in self.samples]
        if not any(rows):
            return ()
        return tuple(
            Series(field, unit, tuple(None if row is None else row[place] for row in rows))
            for place, (field, unit) in enumerate(FIELDS[kind])
        )
