"""Pure: what workloads should request, as a table and as commands to paste."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from walras_cli.what_if.tables import filled, new_table
from walras_view.documents import plain
from walras_view.requests import HEADROOM
from walras_view.text import decimal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from walras_view.requests import Advice

COLUMNS = ("pods", "requests", "uses", "buys", "should\nrequest", "more fit\nnow", "\nthen")


@dataclass(frozen=True, slots=True)
class RequestsPage:
    """The page that ``walras what-if --requests`` shows.

    Attributes:
        advice: What each workload should request, the largest change first.
        notes: Lines about figures that are unknown.
    """

    advice: tuple[Advice, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        return {"requests": [plain(each) for each in self.advice], "notes": list(self.remarks())}

    def render(self, *, wide: bool) -> list[RenderableType]:  # noqa: ARG002 - nothing is left out
        """Return the table, and the commands that set what changes."""
        commands = [Text(each.command) for each in self.advice if each.command]
        title = Text("To paste, one workload after the other; each restarts its pods", style="bold")
        return [
            self._table(),
            *([title, *commands, Text()] if commands else []),
            *(Text(f"note: {each}", style="dim") for each in self.remarks()),
        ]

    def _table(self) -> Table:
        table = new_table("CPU requests, of each pod", "workload", COLUMNS)
        return filled(
            table,
            [
                (
                    f"{each.namespace}/{each.name} ({each.kind})",
                    str(each.pods),
                    decimal(each.requested, 2),
                    decimal(each.used, 2),
                    decimal(each.bought, 2),
                    decimal(each.request, 2) if each.changes else "as now",
                    str(each.fit_now),
                    str(each.fit_then),
                )
                for each in self.advice
            ],
        )

    def remarks(self) -> Iterator[str]:
        """Yield what a reader should know about the figures."""
        now = sum(each.requested * each.pods for each in self.advice)
        then = sum(each.request * each.pods for each in self.advice)
        yield f"all pods together request {now:.2f} CPUs now, and should request {then:.2f}"
        unknown = sum(each.used is None for each in self.advice)
        if unknown:
            yield (
                f"the use of {unknown} of {len(self.advice)} workloads is unknown: their requests "
                f"are only lowered, to what they buy"
            )
        if unknown < len(self.advice):
            yield (
                f"use was measured at one moment, and {HEADROOM - 1:.0%} are added: look at busy "
                f"hours, too, before you lower a request"
            )
        yield (
            "more pods fit by CPU, memory and number alone; requests of memory stay, since one "
            "moment is too little to lower them"
        )
        others = [f"{each.namespace}/{each.name}" for each in self.advice if _by_hand(each)]
        if others:
            yield f"change by hand, in the object or its containers: {', '.join(others)}"
        yield from self.notes


def _by_hand(advice: Advice) -> bool:
    return advice.changes and not advice.command
