"""Plans as tables for people: one in detail, several side by side, changes row by row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from walras.market.plan import format_bytes
from walras_cli.cluster.explain.render_pools import render_pools
from walras_cli.output import RULED_STYLE
from walras_view.text import decimal, own_and_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from walras.analysis.sensitivity import FractionSensitivity
    from walras.market.plan import Grant, Plan
    from walras_cli.what_if.comparison import Cleared, Comparison

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
        table.caption = f"and {len(rows) - MOST_ROWS} more; -o json has them all"
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


VISIBLE = 0.005
"""Half of the last digit that is printed: less than that is no change."""


def render_change(now: Cleared, then: Cleared) -> list[RenderableType]:
    """Return users, the jobs and nodes that are another's affair now, and the whole."""
    parts: list[RenderableType] = [_changed_users(now, then)]
    jobs, nodes = _changed_jobs(now, then), _changed_nodes(now, then)
    parts.append(jobs if jobs.row_count else Text("No job's cores would change.\n"))
    if nodes.row_count:
        parts.append(nodes)
    return [*parts, _changed_whole(now, then)]


def _changed_users(now: Cleared, then: Cleared) -> Table:
    before = {user.name: user for user in now.plan.users}
    after = {user.name: user for user in then.plan.users}
    rows = []
    for name in dict.fromkeys([*before, *after]):
        pair = before.get(name), after.get(name)
        rows.append(
            (
                name,
                *_pair(*(None if each is None else each.entitled_cores for each in pair), digits=2),
                *_pair(*(None if each is None else each.held_cores for each in pair), digits=2),
                *_pair(*(None if each is None else each.held_utility for each in pair), digits=3),
            )
        )
    columns = (
        "entitled\nnow", "\nthen", "", "cores\nnow", "\nthen", "", "utility\nnow", "\nthen", ""
    )  # fmt: skip
    return filled(new_table(f"Users under {then.plan.mechanism}", "user", columns), rows)


def _changed_jobs(now: Cleared, then: Cleared) -> Table:
    before = {_key(grant): grant for grant in now.plan.grants}
    after = {_key(grant): grant for grant in then.plan.grants}
    rows = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        some = old or new
        cores = None if old is None else old.cores, None if new is None else new.cores
        speedups = None if old is None else old.speedup, None if new is None else new.speedup
        if some is None or (_same(*cores) and _held(old) == _held(new)):
            continue
        rows.append(
            (
                some.title,
                some.node,
                *_pair(*cores, digits=2),
                _held(old),
                _held(new),
                *_pair(*speedups, digits=2),
            )
        )
    columns = (
        "node", "bought\nnow", "\nthen", "", "held\nnow", "\nthen", "speedup\nnow", "\nthen", ""
    )  # fmt: skip
    return filled(new_table("Jobs that change", "job", columns), rows)


def _changed_nodes(now: Cleared, then: Cleared) -> Table:
    before = {node.name: node for node in now.plan.nodes}
    after = {node.name: node for node in then.plan.nodes}
    rows = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        prices = None if old is None else old.price, None if new is None else new.price
        cores = [None if each is None else each.cores for each in (old, new)]
        if _same(*prices) and cores[0] == cores[1]:
            continue
        rows.append(
            (
                name,
                *("-" if each is None else f"{each:g}" for each in cores),
                *("-" if each is None else price(each) for each in prices),
            )
        )
    return filled(
        new_table("Nodes that change", "node", ("cores\nnow", "\nthen", "price\nnow", "\nthen")),
        rows,
    )


def _changed_whole(now: Cleared, then: Cleared) -> Table:
    rows = [(name, figure(now), figure(then)) for name, figure in FIGURES.items()]
    return filled(new_table("Whole cluster", "", ("now", "then")), rows)


def _pair(old: float | None, new: float | None, *, digits: int) -> tuple[str, str, str]:
    """Return a figure before and after a change, and the difference."""
    shown = tuple(decimal(each, digits) for each in (old, new))
    more = "" if _same(old, new) else f"{(new or 0.0) - (old or 0.0):+.{digits}f}"
    return shown[0], shown[1], more


def _same(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return abs(old - new) < VISIBLE


def _held(grant: Grant | None) -> str:
    return own_and_shared(None if grant is None else grant.held)


def _key(grant: Grant) -> tuple[str, str, str]:
    return grant.namespace, grant.name, grant.pod


_PADDING = 3  # around a cell: two blanks and a border


def render(of: Comparison) -> list[RenderableType]:
    """Return the plans as tables: one in detail, several side by side, changes row by row."""
    cleared, before = of.cleared, of.before
    first = cleared[0].plan
    parts: list[RenderableType] = []
    if before is not None:
        parts += render_change(before, cleared[0])
    if len(cleared) == 1 and before is None:
        parts += [_users(first), _nodes(cleared), *_jobs(first), _whole(cleared)]
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
            f"{user.entitled_cores:.2f}",
            f"{user.cores:.2f}",
            f"{user.held_cores:.2f}",
            f"{user.held_utility:.3f}",
            f"{user.entitlement_utility:.3f}",
            "-" if user.gain is None else f"{round(user.gain, 4) + 0.0:+.1%}",
        )
        for user in plan.users
    ]
    return filled(new_table(f"Users under {plan.mechanism}", "user", columns), rows)


def _cores_of_users(cleared: Sequence[Cleared]) -> RenderableType:
    rows = [
        (
            each[0].name,
            f"{each[0].entitled_cores:.2f}",
            *(f"{user.held_cores:.2f}" for user in each),
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
            f"{grant.cores:.2f}",
            own_and_shared(grant.held),
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
    columns = ("budget", "weights", "utility", "minimum", "charge", "served by")
    rows = [
        (
            f"{bid.namespace}/{bid.name}",
            f"{bid.budget:.2f}",
            ", ".join(f"{weight:.2f}" for weight in bid.weights),
            f"{bid.utility:.3f}",
            decimal(bid.minimum, 3),
            f"{bid.charge:.2f}",
            "its bid" if bid.prolific else "leftovers",
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
