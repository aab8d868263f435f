"""``walras explain``: one object to everything that is known about why it is as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from walras_cli.cluster.options import cluster_options, dump_option, form_option
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from walras_cli.cluster.options import Target
    from walras_cli.output import Form

Kind = Literal["job", "user", "node", "cluster"]


@click.command(short_help="Explain why a job, a user or a node has the cores it has.")
@click.argument("kind", type=click.Choice(["job", "user", "node", "cluster"]))
@click.argument("name", required=False, metavar="NAME")
@cluster_options
@dump_option
@form_option
def explain(*, kind: Kind, name: str | None, target: Target, form: Form) -> None:
    """Explain why a job, a user or a node has the cores it has, and what would change that.

    \b
      job   a MarketJob: the reason for each pod's grant, the budget and prices, the source of its
            speedup, what it loses beside other programs, what one more core would cost and bring,
            and which pod could pay for it
      user  an Entitlement: its place in the tree, what it gets, to whom it lends and from whom it
            borrows on each node, and what it would buy at other prices
      node  a Node: the cores it sells, who holds them, and the state of its agent
      cluster  all node pools (without a NAME): what one more node of each would bring, and to
            whom; and how many nodes are worth their price

    If something is wrong, the output names the object to change and how to change it.

    \b
    Examples:
      walras explain job train -n vision
      walras explain user vision-lab
      walras explain node node-1 -o yaml
      walras explain cluster

    Exit codes: 0 success, 1 the cluster cannot be read, 2 the object does not exist.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from walras_cli.cluster.connection import connected
    from walras_cli.cluster.dumped import cluster_of
    from walras_cli.cluster.explain.pages import cluster_page_of, page_of
    from walras_cli.output import show

    if kind == "cluster":
        if name is not None:
            raise BadInput("walras explain cluster takes no NAME; drop it")
        with connected(target, cluster_of) as cluster:
            show(cluster_page_of(cluster), form)
        return
    if name is None:
        raise click.UsageError(f"name the {kind} to explain: walras explain {kind} NAME")
    with connected(target, cluster_of) as cluster:
        show(page_of(cluster, kind, name), form)
