"""Pure: what a cluster would have of Walras, on one screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from walras_cli.narrow_table import NarrowTable
from walras_cli.output import RULED_STYLE
from walras_view.documents import plain
from walras_view.sentences.first_look import (
    change_sentences,
    cluster_sentence,
    loan_sentences,
    meaning_of_columns,
    result_sentences,
    use_sentence,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from walras_view.first_look import FirstLook

MOST_USERS = 8


@dataclass(frozen=True, slots=True)
class FirstLookPage:
    """The page that ``walras what-if`` shows of a cluster without objects of Walras.

    Attributes:
        look: What is shown.
    """

    look: FirstLook

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        return plain(self.look)

    def render(self, *, wide: bool) -> list[RenderableType]:  # noqa: ARG002 - one screen is enough
        """Return the most of it that fits on a screen."""
        look = self.look
        hidden = len(look.users) - MOST_USERS
        changes = [f"- {each}" for each in change_sentences(look)]
        return [
            *map(Text, (use_sentence(look), cluster_sentence(look), *result_sentences(look))),
            self._users(),
            *map(Text, [f"and {hidden} more; -o json lists all"] if hidden > 0 else []),
            *map(Text, (*meaning_of_columns(look), *loan_sentences(look), "")),
            Text("The largest changes", style="bold"),
            *map(Text, changes or ["No job would have other cores than today."]),
            Text(),
            Text("Next", style="bold"),
            *(Text(f"  {each}") for each in look.next),
            *map(Text, [""] if look.notes else []),
            *(Text(f"note: {each}") for each in look.notes),
        ]

    def _users(self) -> Table:
        table = NarrowTable(
            _SPARE,
            **RULED_STYLE,
            padding=(0, 1),
            collapse_padding=True,
            pad_edge=False,
            show_edge=False,
        )
        table.add_column("\nuser", overflow="fold", max_width=20)
        for head in (
            "\npods",
            f"{self.look.unit}s\nguarantee",
            "\ntoday",
            "\nWalras",
            "speed\nWalras",
            "starving\ntoday",
            "\nWalras",
        ):
            table.add_column(head, justify="right", no_wrap=True)
        for each in self.look.users[:MOST_USERS]:
            table.add_row(
                each.name,
                str(each.pods),
                f"{each.cores.guarantee:.1f}",
                f"{each.cores.today:.1f}",
                each.cores.market_text,
                each.gain_text,
                str(each.starving_pods.today),
                str(each.starving_pods.market),
            )
        return table


_SPARE = (1, 7, 6)
"""Columns to leave out on a narrow terminal, that of pods first."""
