"""``walras what-if``: a cluster, and what changes it, to plans side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from walras.snapshot import ColocationRule, CoreMechanism, MemoryMechanism
from walras_cli.cluster.options import cluster_options
from walras_cli.options import Form, output_option
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from walras_cli.cluster.options import Target


@click.command(
    "what-if", short_help="Say who would get what of a cluster, live or not, under other rules."
)
@click.argument("more", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Documents that change the cluster, or are one; - for standard input.",
)
@click.option(
    "--from",
    "dumps",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Documents that are the cluster, in place of a live one; -f changes it.",
)
@click.option("--live", is_flag=True, help="-f changes the live cluster, also its Nodes.")
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice([*get_args(CoreMechanism), "all"]),
    metavar="NAME",
    help=f"Divides cores: {', '.join(get_args(CoreMechanism))}; several, or all, to compare. "
    "[default: what the Market says; all of a live cluster without -f]",
)
@click.option(
    "--memory",
    type=click.Choice(get_args(MemoryMechanism)),
    help="Divides memory. [default: what the Market says]",
)
@click.option(
    "--colocation",
    type=click.Choice(get_args(ColocationRule)),
    metavar="RULE",
    help=f"Places waiting pods in pairs: {', '.join(get_args(ColocationRule))}. "
    "[default: what the Market says]",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Also say what would move if a user's parallel fractions were over-estimated.",
)
@click.option(
    "--cores",
    type=click.IntRange(min=1, max=100_000),
    metavar="N",
    help="Put all jobs on one node of N cores, in place of Nodes and Pods.",
)
@cluster_options
@output_option()
def what_if(
    *,
    more: tuple[Path, ...],
    files: tuple[Path, ...],
    dumps: tuple[Path, ...],
    live: bool,
    mechanisms: tuple[CoreMechanism | Literal["all"], ...],
    memory: MemoryMechanism | None,
    colocation: ColocationRule | None,
    sensitivity: bool,
    cores: int | None,
    target: Target,
    output: Form,
) -> None:
    """Say what the market would decide, without touching anything.

    Clears the market as the operator would, of the cluster as it is now: under all mechanisms, side
    by side. With -f, FILEs change that cluster first, as kubectl apply would (an Entitlement with
    other shares, another Market, a job and its pods), and what is now stands beside what would be.

    FILEs that have a Node among them are a cluster of their own, and no other is asked; so are
    those of --from, which -f then changes, and those of --cores. They are Entitlement, MarketJob,
    SpeedupProfile, Market, Node, Pod and Namespace documents, as kubectl prints them.

    \b
    Examples:
      walras what-if
      walras what-if -f more-shares.yaml
      walras what-if -f more-shares.yaml -m all -o json
      kubectl get ent,mj,sp,mkt,nodes,pods,ns -A -o yaml > cluster.yaml
      walras what-if -f cluster.yaml -m all
      walras what-if --from cluster.yaml -f more-shares.yaml
      walras what-if -f cluster.yaml --sensitivity
      walras what-if -f examples/one-machine/market.yaml --cores 16

    Exit codes: 0 cleared, 1 the cluster cannot be asked, 2 bad input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    if live and (dumps or cores is not None):
        raise BadInput(
            "--live is about a cluster, and --from and --cores about documents; drop one"
        )
    from walras_cli.output import show
    from walras_cli.what_if.page import WhatIfPage
    from walras_cli.what_if.plans import MechanismOptions
    from walras_cli.what_if.sources import Source

    if sensitivity and (len(mechanisms) > 1 or "all" in mechanisms):
        raise BadInput("--sensitivity is about one mechanism; give -m once, and not all")
    source = Source.of([*files, *more], dumps, cores, target, live=live)
    compare_all = source.whole_and_live and not sensitivity
    wish = MechanismOptions(
        mechanisms or (("all",) if compare_all else ()), memory, colocation, sensitivity
    )
    show(WhatIfPage.of(source, wish), output)
