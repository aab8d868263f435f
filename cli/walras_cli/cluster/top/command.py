"""``walras top``: objects to rows, rows to tables or documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from walras_cli.cluster.options import all_namespaces_option, cluster_options, form_option
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
@all_namespaces_option
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only those with these labels."
)
@click.option(
    "--sort-by",
    type=click.Choice(["name", "entitled", "granted", "used", "price", "utility"]),
    default="name",
    show_default=True,
    help="Largest first, but for names; what a table does not have sorts by name.",
)
@click.option("-w", "--watch", is_flag=True, help="Go on until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.5, max=3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="With --watch.",
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
      users  entitlements, as a tree: entitled, bought and used cores and memory, utility, credits
      jobs   cores of every pod, what they cost, the speedup that they bring
      nodes  cores for sale, sold and used, their price, and how the agent is
      all    the beginning of each (the default)

    Jobs are those of one namespace, or of all with -A. Use is known where the cluster has a metrics
    API. What you may not see is left out, and told of below.

    \b
    Examples:
      walras top
      walras top users --sort-by utility
      walras top jobs -n vision -o wide
      walras top nodes -l pool=batch --watch
      walras top jobs -A -o json

    Exit codes: 0 shown, 1 the cluster cannot be asked, 2 bad input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    if watch and form in {"json", "yaml"}:
        raise BadInput(f"--watch draws tables; without it, -o {form} is one document")
    if selector and what == "all":
        raise BadInput("-l selects labels of one kind; say which: walras top jobs -l ...")

    from walras_cli.cluster.asking import asked
    from walras_cli.cluster.top.page import TableOptions
    from walras_cli.output import show, watch_it

    with asked(target) as cluster:
        wish = TableOptions(what, "" if target.everywhere else cluster.namespace, selector, sort_by)
        if watch:
            watch_it(lambda: wish.page(cluster), form, interval)
        else:
            show(wish.page(cluster), form)
