"""Tables that leave out columns where a terminal is too narrow for all of them."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.measure import Measurement
from rich.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

WIDEST = 400
"""Columns that a table may take: as with kubectl, names are never broken, and a terminal wraps."""


class NarrowTable(Table):
    """A table that says below it which columns it left out for want of room.

    Args:
        spare: Numbers of the columns that can be left out, the first one first; before these, such
            as have no value in any row.
        options: Options of rich's table.
    """

    def __init__(self, spare: Sequence[int] = (), **options: Any) -> None:
        super().__init__(**options)
        self.spare = spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw as many columns as fit."""
        return Table.__rich_console__(self.fitted(console, options.max_width), console, options)

    def fitted(self, console: Console, width: int | None = None) -> NarrowTable:
        """Return the columns that fit into a width, by default that of a console."""
        room = console.width if width is None else width
        free = console.options.update(max_width=WIDEST)
        table, left_out = self, list[int]()
        for number in sorted(self.spare, key=self._has_values):
            if Measurement.get(console, free, table).maximum <= room:
                break
            left_out.append(number)
            table = self._without(left_out)
        return table

    def _has_values(self, number: int) -> bool:
        return any(cell != "-" for cell in self.columns[number].cells)

    def _without(self, left_out: Collection[int]) -> NarrowTable:
        """Return the table without some columns; the title over several stays with the others."""
        made, names, columns = copy(self), list[str](), list[Column]()
        title = over_next = ""
        for number, column in enumerate(self.columns):
            first, _, head = str(column.header).rpartition("\n")
            own, title = first, first or (title if "\n" in str(column.header) else "")
            if number in left_out:
                names.append(f"{title} {head}".strip())
                over_next = own or over_next
                continue
            header = column.header
            if "\n" in str(header) and not own:
                header = f"{over_next}\n{head}"
            over_next = ""
            columns.append(replace(column, header=header, _index=len(columns)))
        made.columns, made.spare = columns, ()
        said = f"left out, as the terminal is narrow: {', '.join(names)}"
        made.caption = said if self.caption is None else f"{self.caption}\n{said}"
        return made
