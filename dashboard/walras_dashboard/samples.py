"""Figures of users, jobs and nodes at one time, seen by a server or recorded by a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

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
