"""Plans as tables for people: one in detail, several side by side, changes row by row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from walras.numerics.byte_text import format_bytes
from walras_cli.cluster.explain.render_pools import render_pools
from walras_cli.output import RULED_STYLE
from walras_cli.what_if.change_tables import render_change
from walras_cli.what_if.tables import FIGURES, MOST_ROWS, filled, new_table, price
from walras_view.text import decimal, thousandths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from walras.analysis.sensitivity import FractionSensitivity
    from walras.market.plan import Plan
    from walras_cli.what_if.comparison import Cleared, Comparison
    from walras_view.plain import PlainDivision


_PADDING = 3  # around a cell: two blanks and a border


def render(of: Comparison) -> list[RenderableType]:
    """Return the plans as tables: one in detail, several side by side, changes row by row."""
    cleared, before = of.cleared, of.before
    first = cleared[0].plan
    parts: list[RenderableType] = []
    if before is not None:
        parts += render_change(before, cleared[0])
    if len(cleared) == 1 and before is None:
        beside = [] if of.plain is None else [_beside(first, of.plain)]
        parts += [_users(first), *beside, _nodes(cleared), *_jobs(first), _whole(cleared)]
    elif len(cleared) > 1:
        parts += [_cores_of_users(cleared), _utilities_of_users(cleared), _nodes(cleared)]
        parts.append(_whole(cleared))
    if first.bids:
        parts.append(_bids(first))
    if first.memory:
        parts.append(_memory(first))
    if first.pairings:
        parts.append(_pairings(first))
    if of.shifts:
        parts.append(_sensitivity(of.shifts))
    if of.pools:
        parts += [*render_pools(of.pools), Text()]
    parts += [Text(f"note: {note}") for note in of.notes]
    parts += [
        Text(f"refused: {each.namespace}/{each.name}: {each.reason}") for each in first.refused
    ]
    return parts


@dataclass(frozen=True, slots=True)
class _SideBySide:
    """A table of the mechanisms, or several below each other where the screen is too narrow.

    Attributes:
        title: Above all of them.
        fixed: Heads of the columns that each of them begins with.
        heads: Heads of the mechanisms' columns.
        rows: Rows with a cell for each column.
    """

    title: str
    fixed: Sequence[str]
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tables that fit into the width at hand."""
        heads, begin = [*self.fixed, *self.heads], len(self.fixed)
        widths = [
            max(cell_len(line) for cell in (head, *cells) for line in cell.split("\n")) + _PADDING
            for head, *cells in zip(heads, *self.rows[:MOST_ROWS], strict=True)
        ]
        room = max(options.max_width - sum(widths[:begin]) - 1, 1)
        title = self.title
        for columns in _runs_within(room, widths[begin:]):
            table = new_table(title, heads[0], [*heads[1:begin], *(self.heads[i] for i in columns)])
            yield filled(
                table, [(*row[:begin], *(row[begin + i] for i in columns)) for row in self.rows]
            )
            title = ""


def _runs_within(room: int, widths: Sequence[int]) -> Iterable[list[int]]:
    """Cut 0, 1, 2, ... into runs whose widths sum to the room at most, or are of one each."""
    run: list[int] = []
    for index, width in enumerate(widths):
        if run and sum(widths[i] for i in run) + width > room:
            yield run
            run = []
        run.append(index)
    yield run


def _heads(cleared: Iterable[Cleared]) -> list[str]:
    """Return the mechanisms' names, a line for each of their words."""
    return [re.sub(r"(?<=[a-z])(?=[A-Z])", "\n", each.plan.mechanism) for each in cleared]


def _users(plan: Plan) -> Table:
    columns = (
        "cores\nentitled",
        "\nbought",
        "\nheld",
        "utility",
        "at bare\nentitlement",
        "gain",
    )
    rows = [
        (
            user.name,
            f"{user.entitled:.2f}",
            f"{user.bought:.2f}",
            f"{user.held:.2f}",
            f"{user.held_utility:.3f}",
            f"{user.entitlement_utility:.3f}",
            "-" if user.gain is None else f"{round(user.gain, 4) + 0.0:+.1%}",
        )
        for user in plan.users
    ]
    return filled(new_table(f"Users under {plan.mechanism}", "user", columns), rows)


def _beside(plan: Plan, plain: PlainDivision) -> Table:
    """Return what users would have without Walras, by requests, and what they gain over that."""
    there = {each.name: each for each in plain.users}
    rows = [
        (
            user.name,
            f"{there[user.name].held:.2f}",
            f"{user.held:.2f}",
            f"{there[user.name].utility:.3f}",
            f"{user.held_utility:.3f}",
            _over(user.held_utility, there[user.name].utility),
        )
        for user in plan.users
        if user.name in there
    ]
    columns = ("cores\nplain", "\nheld", "utility\nplain", "\nheld", "gain")
    return filled(new_table("Beside plain Kubernetes, all pods busy", "user", columns), rows)


def _over(utility: float, other: float) -> str:
    return f"{round(utility / other - 1, 4) + 0.0:+.1%}" if other else "-"


def _cores_of_users(cleared: Sequence[Cleared]) -> RenderableType:
    rows = [
        (
            each[0].name,
            f"{each[0].entitled:.2f}",
            *(f"{user.held:.2f}" for user in each),
        )
        for each in zip(*(each.plan.users for each in cleared), strict=True)
    ]
    return _SideBySide("Cores of users", ("user", "entitled"), _heads(cleared), rows)


def _utilities_of_users(cleared: Sequence[Cleared]) -> RenderableType:
    title = "Utility of users: weighted mean of their jobs' speedups"
    rows = [
        (
            each[0].name,
            f"{each[0].entitlement_utility:.3f}",
            *(f"{user.held_utility:.3f}" for user in each),
        )
        for each in zip(*(each.plan.users for each in cleared), strict=True)
    ]
    return _SideBySide(title, ("user", "at bare\nentitlement"), _heads(cleared), rows)


def _nodes(cleared: Sequence[Cleared]) -> RenderableType:
    heads = _heads(cleared) if len(cleared) > 1 else ["price"]
    rows = [
        (each[0].name, f"{each[0].cores:g}", *(price(node.price) for node in each))
        for each in zip(*(each.plan.nodes for each in cleared), strict=True)
    ]
    return _SideBySide("Price of a core", ("node", "cores"), heads, rows)


def _jobs(plan: Plan) -> Iterator[RenderableType]:
    """Yield a table of jobs, and below it why each got its cores; sentences need whole lines."""
    table = Table(title="Jobs", **RULED_STYLE)
    table.add_column("job", overflow="fold")
    table.add_column("node", overflow="fold")
    for column in ("bought", "held"):
        table.add_column(column, justify="right", no_wrap=True)
    rows = [
        (
            grant.title,
            grant.node,
            f"{grant.bought:.2f}",
            thousandths(grant.held),
        )
        for grant in plan.grants
    ]
    yield filled(table, rows)
    for grant in plan.grants[:MOST_ROWS]:
        memory = f"; memory: {grant.memory_reason}" if grant.memory_reason else ""
        yield Text(f"{grant.title}: {grant.reason}{memory}")
    yield Text()


def _whole(cleared: Sequence[Cleared]) -> RenderableType:
    """Return the figures of whole plans, one a row."""
    heads = _heads(cleared) if len(cleared) > 1 else [cleared[0].plan.mechanism]
    rows = [(name, *map(figure, cleared)) for name, figure in FIGURES.items()]
    return _SideBySide("Whole cluster", ("",), heads, rows)


def _memory(plan: Plan) -> Table:
    table = new_table(
        f"Memory of users under {plan.memory_mechanism}",
        "user",
        ["entitled", "demand", "granted", "credits\nearned", "spent"],
    )
    rows = [
        (
            user.name,
            format_bytes(user.entitled),
            format_bytes(user.demand),
            format_bytes(user.granted),
            user.account.earned if user.account else "",
            user.account.spent if user.account else "",
        )
        for user in plan.memory
    ]
    return filled(table, rows)


def _bids(plan: Plan) -> Table:
    columns = ("budget", "weights", "utility", "minimum", "met")
    rows = [
        (
            f"{bid.namespace}/{bid.name}",
            f"{bid.budget:.2f}",
            ", ".join(f"{weight:.2f}" for weight in bid.weights),
            f"{bid.utility:.3f}",
            decimal(bid.minimum, 3),
            "" if bid.minimum is None else "yes" if bid.met else "no",
        )
        for bid in plan.bids
    ]
    return filled(new_table("Bids", "job", columns), rows)


def _sensitivity(shifts: Sequence[FractionSensitivity]) -> Table:
    rows = [
        (
            each.user,
            f"{each.overestimate:.0%}",
            f"{each.mean_error:.2f}",
            f"{each.largest_error:.2f}",
            f"{each.cores_moved:.2f}",
        )
        for each in shifts
    ]
    columns = ("F too\nlarge by", "mean error\nof cores", "largest", "cores\nthat move")
    return filled(new_table("If a user's F were overestimated", "user", columns), rows)


def _pairings(plan: Plan) -> Table:
    table = Table(title="Placed together", **RULED_STYLE)
    for column in ("node", "jobs", "expected loss"):
        table.add_column(column, overflow="fold")
    rows = [
        (each.node, "\n".join(each.jobs), "\n".join(f"{loss:.1%}" for loss in each.penalties))
        for each in plan.pairings
    ]
    return filled(table, rows)


@dataclass(frozen=True, slots=True)
class WhatIfPage:
    """The page that ``walras what-if`` shows."""

    comparison: Comparison

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        return self.comparison.document()

    def render(self, *, wide: bool) -> list[RenderableType]:  # noqa: ARG002 - all is shown anyway
        """Return it for people."""
        return render(self.comparison)
