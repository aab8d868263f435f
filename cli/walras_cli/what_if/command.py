"""``walras what-if``: files to objects, objects to plans, plans to a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from walras.snapshot import ColocationRule, CoreMechanism, MemoryMechanism
from walras_cli.errors import BadInput
from walras_cli.options import Form, output_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras.resources.assembly import Assembled, Objects
    from walras.snapshot import Policy
    from walras_cli.what_if.report import Cleared

NODE = "localhost"
"""The name of the one node that --cores stands for."""


@click.command("what-if", short_help="Clear a cluster's documents and print who would get what.")
@click.argument("more", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Documents, as `kubectl get -o yaml` prints them; - for standard input.",
)
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice([*get_args(CoreMechanism), "all"]),
    metavar="NAME",
    help=f"Divides cores: {', '.join(get_args(CoreMechanism))}; several, or all, to compare. "
    "[default: what the Market says]",
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
    "--cores",
    type=click.IntRange(min=1, max=100_000),
    metavar="N",
    help="Put all jobs on one node of N cores, in place of Nodes and Pods.",
)
@output_option()
def what_if(
    *,
    more: tuple[Path, ...],
    files: tuple[Path, ...],
    mechanisms: tuple[CoreMechanism | Literal["all"], ...],
    memory: MemoryMechanism | None,
    colocation: ColocationRule | None,
    cores: int | None,
    output: Form,
) -> None:
    """Say what the market would decide, without touching anything.

    Reads Entitlement, MarketJob, SpeedupProfile, Market, Node, Pod and Namespace documents, clears
    the market as the operator would, and prints who would get what, at which price, and why. With
    several mechanisms they stand side by side.

    \b
    Examples:
      kubectl get ent,mj,sp,mkt,nodes,pods,ns -A -o yaml | walras what-if -f -
      walras what-if -f cluster.yaml -m all
      walras what-if -f cluster.yaml -m AmdahlBidding -m ProportionalSharing -o json
      walras what-if -f examples/one-machine/market.yaml --cores 16

    Exit codes: 0 cleared, 2 bad input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    if not (files or more):
        raise BadInput("no FILE given; name one with -f, or - for standard input")
    objects = _read([*files, *more])
    assembled = _assemble(objects, cores, [*files, *more])
    policies = _policies(objects, mechanisms, memory, colocation)
    _report(_clear(assembled, policies), assembled.notes, output)


def _read(files: Sequence[Path]) -> Objects:
    """Sort the documents of the files by kind."""
    from walras.resources import assembly, cluster, kinds
    from walras.resources.parse import parse_object
    from walras_cli.documents import InputError, read

    try:
        found = [each.resource for each in read(files, parse_object)]
    except InputError as error:
        raise BadInput(*error.problems) from error
    markets = [each for each in found if isinstance(each, kinds.Market)]
    rules = [market.spec for market in markets if market.metadata.name == "default"]
    if markets and not rules:
        raise BadInput(f"Market {markets[0].metadata.name}: only one named default is used")
    return assembly.Objects(
        entitlements=[each for each in found if isinstance(each, kinds.Entitlement)],
        jobs=[each for each in found if isinstance(each, kinds.MarketJob)],
        profiles=[each for each in found if isinstance(each, kinds.SpeedupProfile)],
        nodes=[each for each in found if isinstance(each, cluster.Node)],
        pods=[each for each in found if isinstance(each, cluster.Pod)],
        namespaces=[each for each in found if isinstance(each, cluster.Namespace)],
        rules=rules[0] if rules else kinds.MarketSpec(),
    )


def _assemble(objects: Objects, cores: int | None, files: Sequence[Path]) -> Assembled:
    from walras.admission import EntitlementError, check_tree
    from walras.resources.assembly import assemble, assemble_on_one_node

    names = ", ".join(map(str, files))
    if not objects.jobs:
        raise BadInput(f"{names}: no MarketJob in it; add what should be divided cores")
    if not objects.nodes and cores is None:
        raise BadInput(
            f"{names}: no Node in it; add `kubectl get nodes,pods -A -o yaml`, "
            f"or say --cores N to put all jobs on one node"
        )
    try:
        made = assemble(objects) if cores is None else assemble_on_one_node(objects, NODE, cores)
        check_tree(made.snapshot.entitlements)
    except EntitlementError as error:
        raise BadInput(f"{names}: Entitlement {error.entitlement}: {error}") from error
    except ValueError as error:
        raise BadInput(f"{names}: {error}") from error
    return made


def _policies(
    objects: Objects,
    mechanisms: Sequence[CoreMechanism | Literal["all"]],
    memory: MemoryMechanism | None,
    colocation: ColocationRule | None,
) -> list[Policy]:
    """Return the rules of the Market with each mechanism that was asked for."""
    from dataclasses import replace

    from walras.resources.assembly import policy_of

    policy = policy_of(objects.rules)
    policy = replace(
        policy, memory=memory or policy.memory, colocation=colocation or policy.colocation
    )
    wanted: list[CoreMechanism] = []
    for each in mechanisms or (policy.cores,):
        wanted += get_args(CoreMechanism) if each == "all" else [each]
    return [replace(policy, cores=mechanism) for mechanism in dict.fromkeys(wanted)]


def _clear(assembled: Assembled, policies: Sequence[Policy]) -> list[Cleared]:
    """Clear the market by each policy; where one of several cannot, say so and go on."""
    from walras.clearing import clear
    from walras.pricing import PricingError
    from walras.scores import score
    from walras_cli.what_if.report import Cleared

    cleared = []
    for policy in policies:
        try:
            plan = clear(assembled.snapshot, policy)
        except PricingError as error:
            problem = f"mechanism {policy.cores}: {error}"
            if len(policies) == 1:
                raise BadInput(problem) from error
            click.echo(f"walras: {problem}", err=True)
            continue
        cleared.append(Cleared(plan, score(assembled.snapshot, plan)))
    return cleared


def _report(cleared: Sequence[Cleared], notes: Sequence[str], output: str) -> None:
    from walras_cli.what_if.report import document, render

    if output == "table":
        from rich.console import Console

        Console().print(render(cleared, notes))
    elif output == "json":
        click.echo(json.dumps(document(cleared, notes), indent=2, ensure_ascii=False))
    else:
        import yaml

        text = yaml.safe_dump(document(cleared, notes), sort_keys=False, allow_unicode=True)
        click.echo(text, nl=False)
