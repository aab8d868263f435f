"""``walras top``: objects to rows, rows to tables or documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from walras_cli.cluster.options import (
    all_namespaces_option,
    cluster_options,
    dump_option,
    form_option,
)
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from walras_cli.cluster.options import Target
    from walras_cli.cluster.top.page import Sort, What
    from walras_cli.output import Form

_ALIASES: dict[str, str] = {
    "user": "users", "ent": "users", "entitlements": "users", "job": "jobs", "mj": "jobs",
    "marketjobs": "jobs", "node": "nodes", "no": "nodes",
}  # fmt: skip


class _What(click.Choice[str]):
    """The kind to show; kubectl's names are accepted, too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(_ALIASES.get(value, value), param, ctx))


@click.command(short_help="Show what users, jobs and nodes have, use and pay.")
@click.argument("what", type=_What(["all", "users", "jobs", "nodes"]), default="all")
@cluster_options
@dump_option
@all_namespaces_option
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Show only objects with these labels."
)
@click.option(
    "--sort-by",
    type=click.Choice(["name", "entitled", "held", "used", "price", "utility"]),
    default="name",
    show_default=True,
    help="Sort by this figure, largest first; tables without it are sorted by name.",
)
@click.option("-w", "--watch", is_flag=True, help="Keep updating until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.5, max=3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates with --watch.",
)
@form_option
def top(
    *,
    what: What,
    target: Target,
    selector: str,
    sort_by: Sort,
    watch: bool,
    interval: float,
    form: Form,
) -> None:
    """Show what users, jobs and nodes are entitled to, have, use and pay.

    \b
      users  the tree of entitlements: cores and memory entitled, granted and used; utility; credits
      jobs   the cores of each pod, their price, and the speedup they bring
      nodes  cores for sale, sold and used; their price; the state of the agent
      all    the first rows of each table (the default)

    Jobs are those of one namespace; -A shows all namespaces. "used" needs the metrics API, for
    example metrics-server. Notes below the tables list what you have no right to see.

    \b
    Examples:
      walras top
      walras top users --sort-by utility
      walras top jobs -n vision -o wide
      walras top nodes -l pool=batch --watch
      walras top jobs -A -o json

    Exit codes: 0 success, 1 the cluster cannot be read, 2 invalid input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    if watch and form in {"json", "yaml"}:
        raise BadInput(f"--watch prints tables only; drop --watch, or -o {form}")
    if selector and what == "all":
        raise BadInput(
            "-l applies to one kind of object; name it, for example: walras top jobs -l LABELS"
        )

    from walras_cli.cluster.connection import connected
    from walras_cli.cluster.dumped import cluster_of
    from walras_cli.cluster.top.page import TableOptions
    from walras_cli.output import show, watch_it

    with connected(target, cluster_of) as cluster:
        namespace = "" if target.everywhere else cluster.namespace
        options = TableOptions(what, namespace, selector, sort_by)
        if watch:
            watch_it(lambda: options.page(cluster), form, interval)
        else:
            show(options.page(cluster), form)
