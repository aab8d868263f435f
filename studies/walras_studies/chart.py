"""The content of a plot as a plain value, which `plot` draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot of several series as lines, dots or bars.

    Attributes:
        name: Name of the plot's file, without its ending.
        title: Title above the plot.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        series: Points of each series by its label; points with NaN are left out.
        categories: Labels of the positions 0, 1, ... on the horizontal axis; if there are any, the
            plot has bars.
        log_x: Whether the horizontal axis is logarithmic.
        log_y: Whether the vertical axis is logarithmic.
        dots: Whether points are drawn without lines between them.
    """

    name: str
    title: str
    x: str
    y: str
    series: Mapping[str, tuple[Point, ...]]
    categories: tuple[str, ...] = field(default=())
    log_x: bool = False
    log_y: bool = False
    dots: bool = False


def bars(values: Iterable[float]) -> tuple[Point, ...]:
    """Return values as points at the positions 0, 1, ... of the horizontal axis."""
    return tuple((float(place), value) for place, value in enumerate(values))
