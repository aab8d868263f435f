"""Options of the command line that all commands on a cluster have, called as kubectl calls them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

CHARTS_OPERATOR = 'namespace="walras-system",service="walras-operator"'
"""Labels that the chart's ServiceMonitor gives the operator's metrics."""

_CLUSTER = (
    click.option(
        "--kubeconfig",
        metavar="FILE",
        help="The kubeconfig file.  [default: KUBECONFIG, ~/.kube/config]",
    ),
    click.option(
        "--context", metavar="NAME", help="A context of that file.  [default: the current one]"
    ),
)


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster to connect to, and the namespace to show.

    Attributes:
        kubeconfig: Path of the kubeconfig; None for kubectl's, or in a pod its ServiceAccount.
        context: Context in the kubeconfig; None for the current one.
        namespace: Namespace to show; None for that of the context.
        everywhere: Whether to show all namespaces.
        files: Files that are read in place of a cluster.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    everywhere: bool = False
    files: tuple[Path, ...] = ()


def target_options(about_namespace: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds ``--kubeconfig``, ``--context`` and ``-n`` to a command.

    The command gets them as ``target``.

    Args:
        about_namespace: Help for ``-n``.
    """
    namespace_option = click.option("-n", "--namespace", metavar="NAME", help=about_namespace)

    def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_target(
            *arguments: Any,
            kubeconfig: str | None,
            context: str | None,
            namespace: str | None,
            all_namespaces: bool = False,
            dumps_to_read: tuple[Path, ...] = (),
            **others: Any,
        ) -> Any:
            everywhere = all_namespaces or bool(dumps_to_read and namespace is None)
            target = Target(kubeconfig, context, namespace, everywhere, dumps_to_read)
            return command(*arguments, target=target, **others)

        for option in reversed((*_CLUSTER, namespace_option)):
            with_target = option(with_target)
        return with_target

    return add_options


cluster_options = target_options("The namespace to show.  [default: that of the context]")


all_namespaces_option = click.option(
    "-A", "--all-namespaces", is_flag=True, help="Show all namespaces."
)

dump_option = click.option(
    "-f",
    "--filename",
    "dumps_to_read",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read FILE, the output of kubectl get, in place of a cluster; - is standard input.",
)

form_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format; wide adds columns.",
)
