"""Facts: a server on a port of this machine, from its socket to its end."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

import uvicorn

from walras_service.failures import Failure
from walras_service.listening import listening_socket

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens, on ``::`` by IPv4 too.

    Raises:
        Failure: The address cannot be used.
    """
    try:
        return listening_socket(host, port)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Failure(
            f"{host} port {port}: cannot listen: {why}; choose another with --port "
            f"(0 chooses a free one) or --listen"
        ) from error


def names_of(host: str) -> tuple[str, ...]:
    """Return the names by which a server on an address is known to browsers."""
    if ipaddress.ip_address(host).is_loopback:
        return ("127.0.0.1", "localhost", "[::1]")
    if ipaddress.ip_address(host).is_unspecified:
        return ("127.0.0.1", "localhost", "[::1]", socket.gethostname(), socket.getfqdn())
    return (f"[{host}]" if ":" in host else host,)


def serve(
    app: FastAPI, on: socket.socket, certificate: Path | None = None, key: Path | None = None
) -> None:
    """Serve until the process is interrupted; by HTTPS if there is a certificate."""
    server_of(app, certificate, key).run(sockets=[on])


def server_of(
    app: FastAPI, certificate: Path | None = None, key: Path | None = None
) -> uvicorn.Server:
    """Return a server that ends a second after it is told to, whatever is still open."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            lifespan="off",
            proxy_headers=False,
            ws="none",
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
    )
