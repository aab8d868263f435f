"""Pure: command-line options that the operator and the agent share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from walras_api.contract import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., object]")


class Address(click.ParamType[tuple[str, int] | None, str]):
    """A parameter type: an address and port, or ``off`` for None."""

    name = "address:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse ``address:port``; return None for ``off``."""
        if value == "off" or not isinstance(value, str):
            return None if value == "off" else value
        host, _, port = value.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not an address and port, such as 0.0.0.0:8080", param, ctx)
        return host.strip("[]"), int(port)


def listen_option(default: str, pages: str) -> Callable[[Command], Command]:
    """Return the option ``--listen``, whose value is an address and port, or None.

    Args:
        default: Default address and port.
        pages: Pages that are served, for the help text.
    """
    return click.option(
        "--listen",
        type=Address(),
        default=default,
        show_default=True,
        help=f"Address and port that serve {pages}; [::]:PORT for all addresses of IPv4 and IPv6, "
        "off to serve nothing.",
    )


def namespace_option(meaning: str) -> Callable[[Command], Command]:
    """Return the option ``--namespace``, which defaults to the namespace of the process's pod."""
    return click.option(
        "--namespace",
        envvar="POD_NAMESPACE",
        show_envvar=True,
        default=SYSTEM_NAMESPACE,
        show_default=True,
        help=meaning,
    )


tls_option = click.option(
    "--tls-folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder with tls.crt and tls.key; with it, --listen serves HTTPS.",
)

authorize_option = click.option(
    "--authorize",
    is_flag=True,
    help="Whether readers of all pages but probes must send a token of the cluster and have the "
    "right to get that path (a non-resource URL).",
)

kubeconfig_option = click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    show_envvar=True,
    help="Kubeconfig file.  [default: the pod's ServiceAccount]",
)

log_format_option = click.option(
    "--log-format",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="Format of the log.",
)
