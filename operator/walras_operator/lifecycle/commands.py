"""Effects: the commands ``crds``, ``release`` and ``check``, which the chart's Jobs run."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sys
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from walras_api.contract import OPERATOR
from walras_service.failures import BadInput, Failure
from walras_service.options import kubeconfig_option, namespace_option
from walras_service.signals import handling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from walras_operator.lifecycle.lease_takeover import LeaseTakeover
    from walras_operator.lifecycle.release import ReleaseProgress
    from walras_service.api import Api
    from walras_service.options import Command

_lease_option = click.option(
    "--lease-name", default=OPERATOR, show_default=True, help="Name of the operator's Lease."
)


def _timeout_option(seconds: int) -> Callable[[Command], Command]:
    return click.option(
        "--timeout",
        type=click.FloatRange(min=1),
        default=seconds,
        show_default=True,
        help="Seconds after which to give up.",
    )


class JsonObject(click.ParamType[dict[str, Any], str]):
    """Type of an option whose value is a JSON object."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a JSON object."""
        try:
            parsed = json.loads(value)
        except ValueError as error:
            self.fail(f"is not JSON: {error}", param, ctx)
        if not isinstance(parsed, dict):
            self.fail("is not a JSON object, such as {}", param, ctx)
        return parsed


@click.command()
@click.option("--print", "printed", is_flag=True, help="Print the definitions as YAML and exit.")
@click.option(
    "--definitions/--no-definitions",
    default=True,
    help="Install the definitions; --no-definitions leaves them as they are.",
)
@click.option(
    "--market", type=JsonObject(), help="Also create or update the Market `default` with this spec."
)
@_timeout_option(60)
@kubeconfig_option
def crds(
    kubeconfig: str | None,
    timeout: float,
    market: dict[str, Any] | None,
    *,
    printed: bool,
    definitions: bool,
) -> None:
    """Install or upgrade Walras's CustomResourceDefinitions.

    Objects stay as they are. The command refuses to downgrade a cluster that has stored objects of
    a later version. With --market, it creates the Market `default` if there is none, and the Market
    only observes unless the spec has another mode. If the Market exists and was created this way,
    the command writes only the fields of the given spec that have changed since, and keeps changes
    made by hand. A spec without a mode never changes the mode.
    """
    from walras_operator.lifecycle import default_market
    from walras_operator.lifecycle.definitions import DOCUMENTS
    from walras_operator.lifecycle.requests import retry_transient

    if printed:
        import yaml

        click.echo(yaml.safe_dump_all(DOCUMENTS, sort_keys=False, width=100), nl=False)
        return
    until = time.monotonic() + timeout
    with _errors_explained():
        api = _api(kubeconfig)
        if definitions:
            _install(api, until)
        if market is not None:
            outcome = retry_transient(
                until, lambda: default_market.apply(api, market, until), click.echo
            )
            _print_outcome("market default", outcome)


@click.command()
@namespace_option("Namespace of the Leases of the operator and of the agents.")
@_lease_option
@click.option(
    "--release-after",
    type=click.FloatRange(min=1, max=3600),
    default=30.0,
    show_default=True,
    help="Seconds; the agents' value of the option of the same name.",
)
@click.option(
    "--state-folder",
    default="/var/lib/walras-agent",
    show_default=True,
    help="The agents' value of the option of the same name; printed for nodes to restore by hand.",
)
@_timeout_option(240)
@kubeconfig_option
def release(
    namespace: str,
    lease_name: str,
    release_after: float,
    state_folder: str,
    timeout: float,
    kubeconfig: str | None,
) -> None:
    """Restore every node to its state before Walras, so that Walras can be removed.

    Operators stand by meanwhile, and for half a minute afterwards. The command lists nodes whose
    agent is gone, and how to restore them by hand. Entitlements, MarketJobs and the Market stay.

    Exit codes: 0 when all nodes with an agent are restored, 1 when some are not in time. Operators
    lead again in that case, and nodes get their grants back.
    """
    from walras_operator.lead.lease_object import LeaseObject
    from walras_operator.lifecycle.lease_takeover import LeaseTakeover
    from walras_operator.lifecycle.release import SETTLING, THREADS, Release

    waiting = timeout - release_after - SETTLING
    if waiting <= 0:
        raise BadInput(
            f"--timeout {timeout:g} is too short; it must be more than "
            f"{release_after + SETTLING:g}, which is --release-after plus {SETTLING:g} seconds"
        )
    with handling(_exit_on_signal, signal.SIGTERM), _errors_explained():
        api = _api(kubeconfig, THREADS)
        identity = f"release_{socket.gethostname()}_{uuid.uuid4()}"
        takeover = LeaseTakeover(LeaseObject(api, namespace, lease_name), identity)
        with _giving_back_on_failure(takeover):
            end = Release(api, takeover, namespace, click.echo)
            progress = end.run(time.monotonic() + waiting, release_after)
    _print_progress(progress, state_folder)


@click.command()
@namespace_option("Namespace of the Leases of the operator and of the agents.")
@_lease_option
@click.option(
    "--nodes",
    default="kubernetes.io/os=linux",
    show_default=True,
    metavar="SELECTOR",
    help="Label selector of the nodes that must have an agent.",
)
@_timeout_option(90)
@kubeconfig_option
def check(
    namespace: str, lease_name: str, nodes: str, timeout: float, kubeconfig: str | None
) -> None:
    """Check that an operator leads, the definitions exist, and agents can write on their nodes.

    Every selected node that is neither cordoned nor off must have an agent. The command observes
    that Leases are renewed, which takes some 15 seconds.

    Exit codes: 0 when nothing is missing, 1 when something is, with a line about each.
    """
    from walras_operator.lifecycle.check import Check

    with _errors_explained():
        checks = Check(_api(kubeconfig), namespace, lease_name, nodes, click.echo)
        missing = checks.run(time.monotonic() + timeout)
    if missing:
        raise Failure(*missing)
    click.echo(
        "an operator leads, all definitions are established, and every node has a live agent that "
        "may write"
    )


def _install(api: Api, until: float) -> None:
    from walras_operator.lifecycle import definitions
    from walras_operator.lifecycle.requests import retry_transient

    retry_transient(until, lambda: definitions.refuse_downgrade(api), click.echo)
    for document in definitions.DOCUMENTS:
        outcome = retry_transient(until, partial(definitions.apply, api, document), click.echo)
        _print_outcome(document["metadata"]["name"], outcome)
    while lines := retry_transient(until, lambda: definitions.unestablished(api), click.echo):
        if time.monotonic() >= until:
            raise Failure(*lines)
        time.sleep(0.5)


def _print_outcome(name: str, outcome: str) -> None:
    click.echo(f"{name:<30} {outcome}")


def _print_progress(progress: ReleaseProgress, state_folder: str) -> None:
    click.echo(f"released: {len(progress.restored)} nodes are restored")
    if not progress.lost:
        return
    click.echo(f"NOT restored: {len(progress.lost)} nodes")
    for node, reason in sorted(progress.lost.items()):
        click.echo(f"  {node}: {reason}")
    click.echo(
        f"On each of these nodes, run `walras-agent restore --state-folder {state_folder}` as "
        'root, run the commands under "By hand", or reboot the node; docs/agent.md, "How to undo '
        'it", says how.'
    )


@contextlib.contextmanager
def _giving_back_on_failure(takeover: LeaseTakeover) -> Iterator[None]:
    from walras_service.api_errors import ApiError

    try:
        yield
    except BaseException:
        with contextlib.suppress(ApiError):
            takeover.give_back()
        raise


@contextlib.contextmanager
def _errors_explained() -> Iterator[None]:
    """Turn exceptions into error messages and exit codes."""
    from walras_operator.lifecycle.definitions import DowngradeError
    from walras_operator.lifecycle.release import NotReleasedError
    from walras_service.api_errors import ApiError

    try:
        yield
    except NotReleasedError as error:
        head = (
            "not all nodes are restored in time, and operators lead again; allow more time: by "
            "--timeout of this command, or by hooks.releaseSeconds of the chart (helm upgrade, "
            "then helm uninstall with a longer --timeout)"
        )
        raise Failure(head, *str(error).splitlines()) from error
    except (ApiError, DowngradeError) as error:
        raise Failure(*str(error).splitlines()) from error


def _api(kubeconfig: str | None, connections: int = 2) -> Api:
    from walras_service.api import Api, settings

    return Api(settings(kubeconfig), OPERATOR, connections)


def _exit_on_signal(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
