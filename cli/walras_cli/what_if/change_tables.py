"""A change and what it does, row by row: tables of users, jobs and nodes before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from walras_cli.what_if.tables import FIGURES, filled, new_table, price
from walras_view.text import decimal, thousandths

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from walras.market.plan import Grant
    from walras_cli.what_if.comparison import Cleared


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
                *_pair(*(None if each is None else each.entitled for each in pair), digits=2),
                *_pair(*(None if each is None else each.held for each in pair), digits=2),
                *_pair(*(None if each is None else each.held_utility for each in pair), digits=3),
            )
        )
    columns = (
        "entitled\nnow", "\nthen", "", "held\nnow", "\nthen", "", "utility\nnow", "\nthen", ""
    )  # fmt: skip
    return filled(new_table(f"Users under {then.plan.mechanism}", "user", columns), rows)


def _changed_jobs(now: Cleared, then: Cleared) -> Table:
    before = {_key(grant): grant for grant in now.plan.grants}
    after = {_key(grant): grant for grant in then.plan.grants}
    rows = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        some = old or new
        cores = None if old is None else old.bought, None if new is None else new.bought
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
    return thousandths(None if grant is None else grant.held)


def _key(grant: Grant) -> tuple[str, str, str]:
    return grant.namespace, grant.name, grant.pod
