"""``walras pause`` and ``walras resume``: what a person on call does first, and takes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from walras_cli.cluster.options import cluster_options, form_option
from walras_service.failures import Failure

if TYPE_CHECKING:
    from walras_cli.cluster.options import Target
    from walras_cli.output import Form

_nodes_option = click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="Only this node; may be given several times.  [default: all nodes, and the Market]",
)


@click.command(short_help="Freeze every grant where it is.")
@_nodes_option
@cluster_options
@form_option
def pause(*, nodes: tuple[str, ...], target: Target, form: Form) -> None:
    """Freeze every grant where it is, until walras resume.

    Pods keep the cores and the memory that they hold, and agents keep enforcing that; nothing is
    measured. Pods that start meanwhile get no grant: they have what they requested, as pods outside
    the market. The command works without an operator, and holds one off that comes back: the API
    server refuses every later plan of a node that is paused.

    To take Walras's hands off the nodes altogether, set spec.mode of the Market to observe instead,
    which restores what the agents have changed (docs/runbook.md).

    It needs the ClusterRole walras-pause of the chart.

    \b
    Examples:
      walras pause
      walras pause --node gpu-7 --node gpu-8
      walras pause -o json

    Exit codes: 0 all is paused, 1 the cluster cannot be reached, or a node could not be changed,
    2 invalid input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    _run(target, nodes, form, paused=True)


@click.command(short_help="Let grants change again after walras pause.")
@_nodes_option
@cluster_options
@form_option
def resume(*, nodes: tuple[str, ...], target: Target, form: Form) -> None:
    """Let grants change again after walras pause.

    The operator decides anew, with the pods that are there now. Without an operator, grants stay as
    they are until one is back.

    \b
    Examples:
      walras resume
      walras resume --node gpu-7

    Exit codes: 0 all goes on, 1 the cluster cannot be reached, or a node could not be changed,
    2 invalid input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    _run(target, nodes, form, paused=False)


def _run(target: Target, nodes: tuple[str, ...], form: Form, *, paused: bool) -> None:
    from walras_cli.cluster.connection import connected
    from walras_cli.cluster.pause.pausing import set_paused
    from walras_cli.output import show

    with connected(target) as cluster:
        outcome = set_paused(cluster, paused=paused, nodes=frozenset(nodes))
    show(outcome, form)
    if outcome.failed:
        raise Failure(f"{len(outcome.failed)} of {len(outcome.nodes)} nodes could not be changed")
