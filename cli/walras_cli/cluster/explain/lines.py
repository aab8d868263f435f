"""Explanations as people read them: what all of them have alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from walras_cli.cluster.top.tables import state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from walras_cli.cluster.explain.job import Fault

MOST = 10
"""Pods, nodes or jobs that are told of; wide tells of all."""


def title(name: str, reason: str, message: str) -> Text:
    """Return what is explained, and how it is."""
    return Text.assemble((name, "bold"), "  ", state(reason), f": {message}")


def facts(*pairs: tuple[str, str]) -> Table:
    """Return facts, each after its name."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for key, value in pairs:
        table.add_row(f"  {key}", value)
    return table


def faults(found: Sequence[Fault]) -> list[RenderableType]:
    """Return what is wrong, and with which object."""
    lines = [line(f"{each.object}, {each.condition}", each.message, "red") for each in found]
    return [heading("To be put right"), *lines] if lines else []


def heading(text: str) -> Text:
    """Return a heading."""
    return Text(f"\n{text}", style="bold")


def line(subject: str, text: str, style: str = "") -> Text:
    """Return a sentence about something, or one that goes on about the last."""
    return Text(f"  {subject}: {text}" if subject else f"    {text}", style=style)


def rest(there: int, shown: int) -> list[RenderableType]:
    """Return how many more there are, if any."""
    return [] if there <= shown else [Text(f"  and {there - shown} more; -o wide or json has them")]
