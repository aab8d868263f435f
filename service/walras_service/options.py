"""Options of the command line that the operator and the agent have alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from walras.resources.contract import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., object]")


class Address(click.ParamType[tuple[str, int] | None, str]):
    """Where to listen."""

    name = "address:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse ``address:port``; of ``off`` nothing is left."""
        if value == "off" or not isinstance(value, str):
            return None if value == "off" else value
        host, _, port = value.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is not an address and port such as 0.0.0.0:8080", param, ctx)
        return host.strip("[]"), int(port)


def listen_option(default: str, pages: str) -> Callable[[Command], Command]:
    """``--listen``: an address and port, or None.

    Args:
        default: Where to listen.
        pages: That are there, for people.
    """
    return click.option(
        "--listen",
        type=Address(),
        default=default,
        show_default=True,
        help=f"Where to answer {pages}; off for nowhere.",
    )


def namespace_option(meaning: str) -> Callable[[Command], Command]:
    """``--namespace``: of the process's pod, unless it is told another."""
    return click.option(
        "--namespace",
        envvar="POD_NAMESPACE",
        show_envvar=True,
        default=SYSTEM_NAMESPACE,
        show_default=True,
        help=meaning,
    )


kubeconfig_option = click.option(
    "--kubeconfig",
    envvar="KUBECONFIG",
    show_envvar=True,
    help="Where the API server is.  [default: as every pod is told]",
)

log_format_option = click.option(
    "--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True
)
