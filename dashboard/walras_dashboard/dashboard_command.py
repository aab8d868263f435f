"""``walras dashboard``: options to a source, a source to a server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from walras_cli.cluster.options import CHARTS_OPERATOR, cluster_options
from walras_dashboard.log_links import logs_option
from walras_service.failures import BadInput

if TYPE_CHECKING:
    from walras_cli.cluster.options import Target
    from walras_dashboard.sources import Source
    from walras_dashboard.viewers import Record


@click.command("dashboard", short_help="Show the market in the browser.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Documents of a cluster to show instead of a live one, or the record of a local run.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Wait until the files of -f are there, and show them anew whenever they change.",
)
@cluster_options
@click.option("--prometheus", metavar="URL", help="Show the history that this Prometheus has.")
@click.option(
    "--prometheus-match",
    default=CHARTS_OPERATOR,
    show_default=True,
    metavar="LABELS",
    help="Label matchers that only the operator's metrics have in it.",
)
@click.option("--prometheus-token", metavar="FILE", help="File with a bearer token for Prometheus.")
@logs_option
@click.option(
    "--port",
    type=click.IntRange(min=0, max=65535),
    default=8765,
    show_default=True,
    help="Port of the page; 0 chooses a free one.",
)
@click.option(
    "--listen",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on. Others can then see the traffic, token included.",
)
def dashboard(
    *,
    files: tuple[Path, ...],
    follow: bool,
    target: Target,
    prometheus: str | None,
    prometheus_match: str,
    prometheus_token: str | None,
    logs: str,
    port: int,
    listen: str,
) -> None:
    """Show the market in the browser: prices, users, jobs and nodes, and try changes.

    Prints one URL and serves it until Ctrl-C. The URL has a token, so that no other user of this
    machine can open it. The page shows what your kubeconfig may see, follows the cluster as it
    changes, and writes nothing to it. With -f, it shows a cluster in files, as `walras what-if -f`
    reads them; for a cluster without Walras, it shows what Walras would change.

    History comes from Prometheus if you name it; otherwise from the operator, if you have the right
    to get ConfigMaps in its namespace; otherwise it begins when you start this command.

    \b
    Examples:
      walras dashboard
      walras dashboard --context production -n vision
      walras dashboard -f examples/what-if/cluster.yaml
      kubectl get ent,mj,sp,mkt,na,nodes,pods,ns -A -o yaml > cluster.yaml
      walras dashboard -f cluster.yaml

    Exit codes: 0 ended by Ctrl-C, 1 the port is in use or the cluster cannot be read, 2 invalid
    input.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from starlette.middleware import Middleware

    from walras_dashboard.access import LocalAccess, LocalGate
    from walras_dashboard.app import make_app
    from walras_dashboard.serving import bound, names_of, serve
    from walras_dashboard.viewers import OneViewer

    if follow and not files:
        raise BadInput(
            "--follow needs files; name them with -f, or drop it: a live cluster is always followed"
        )
    if files and prometheus:
        raise BadInput("--prometheus applies to a live cluster only; drop it, or drop -f")
    record = _from_prometheus(prometheus, prometheus_match, prometheus_token)
    source, of_operator = source_of(files, target, follow=follow)
    try:
        names = names_of(listen)
    except ValueError as error:
        raise BadInput(f"--listen {listen}: is not an IP address; write one such as ::1") from error
    with bound(listen, port) as on:
        chosen = int(on.getsockname()[1])
        access = LocalAccess.to(chosen, names)
        app = make_app(
            OneViewer(source, record or of_operator), [Middleware(LocalGate, access=access)], logs
        )
        click.echo(f"http://{names[0]}:{chosen}/?token={access.token}")
        click.echo("Open this URL in a browser; Ctrl-C ends.", err=True)
        serve(app, on)


def source_of(
    files: tuple[Path, ...], target: Target, *, follow: bool = False
) -> tuple[Source, Record | None]:
    """Return what to show, and the history that the operator of a live cluster keeps.

    Raises:
        BadInput: The files or the kubeconfig cannot be used.
    """
    if follow:
        from walras_dashboard.following import FollowedFiles

        return FollowedFiles(files), None
    if files:
        from walras_dashboard.dump import Dump

        return Dump.of(files), None
    from walras_cli.cluster.connection import connect
    from walras_cli.cluster.operator_history import HistoryReader
    from walras_dashboard.live import CONNECTIONS, Live

    cluster = connect(target, CONNECTIONS)
    return Live(cluster, target.namespace or ""), HistoryReader(cluster).read


def _from_prometheus(url: str | None, match: str, token_file: str | None) -> Record | None:
    """Return what reads the history from Prometheus, if that is wanted.

    Raises:
        BadInput: The URL or the file cannot be used.
    """
    if url is None:
        return None
    from walras_cli.cluster.prometheus import Prometheus, prometheus_history

    server = Prometheus.at(url, match, token_file)
    return lambda since, step: prometheus_history(server, since, step, int(time.time()))
