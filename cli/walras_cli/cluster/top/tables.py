"""Tables of users, jobs and nodes for people: one line for each column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rich.text import Text

from walras_cli.narrow_table import NarrowTable
from walras_view.rows.jobs import per_pod
from walras_view.text import cores, decimal, memory, used

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras_view.rows.jobs import JobRow
    from walras_view.rows.nodes import NodeRow
    from walras_view.rows.users import UserRow

R = TypeVar("R")

STYLE: dict[str, Any] = {
    "box": None,
    "padding": (0, 2, 0, 0),
    "pad_edge": False,
    "title_justify": "left",
    "caption_justify": "left",
}
"""Style of tables as kubectl prints them, for tools that search or cut columns."""

_GOOD = frozenset({"Enforced", "Observing", "Ready", "Granted", "Divided"})
_WAITING = frozenset(
    {
        "Awaited",
        "Behind",
        "BelowEntitlement",
        "Changed",
        "NoPods",
        "NotDecided",
        "Pending",
        "Waiting",
        "Closed",
        "-",
    }
)


class Column(NamedTuple, Generic[R]):
    """A column of figures.

    Attributes:
        head: Header; lines below each other.
        cell: Returns the cell of a row.
        wide: Whether only wide tables have the column.
        spare: The lower, the sooner the column is left out on a narrow terminal; 0 for never.
    """

    head: str
    cell: Callable[[R], str]
    wide: bool = False
    spare: int = 0


USERS: tuple[Column[UserRow], ...] = (
    Column("cores\nentitled", lambda row: decimal(row.cores.entitled)),
    Column("\nbought", lambda row: decimal(row.cores.bought), wide=True),
    Column("\nheld", lambda row: decimal(row.cores.held)),
    Column("\nused", lambda row: used(row.cores.used, row.cores.used_beyond), spare=5),
    Column("memory\nentitled", lambda row: memory(row.memory.entitled), spare=2),
    Column("\ngranted", lambda row: memory(row.memory.granted), spare=4),
    Column("\nused", lambda row: memory(row.memory.used), spare=1),
    Column("jobs", lambda row: str(row.jobs), wide=True),
    Column("pods", lambda row: str(row.pods), wide=True),
    Column("share of\ncluster", lambda row: _percent(row.budget_share), wide=True),
    Column("utility", lambda row: decimal(row.utility, 3), spare=6),
    Column("at bare\nentitlement", lambda row: decimal(row.entitlement_utility, 3), wide=True),
    Column("gain over\nentitled", lambda row: _gain(row.gain)),
    Column("credits\nvs mean", lambda row: _signed(row.credits_above_mean), spare=3),
)

JOBS: tuple[Column[JobRow], ...] = (
    Column("pods", lambda row: f"{row.granted}/{row.pods}"),
    Column("cores\ngranted", lambda row: cores(row.held)),
    Column("\nper pod", lambda row: per_pod(row.each), spare=5),
    Column("\nused", lambda row: used(row.used, row.used_beyond, cores), spare=3),
    Column("memory\ngranted", lambda row: memory(row.memory), spare=2),
    Column("\nused", lambda row: memory(row.memory_used), spare=1),
    Column("price", lambda row: decimal(row.price, 3), spare=4),
    Column("spend", lambda row: decimal(row.spend), wide=True),
    Column("speedup", lambda row: decimal(row.speedup), spare=6),
    Column("F", lambda row: decimal(row.parallel_fraction, 3), wide=True),
    Column("from", lambda row: row.source or "-", wide=True),
)

NODES: tuple[Column[NodeRow], ...] = (
    Column("cores\nfor sale", lambda row: "-" if row.cores is None else f"{row.cores:.12g}"),
    Column("\nsold", lambda row: cores(row.sold)),
    Column("\nused", lambda row: cores(row.used), spare=3),
    Column("memory\ngranted", lambda row: memory(row.memory), spare=2),
    Column("\nused", lambda row: memory(row.memory_used), spare=1),
    Column("price", lambda row: decimal(row.price, 3), spare=5),
    Column("pods", lambda row: str(row.pods), spare=4),
    Column("mode", lambda row: row.mode or "-", wide=True),
)


def users(rows: Sequence[UserRow], most: int | None, *, wide: bool) -> NarrowTable:
    """Return a table of entitlements, indented as the tree is."""
    table = _table("Users", ["user"], USERS, "state", wide=wide)
    for row in rows[:most]:
        indented = "  " * row.depth + row.name
        table.add_row(indented, *_cells(USERS, row, wide=wide), state(row.reason))
    return _cut(table, "users", len(rows), most)


def jobs(rows: Sequence[JobRow], most: int | None, *, wide: bool, namespace: str) -> NarrowTable:
    """Return a table of MarketJobs.

    Args:
        rows: Rows of the table.
        most: Largest number of rows to show; None for all.
        wide: Whether the table has the columns of wide tables, too.
        namespace: Namespace of all rows; empty if they have several.
    """
    title = f"Jobs in namespace {namespace}" if namespace else "Jobs"
    table = _table(title, ["job", "user"], JOBS, "state", wide=wide)
    for row in rows[:most]:
        name = row.name if namespace else f"{row.namespace}/{row.name}"
        table.add_row(name, row.entitlement, *_cells(JOBS, row, wide=wide), state(row.state))
    return _cut(table, "jobs", len(rows), most)


def nodes(rows: Sequence[NodeRow], most: int | None, *, wide: bool) -> NarrowTable:
    """Return a table of nodes."""
    table = _table("Nodes", ["node"], NODES, "agent", wide=wide)
    if wide:
        table.add_column("message", no_wrap=True)
    for row in rows[:most]:
        message = [row.message] if wide else []
        table.add_row(row.name, *_cells(NODES, row, wide=wide), state(row.agent), *message)
    return _cut(table, "nodes", len(rows), most)


def _cells(columns: Sequence[Column[R]], row: R, *, wide: bool) -> list[str]:
    return [column.cell(row) for column in columns if wide or not column.wide]


def _table(
    title: str, names: Sequence[str], columns: Sequence[Column[Any]], last: str, *, wide: bool
) -> NarrowTable:
    shown = [column for column in columns if wide or not column.wide]
    ranks = {number: column.spare for number, column in enumerate(shown, len(names))}
    spare = [] if wide else sorted(filter(ranks.get, ranks), key=ranks.__getitem__)
    table = NarrowTable(spare, title=title, **STYLE)
    for name in names:
        table.add_column(name, no_wrap=True)
    for column in shown:
        table.add_column(column.head, justify="right", no_wrap=True)
    table.add_column(last, no_wrap=True)
    return table


def _cut(table: NarrowTable, what: str, rows: int, most: int | None) -> NarrowTable:
    if most is not None and rows > most:
        table.caption = f"and {rows - most} more; walras top {what} shows all"
    return table


def state(reason: str) -> Text:
    """Return how something is, by its colour too."""
    style = "green" if reason in _GOOD else "yellow" if reason in _WAITING else "red"
    return Text(reason, style=style)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _gain(value: float | None) -> str:
    return "-" if value is None else f"{round(value, 4) + 0.0:+.1%}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value + 0.0:+.1f}"
