"""``walras-dashboard``: the server in a cluster, which the chart starts."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from walras_dashboard.log_links import logs_option
from walras_service.failures import BadInput
from walras_service.listening import EVERYWHERE

if TYPE_CHECKING:
    from kubernetes.client import Configuration

    from walras_dashboard.in_cluster import ProxyIdentities, TokenIdentities

CA_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
LEAST_SECRET = 16


@click.command("walras-dashboard", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--listen",
    default=EVERYWHERE,
    show_default=True,
    help="IP address to listen on; :: for all addresses of IPv4 and IPv6.",
)
@click.option(
    "--port", type=click.IntRange(min=1, max=65535), default=8765, show_default=True, help="Port."
)
@click.option(
    "--probe-port",
    type=click.IntRange(min=1, max=65535),
    help="Port that answers probes alone, by HTTP. [default: none]",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path),
    default=CA_FILE,
    show_default=True,
    help="Certificate of the authority that signed the API server's certificate.",
)
@click.option(
    "--namespace",
    default="default",
    show_default=True,
    help="Namespace of viewers who may not list all jobs and have chosen none.",
)
@click.option(
    "--proxy-secret-file",
    type=click.Path(path_type=Path),
    help="Trust an authenticating proxy that sends the secret in this file as the header "
    "X-Walras-Proxy-Secret. Without it, each request needs a bearer token.",
)
@click.option(
    "--user-header",
    default="X-Forwarded-User",
    show_default=True,
    help="Header in which the proxy names the user.",
)
@click.option(
    "--groups-header",
    default="X-Forwarded-Groups",
    show_default=True,
    help="Header in which the proxy names the user's groups, separated by commas.",
)
@logs_option
@click.option("--tls-cert-file", type=click.Path(path_type=Path), help="Certificate for HTTPS.")
@click.option("--tls-key-file", type=click.Path(path_type=Path), help="Key of the certificate.")
def main(
    *,
    listen: str,
    port: int,
    probe_port: int | None,
    ca_file: Path,
    namespace: str,
    proxy_secret_file: Path | None,
    user_header: str,
    groups_header: str,
    logs: str,
    tls_cert_file: Path | None,
    tls_key_file: Path | None,
) -> None:
    """Serve the dashboard to the users of this cluster, each with their own rights.

    Each request is answered with the rights of its bearer token. With --proxy-secret-file, it is
    answered on behalf of the user whom an authenticating proxy names, by impersonation, which is
    all that the ServiceAccount may do then.
    """
    from starlette.middleware import Middleware

    from walras_dashboard.app import make_app
    from walras_dashboard.in_cluster import ClusterViewers, NamespaceGate, connections
    from walras_dashboard.serving import bound, serve

    identities = _identities(proxy_secret_file, user_header, groups_header)
    configuration = _configuration(ca_file, impersonates=proxy_secret_file is not None)
    viewers = ClusterViewers(identities, connections(configuration, namespace))
    app = make_app(viewers, [Middleware(NamespaceGate)], logs)
    with bound(listen, port) as on, ExitStack() as opened:
        probes = None if probe_port is None else opened.enter_context(bound(listen, probe_port))
        serve(app, on, tls_cert_file, tls_key_file, probes)


def _identities(
    secret_file: Path | None, user_header: str, groups_header: str
) -> TokenIdentities | ProxyIdentities:
    from walras_dashboard.in_cluster import ProxyIdentities, TokenIdentities

    if secret_file is None:
        return TokenIdentities()
    try:
        secret = secret_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadInput(f"{secret_file}: cannot be read: {error.strerror}") from error
    if len(secret) < LEAST_SECRET:
        raise BadInput(f"{secret_file}: is too short; write {LEAST_SECRET} characters or more")
    return ProxyIdentities(secret, user_header, groups_header)


def _configuration(ca_file: Path, *, impersonates: bool) -> Configuration:
    from kubernetes.client import Configuration

    from walras_service.api import settings

    if impersonates:
        return settings(None)
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise BadInput(
            "this is not a pod of a cluster (KUBERNETES_SERVICE_HOST is not set); on a machine of "
            "your own, use walras dashboard"
        )
    configuration = Configuration(host=f"https://{f'[{host}]' if ':' in host else host}:{port}")
    if not ca_file.is_file():
        raise BadInput(f"{ca_file}: does not exist; name the certificate authority by --ca-file")
    configuration.ssl_ca_cert = str(ca_file)
    return configuration
