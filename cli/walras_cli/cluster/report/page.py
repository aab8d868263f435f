"""Pure: a report as tables for people, and as rows for scripts and spreadsheets."""

from __future__ import annotations

import csv
import io
import unicodedata
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from walras_cli.cluster.report.sums import NOTICEABLE, CoreHours, GibHours, is_others
from walras_cli.cluster.top.tables import STYLE
from walras_service.times import rfc3339
from walras_view.documents import plain
from walras_view.text import decimal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from walras_cli.cluster.report.owed import Owed
    from walras_cli.cluster.report.sums import Period, Report, Row

_CORES = ("entitled", "bought", "held", "used", "lent", "borrowed", "paid", "price")
_MEMORY = ("entitled", "held", "used", "lent", "borrowed")


@dataclass(frozen=True, slots=True)
class ReportPage:
    """The output of ``walras report``.

    Attributes:
        report: The report.
        source: Source of its figures: operator or prometheus.
        notes: Lines for people about figures that are left out.
        account: What users are owed now; empty if no account is kept, or none can be read.
    """

    report: Report
    source: str
    notes: tuple[str, ...] = ()
    account: tuple[Owed, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "start": rfc3339(self.report.start),
            "end": rfc3339(self.report.end),
            "source": self.source,
            "rows": [plain(row) for row in self.report.rows],
            "periods": [plain(period) for period in self.report.periods],
            "account": [plain(each) for each in self.account],
            "notes": list(self.remarks()),
        }

    def render(self, *, wide: bool) -> list[RenderableType]:  # noqa: ARG002 - nothing is left out
        """Return it for people, part by part."""
        report = self.report
        heading = f"{rfc3339(report.start)} to {rfc3339(report.end)}"
        parts: list[RenderableType] = [Text(heading, style="bold")]
        if report.rows:
            parts.append(_table(self.report))
        else:
            parts.append(Text("There is no data for this period."))
        if self.account:
            parts += [Text("Account now", style="bold"), _account(self.account)]
        parts += [Text(f"note: {line}", style="dim") for line in self.remarks()]
        return parts

    def csv(self) -> str:
        """Return it as comma-separated values, a header first; empty where nothing is known."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        cores, memory = [_names(CoreHours), _names(GibHours)]
        writer.writerow(
            [
                "user",
                "month",
                *(f"coreHours{name[0].upper()}{name[1:]}" for name in cores if name != "price"),
                "price",
                *(f"gibHours{name[0].upper()}{name[1:]}" for name in memory),
                "cost",
                "observedSeconds",
                "seconds",
            ]
        )
        for row in self.report.rows:
            seconds, observed = self._lengths(row.month)
            figures = [getattr(row.cores, name) for name in cores]
            figures += [getattr(row.memory, name) for name in memory]
            writer.writerow(
                [
                    _cell(row.user),
                    _cell(row.month),
                    *map(_exact, (*figures, row.cost)),
                    observed,
                    seconds,
                ]
            )
        return text.getvalue()

    def remarks(self) -> tuple[str, ...]:
        """Return what a reader should know about the figures."""
        lines = list(self.notes)
        lines += filter(None, map(_coverage, self.report.periods))
        if any(is_others(row.user) for row in self.report.rows):
            lines.append(
                f"(others) are the users who held least on a day or came later, on one day at "
                f"least {self.report.without}: the operator had no room for a row of each"
            )
        return tuple(lines)

    def _lengths(self, month: str) -> tuple[int, int]:
        chosen = [each for each in self.report.periods if month in {"", each.month}]
        return sum(each.seconds for each in chosen), sum(each.observed_seconds for each in chosen)


def _account(owed: Iterable[Owed]) -> Table:
    """Return what users are owed; with a minus, what they owe."""
    table = Table(**STYLE)
    table.add_column("user", no_wrap=True)
    for head in ("core-hours", "GiB-hours"):
        table.add_column(f"{head} owed to it", justify="right", no_wrap=True)
    for each in owed:
        table.add_row(each.user, decimal(each.core_hours, 1), decimal(each.gib_hours, 1))
    return table


def _names(model: type) -> list[str]:
    return [each.name for each in fields(model)]


def _table(report: Report) -> Table:
    by_user = any(row.user for row in report.rows)
    by_month = any(row.month for row in report.rows)
    priced = any(row.cost is not None for row in report.rows)
    table = Table(**STYLE)
    for head, shown in (("user", by_user), ("month", by_month)):
        if shown:
            table.add_column(f"\n{head}", no_wrap=True)
    heads = [f"core-hours\n{_CORES[0]}", *(f"\n{name}" for name in _CORES[1:])]
    heads += [f"GiB-hours\n{_MEMORY[0]}", *(f"\n{name}" for name in _MEMORY[1:])]
    for head in [*heads, *(["\ncost"] if priced else [])]:
        table.add_column(head, justify="right", no_wrap=True)
    for row in report.rows:
        names = [name for name, shown in ((row.user, by_user), (row.month, by_month)) if shown]
        cost = [decimal(row.cost, 2)] if priced else []
        table.add_row(*names, *_cells(row), *cost)
    return table


def _cells(row: Row) -> list[str]:
    cores = [decimal(getattr(row.cores, name), 3 if name == "price" else 1) for name in _CORES]
    return cores + [decimal(getattr(row.memory, name), 1) for name in _MEMORY]


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, and without control characters."""
    shown = "".join(each for each in text if unicodedata.category(each) not in {"Cc", "Cf", "Cs"})
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def _exact(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


def _coverage(period: Period) -> str:
    """Return what was not observed of a month; empty if it is not worth a word."""
    missing = period.seconds - period.observed_seconds
    gaps = [gap for gap in period.gaps if gap.missing_seconds > NOTICEABLE]
    if not gaps:
        return ""
    longest = max(gaps, key=lambda gap: gap.missing_seconds)
    part = 100 * period.observed_seconds / period.seconds
    return (
        f"{period.month}: {part:.1f} % of {period.seconds / 3600:.1f} hours were observed; "
        f"{missing / 3600:.1f} hours are missing, most of them between {longest.start} and "
        f"{longest.end}"
    )
