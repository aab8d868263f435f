"""The command ``walras-operator``."""

from __future__ import annotations

import socket
import uuid
from pathlib import Path  # noqa: TC003 - an annotation of a command
from typing import Literal

import click

from walras_api.contract import OPERATOR
from walras_operator.interpreter.allocator_arenas import limit_arenas
from walras_operator.ledger_command import ledger
from walras_operator.lifecycle.commands import check, crds, release
from walras_service.failures import BadInput
from walras_service.logs import configure_logging
from walras_service.options import (
    authorize_option,
    kubeconfig_option,
    listen_option,
    log_format_option,
    namespace_option,
    tls_option,
)

_NOISY = ("kopf.activities", "kopf._core.reactor.running")
"""Loggers that warn about what is intended."""


@click.group(name=OPERATOR, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="walras", prog_name=OPERATOR)
def main() -> None:
    """Divide the cores and memory of a cluster by its market."""


for each in (crds, release, check, ledger):
    main.add_command(each)


@main.command()
@namespace_option("Namespace of the Leases of the operator and of the agents.")
@click.option(
    "--lease-name",
    default=OPERATOR,
    show_default=True,
    help="Name of the Lease that elects the leader.",
)
@click.option(
    "--lease-seconds",
    type=click.IntRange(min=3, max=3600),
    default=15,
    show_default=True,
    help="Seconds without a renewal of the Lease after which another operator takes over.",
)
@kubeconfig_option
@click.option(
    "--debounce",
    type=(click.FloatRange(min=0, max=60), click.FloatRange(min=0, max=60)),
    default=(0.2, 1.0),
    show_default=True,
    metavar="QUIET LONGEST",
    help="Seconds to wait after the last change, and at most after the first, before deciding.",
)
@listen_option("127.0.0.1:8080", "/metrics, /healthz and /readyz")
@tls_option
@authorize_option
@log_format_option
@click.option("--verbose", is_flag=True, help="Log debug messages.")
def run(
    namespace: str,
    lease_name: str,
    lease_seconds: int,
    kubeconfig: str | None,
    debounce: tuple[float, float],
    listen: tuple[str, int] | None,
    tls_folder: Path | None,
    authorize: bool,
    log_format: Literal["json", "text"],
    *,
    verbose: bool,
) -> None:
    """Watch the cluster, clear its market, and publish a NodeAllocation for each node.

    One of several operators leads; the others stand by. The process waits for what it needs (the
    API server, its permissions, Walras's CustomResourceDefinitions) and logs what is missing. On
    SIGTERM or Ctrl-C it releases its Lease and exits; nodes keep their last plans.

    Exit codes: 0 when it was stopped, 1 when it cannot start, 2 when an option is wrong.
    """
    configure_logging("walras_operator", log_format, verbose=verbose, noisy=_NOISY)
    limit_arenas()
    # Not for those who ask for help: these load Kopf, the Kubernetes client and the market.
    from walras_operator.decide.decision import decide
    from walras_operator.lead.lease import Times
    from walras_operator.process import Operator, Options
    from walras_service.api_errors import ApiError

    options = Options(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        kubeconfig=kubeconfig,
        namespace=namespace,
        lease=lease_name,
        times=Times(lease_seconds, lease_seconds * 2 / 3, lease_seconds * 2 / 15),
        debounce=debounce,
        listen=listen,
        tls_folder=tls_folder,
        authorize=authorize,
    )
    try:
        operator = Operator(options, decide)
    except ApiError as error:
        raise BadInput(str(error)) from error
    with operator.listening():
        operator.run()
