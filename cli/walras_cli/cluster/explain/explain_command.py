"""``walras explain``: one object to everything that is known about why it is as it is."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Literal

import click

from walras_cli.cluster.options import cluster_options, dump_option, form_option
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from walras_cli.cluster.options import Target
    from walras_cli.output import Form

Kind = Literal["job", "user", "node", "cluster"]


HELP: dict[str, str] = {
    "job": """
        Explain why a MarketJob has the cores it has.

        Shown are its budget, prices and the source of its speedup; the reason for each pod's
        grant, what it loses beside other programs, and its deadline; what one more core would cost
        and bring, and which pod could pay for it.

        \b
        Examples:
          walras explain job train -n vision
          walras explain job vision/train -o yaml
        """,
    "user": """
        Explain why a user has the cores and memory it has; NAME is that of its Entitlement.

        Shown are its place in the tree and what it is entitled to; what its jobs get; to whom it
        lends and from whom it borrows on each node; and what it would buy at other prices.

        \b
        Examples:
          walras explain user vision-lab
          walras explain user vision-lab -f cluster.yaml
        """,
    "node": """
        Explain who has the cores of a node.

        Shown are the cores it sells, and why no more; who holds them, on which CPUs; their price;
        and the state of its agent.

        \b
        Examples:
          walras explain node node-1
          walras explain node node-1 -o wide
        """,
    "cluster": """
        Explain what more nodes would bring; takes no NAME.

        Shown is for each node pool what one more node would bring, and to whom; how many nodes are
        worth their price; and how good predictions of jobs' ends were.

        \b
        Examples:
          walras explain cluster
          walras explain cluster -o json
        """,
}
"""Help on each kind of what can be explained."""


class ExplainCommand(click.Command):
    """A command that has a page of help for each kind, such as ``walras explain job --help``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember the kind for the help, which click shows before it takes arguments."""
        ctx.meta[__name__] = next((each for each in args if each in HELP), None)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return what follows the name of the command in the line of its usage."""
        kind = ctx.meta.get(__name__)
        if kind is None:
            return super().collect_usage_pieces(ctx)
        return [kind, "[OPTIONS]", *([] if kind == "cluster" else ["NAME"])]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help on the kind that is asked about, or on all."""
        kind = ctx.meta.get(__name__)
        text = self.help if kind is None else HELP[kind]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(cleandoc(text or ""))


@click.command(
    cls=ExplainCommand, short_help="Explain why a job, a user or a node has the cores it has."
)
@click.argument("kind", type=click.Choice(["job", "user", "node", "cluster"]))
@click.argument("name", required=False, metavar="NAME")
@cluster_options
@dump_option
@form_option
def explain(*, kind: Kind, name: str | None, target: Target, form: Form) -> None:
    """Explain why a job, a user or a node has the cores it has, and what would change that.

    \b
      job      a MarketJob: the reason for each pod's grant, and what one more core would bring
      user     an Entitlement: what it gets, to whom it lends and from whom it borrows
      node     a Node: the cores it sells, and who holds them
      cluster  all node pools (without a NAME): what one more node of each would bring

    `walras explain KIND --help` says what is shown of each.

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
