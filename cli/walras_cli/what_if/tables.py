"""Parts of the tables of plans: tables that are cut for people, prices, figures of a whole plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from walras_cli.output import RULED_STYLE
from walras_view.text import decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walras_cli.what_if.comparison import Cleared


MOST_ROWS = 40
"""Longer tables are cut for people; scripts get everything."""


def new_table(title: str, first: str, columns: Iterable[str]) -> Table:
    """Return a table of a column of names and columns of figures."""
    table = Table(title=title, **RULED_STYLE)
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def filled(table: Table, rows: Sequence[Sequence[str]]) -> Table:
    """Return a table with rows, or the first of them."""
    for row in rows[:MOST_ROWS]:
        table.add_row(*row)
    if len(rows) > MOST_ROWS:
        table.caption = f"and {len(rows) - MOST_ROWS} more; -o json lists all"
    return table


def price(value: float) -> str:
    """Return a price, if there is one."""
    return f"{value:.3f}" if value else "-"


FIGURES: Mapping[str, Callable[[Cleared], str]] = {
    "system progress": lambda each: f"{each.scores.system_progress:.3f}",
    "  of what pods hold": lambda each: f"{each.scores.held_progress:.3f}",
    "error of entitlements (MAPE)": lambda each: f"{each.scores.entitlement_error:.1%}",
    "uniformity of utility": lambda each: f"{each.scores.uniformity:.3f}",
    "envy-freeness": lambda each: decimal(each.scores.envy_freeness, 3),
    "iterations": lambda each: str(each.plan.iterations),
    "residual": lambda each: f"{each.plan.residual:.1e}",
    "converged": lambda each: "yes" if each.plan.converged else "no",
}
"""Scores of whole plans, by label."""
