"""``walras what-if``: a cluster, and what changes it, to plans side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from walras.market.snapshot import ColocationRule, CoreMechanism, MemoryMechanism
from walras_cli.cluster.options import cluster_options
from walras_cli.options import Form, output_option
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from walras_cli.cluster.options import Target
    from walras_view.first_look import Shares


@click.command("what-if", short_help="Show who would get what under other rules, shares or jobs.")
@click.argument("more", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Documents that change the cluster, or describe one; - reads standard input.",
)
@click.option(
    "--from",
    "dumps",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Documents that describe the cluster, instead of a live one; -f changes it.",
)
@click.option(
    "--live", is_flag=True, help="Apply -f to the live cluster even if FILE contains Nodes."
)
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice([*get_args(CoreMechanism), "all"]),
    metavar="NAME",
    help=f"Mechanism for cores: {', '.join(get_args(CoreMechanism))}. Repeat it, or give all, to "
    "compare. [default: the Market's; all on a live cluster without -f]",
)
@click.option(
    "--memory",
    type=click.Choice(get_args(MemoryMechanism)),
    help="Mechanism for memory. [default: the Market's]",
)
@click.option(
    "--colocation",
    type=click.Choice(get_args(ColocationRule)),
    metavar="RULE",
    help=f"Colocation policy for waiting pods: {', '.join(get_args(ColocationRule))}. "
    "[default: the Market's]",
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Also show how cores would move if a user's parallel fractions were overestimated.",
)
@click.option(
    "--node-pools",
    is_flag=True,
    help="Also show what one more node of each pool would bring, and how many are worth it.",
)
@click.option(
    "--cores",
    type=click.IntRange(min=1, max=100_000),
    metavar="N",
    help="Put all jobs on one node with N cores and ignore Nodes and Pods.",
)
@click.option(
    "--users-by",
    metavar="WHAT",
    help="For a cluster without Walras: what a user is: namespace, kueue, label:KEY or "
    "annotation:KEY.  [default: namespace]",
)
@click.option(
    "--shares",
    type=click.Choice(["equal", "requests", "quota"]),
    help="For a cluster without Walras: the shares of users.  [default: equal]",
)
@click.option(
    "--speedups",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a cluster without Walras: parallel fractions, a line each, as vision/train: 0.93.",
)
@click.option(
    "--prometheus",
    metavar="URL",
    help="The Prometheus that has the use of pods.",
)
@click.option(
    "--requests",
    is_flag=True,
    help="Show what each workload should request, by what it uses and buys, as commands to paste.",
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
    node_pools: bool,
    cores: int | None,
    users_by: str | None,
    shares: Shares | None,
    speedups: Path | None,
    prometheus: str | None,
    requests: bool,
    target: Target,
    output: Form,
) -> None:
    """Show what the market would decide, without changing anything.

    Clears the market of the live cluster as the operator would, under all mechanisms, side by side.
    With -f, FILEs first change that cluster as kubectl apply would (for example other shares,
    another Market, or a new job and its pods), and the output shows each figure before and after.

    If a FILE contains a Node, or with --cores, the FILEs describe a whole cluster, and no live
    cluster is read. With --from, those files describe the cluster, and -f changes it. FILEs contain
    Entitlement, MarketJob, SpeedupProfile, Market, Node, Pod and Namespace documents, as kubectl
    prints them.

    The cluster need not have Walras: then its namespaces are the users, and the output compares
    what they would have with plain Kubernetes and with fixed quotas. Where speedups are unknown,
    figures are ranges.

    \b
    Examples:
      kubectl get nodes,pods,ns -A -o yaml | walras what-if -f -
      walras what-if
      walras what-if -f more-shares.yaml
      walras what-if -f more-shares.yaml -m all -o json
      kubectl get ent,mj,sp,mkt,nodes,pods,ns -A -o yaml > cluster.yaml
      walras what-if -f cluster.yaml -m all
      walras what-if --from cluster.yaml -f more-shares.yaml
      walras what-if -f cluster.yaml --sensitivity
      walras what-if -f cluster.yaml --node-pools
      walras what-if -f cluster.yaml --requests
      walras what-if -f examples/one-machine/market.yaml --cores 16

    Exit codes: 0 success, 1 the cluster cannot be read, 2 invalid input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    if live and (dumps or cores is not None):
        raise BadInput(
            "--live reads a cluster, and --from and --cores use documents; drop one of them"
        )
    from walras_cli.output import show
    from walras_cli.what_if.changes import ChangedCluster
    from walras_cli.what_if.comparison import Comparison, MechanismOptions
    from walras_cli.what_if.plan_tables import WhatIfPage
    from walras_cli.what_if.requests import of_comparison, of_first_look, with_prometheus
    from walras_cli.what_if.situation import WithoutMarketError

    if sensitivity and (len(mechanisms) > 1 or "all" in mechanisms):
        raise BadInput("--sensitivity needs one mechanism; give -m once, and not all")
    of_others = bool(mechanisms or memory or colocation or sensitivity or node_pools)
    about_users = bool(users_by or shares or speedups)
    try:
        source = ChangedCluster.of([*files, *more], dumps, cores, target, live=live)
    except WithoutMarketError as bare:
        if of_others or cores is not None:
            raise
        from walras_cli.what_if.first_look.look import first_look
        from walras_cli.what_if.first_look.page import FirstLookPage

        given = [str(each) for each in (*dumps, *files, *more)]
        use = with_prometheus(bare.use, prometheus)
        look = first_look(bare.documents, given, use, users_by, shares, speedups, prometheus)
        if requests:
            show(of_first_look(look, bare.documents, use), output)
        else:
            show(FirstLookPage(look), output)
        return
    if about_users:
        raise BadInput(
            "--users-by, --shares, --speedups are for clusters without MarketJobs, and this one "
            "has some; drop these options"
        )
    compare_all = source.whole_and_live and not sensitivity
    options = MechanismOptions(
        mechanisms or (("all",) if compare_all else ()),
        memory,
        colocation,
        sensitivity,
        node_pools,
    )
    use = with_prometheus(source.then.use, prometheus)
    source = replace(source, then=replace(source.then, use=use))
    comparison = Comparison.of(source, options)
    if requests:
        show(of_comparison(comparison, source.then.objects, use), output)
    else:
        show(WhatIfPage(comparison), output)
