"""``walras explain``: one object to everything that is known about why it is as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from walras_cli.cluster.options import cluster_options, form_option

if TYPE_CHECKING:
    from walras_cli.cluster.options import Target
    from walras_cli.output import Form

Kind = Literal["job", "user", "node"]


@click.command(short_help="Say why a job, a user or a node has what it has.")
@click.argument("kind", type=click.Choice(["job", "user", "node"]))
@click.argument("name")
@cluster_options
@form_option
def explain(*, kind: Kind, name: str, target: Target, form: Form) -> None:
    """Say why a job, a user or a node has what it has, and what would change that.

    \b
      job   a MarketJob: the operator's reason for every pod, budget and prices, where its speedup
            is from, what one more core would cost and bring, and who could pay for it
      user  an Entitlement: its place in the tree, what it gets, to whom it lends and from whom it
            borrows, node by node
      node  a Node: what it sells and why no more, who holds what, and how its agent is

    Where something is wrong, it says which object is to be changed, and how.

    \b
    Examples:
      walras explain job train -n vision
      walras explain user vision-lab
      walras explain node node-1 -o yaml

    Exit codes: 0 explained, 1 the cluster cannot be asked, 2 there is no such object.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from walras_cli.cluster.asking import asked
    from walras_cli.cluster.explain.pages import page_of
    from walras_cli.output import show

    with asked(target) as cluster:
        show(page_of(cluster, kind, name), form)
