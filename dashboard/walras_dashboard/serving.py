"""Facts: a server on a port of this machine, from its socket to its end.

A connection that sends no whole head of a request in time is closed. Probes have a port and a
thread of their own, so that no number of viewers makes a server seem dead that works; they fail
once the loop that answers viewers stands still.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from walras_service.failures import Failure
from walras_service.listening import listening_socket

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI


HEAD_SECONDS = 10.0
"""Time within which the head of a request has to come."""

STILL_SECONDS = 10.0
"""Time without a sign of life of the loop after which probes fail."""


class TimedProtocol(H11Protocol):
    """Connections that are closed unless the heads of requests come in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, and wait no longer once its head is whole."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """A server that says whether its loop works.

    Attributes:
        ticked: When the loop last gave a sign of life, by `time.monotonic`.
    """

    ticked = 0.0

    async def on_tick(self, counter: int) -> bool:
        """Give a sign of life, ten times a second."""
        self.ticked = time.monotonic()
        return await super().on_tick(counter)

    @property
    def lives(self) -> bool:
        """Whether the loop works."""
        return time.monotonic() - self.ticked < STILL_SECONDS


@contextmanager
def probes_answered(server: Server, on: socket.socket) -> Iterator[None]:
    """Answer every connection to a socket by whether the server lives, until the block is left."""

    def answer() -> None:
        while True:
            try:
                connection, _ = on.accept()
            except OSError:  # it was shut down
                return
            with connection, suppress(OSError):
                connection.settimeout(1.0)
                connection.recv(4096)
                status, text = ("200 OK", "ok\n") if server.lives else ("503 Stands Still", "")
                head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close"
                connection.sendall(f"{head}\r\n\r\n{text}".encode())

    thread = threading.Thread(target=answer, name="probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        on.shutdown(socket.SHUT_RDWR)  # closing it would not end the wait for a connection
        thread.join()


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
    app: FastAPI,
    on: socket.socket,
    certificate: Path | None = None,
    key: Path | None = None,
    probes: socket.socket | None = None,
) -> None:
    """Serve until the process is interrupted; by HTTPS if there is a certificate.

    Args:
        app: The application.
        on: Socket of viewers.
        certificate: File of the certificate.
        key: File of its key.
        probes: Socket of probes, by HTTP; None for none.
    """
    server = server_of(app, certificate, key)
    with nullcontext() if probes is None else probes_answered(server, probes):
        server.run(sockets=[on])


def server_of(app: FastAPI, certificate: Path | None = None, key: Path | None = None) -> Server:
    """Return a server that ends a second after it is told to, whatever is still open."""
    return Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            lifespan="off",
            proxy_headers=False,
            ws="none",
            http=TimedProtocol,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
    )
