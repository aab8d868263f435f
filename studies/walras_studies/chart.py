"""The content of a plot as a value; `plot` draws it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines, dots or bars over one axis.

    Attributes:
        name: Name of the file.
        title: above the plot.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        series: points of each line by its label; NaN are left out.
        categories: names of the horizontal places 0, 1, ...; the plot then has bars.
        log_x: whether the horizontal axis is logarithmic.
        log_y: whether the vertical axis is logarithmic.
        dots: whether points stand for themselves, with no lines between.
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
    """Return values as points at the places 0, 1, ..."""
    return tuple((float(place), value) for place, value in enumerate(values))
