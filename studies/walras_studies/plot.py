"""Effects: draws a chart with matplotlib, and writes it as SVG and as PNG."""

from __future__ import annotations

import math
from io import StringIO
from typing import TYPE_CHECKING, Any

from walras_service.failures import Failure
from walras_studies.small_svg import small

try:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
except ImportError as error:
    raise Failure(
        "plots need matplotlib; in the root folder of Walras's repository, run: "
        "pip install '.[studies]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from walras_studies.chart import Chart, Point

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#a6761d")
"""Colours of series in order: those of Okabe and Ito, which most colour-blind people can tell
apart, and two more."""

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "walras",
}

MOST_MARKED = 40
"""Largest number of points of a line that has a marker at each of them."""

_INCHES = (7.2, 3.6)
_DOTS_PER_INCH = 150


def write(chart: Chart, folder: Path) -> None:
    """Write a chart to a folder as SVG and as PNG; the same chart gives the same SVG to the bit."""
    with rc_context(STYLE):
        figure = figure_of(chart)
        drawn = StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        (folder / f"{chart.name}.svg").write_text(small(drawn.getvalue()), encoding="utf-8")
        figure.savefig(folder / f"{chart.name}.png", dpi=_DOTS_PER_INCH)


def figure_of(chart: Chart) -> Figure:
    """Return a chart as a figure of matplotlib."""
    figure = Figure(figsize=_INCHES, layout="constrained")
    axes = figure.subplots()
    series = {label: _drawable(chart, points) for label, points in chart.series.items()}
    for number, (label, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        if chart.categories:
            _bars(axes, points, (number, len(series)), label, colour)
        else:
            marked = chart.dots or len(points) <= MOST_MARKED
            axes.plot(
                *_parted(points),
                label=label,
                color=colour,
                linestyle="none" if chart.dots else "solid",
                marker="o" if marked else "none",
                markersize=4,
            )
    _label(axes, chart, drawn=any(series.values()))
    return figure


def _bars(
    axes: Axes, points: Sequence[Point], place: tuple[int, int], label: str, colour: str
) -> None:
    number, count = place
    width = 0.8 / count
    xs, heights = _parted(points)
    left = [x + (number - (count - 1) / 2) * width for x in xs]
    axes.bar(left, heights, width, label=label, color=colour)


def _label(axes: Axes, chart: Chart, *, drawn: bool) -> None:
    axes.set_title(chart.title, loc="left", fontweight="bold")
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    if chart.categories:
        axes.set_xticks(range(len(chart.categories)), chart.categories)
    if not drawn:
        return
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    elif 0 <= axes.get_ylim()[0] <= 0.4 * axes.get_ylim()[1]:
        axes.set_ylim(bottom=0)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def _drawable(chart: Chart, points: Sequence[Point]) -> list[Point]:
    return [
        (x, y)
        for x, y in points
        if math.isfinite(x) and math.isfinite(y) and (y > 0 or not chart.log_y)
    ]


def _parted(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
