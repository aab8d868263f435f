"""Helpers for all tables of a what-if, and the scores of whole plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walras.plan import Plan
    from walras.plan_quality import PlanQuality

MOST_ROWS = 40
"""Longer tables are cut for people; scripts get everything."""

STYLE: dict[str, Any] = {"box": SIMPLE_HEAD, "title_justify": "left", "caption_justify": "left"}


@dataclass(frozen=True, slots=True)
class Cleared:
    """A plan and what it is worth."""

    plan: Plan
    scores: PlanQuality


def new_table(title: str, first: str, columns: Iterable[str]) -> Table:
    """Return a table of a column of names and columns of figures."""
    table = Table(title=title, **STYLE)
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def filled(table: Table, rows: Sequence[Sequence[str]]) -> Table:
    """Return a table with rows, or the first of them."""
    for row in rows[:MOST_ROWS]:
        table.add_row(*row)
    if len(rows) > MOST_ROWS:
        table.caption = f"and {len(rows) - MOST_ROWS} more; -o json has them all"
    return table


def optional(value: float | None, digits: int = 3) -> str:
    """Return a figure, if there is one."""
    return "-" if value is None else f"{value:.{digits}f}"


def price(value: float) -> str:
    """Return a price, if there is one."""
    return f"{value:.3f}" if value else "-"


FIGURES: Mapping[str, Callable[[Cleared], str]] = {
    "system progress": lambda each: f"{each.scores.system_progress:.3f}",
    "  after rounding": lambda each: f"{each.scores.held_progress:.3f}",
    "error of entitlements (MAPE)": lambda each: f"{each.scores.entitlement_error:.1%}",
    "uniformity of utility": lambda each: f"{each.scores.uniformity:.3f}",
    "envy-freeness": lambda each: optional(each.scores.envy_freeness),
    "iterations": lambda each: str(each.plan.iterations),
    "residual": lambda each: f"{each.plan.residual:.1e}",
    "converged": lambda each: "yes" if each.plan.converged else "no",
}
"""Scores of whole plans, by label."""
