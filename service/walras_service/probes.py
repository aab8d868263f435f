"""Effects: an HTTP server for the metrics and the probes of a process.

With a certificate, all pages are served by TLS. With an authorization, only probes are open to
everybody. Whoever can reach the port costs little: connections are few, of each request little is
read and not for long, and metrics are made once a second at most, however many read them.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from math import inf
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client.exposition import choose_encoder

from walras_service.failures import BadInput
from walras_service.listening import listening_socket, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from socket import socket

    from prometheus_client import CollectorRegistry

_log = logging.getLogger(__name__)


PROBES = frozenset({"/healthz", "/readyz"})
"""Pages that everybody may read."""

TIMEOUT = 10
"""Seconds in which a request must be there, with a TLS handshake before it, and those in which its
response must be taken."""

MOST_CONNECTIONS = 16
"""Most connections at a time; one more ends the oldest of the address that has most of them."""

LARGEST_HEAD = 16 << 10
"""Most bytes of a request's line and headers; a token is a few kilobytes."""

_KEPT = 1.0  # seconds for which the text of the metrics is not made anew

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_TOO_LARGE = b"HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n"


class Answer(NamedTuple):
    """Response of a page: status code, body, and content type."""

    code: HTTPStatus
    body: str
    kind: str = "text/plain; charset=utf-8"


def verdict(problems: Sequence[str], well: str = "ok") -> Answer:
    """Return the response to a probe: 503 and the problems, or 200 if there are none."""
    code = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
    return Answer(code, "".join(f"{line}\n" for line in problems or [well]))


@contextmanager
def serve(
    address: tuple[str, int],
    pages: Mapping[str, Callable[[], Answer]],
    registry: CollectorRegistry,
    *,
    tls_folder: Path | None = None,
    review: Callable[[str, str], HTTPStatus] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Serve in threads until the block is left.

    Args:
        address: Address and port to listen on, by IPv4 or IPv6; ``::`` for all addresses of both,
            and port 0 for any free port.
        pages: Pages besides ``/metrics``, by path.
        registry: Registry of the metrics.
        tls_folder: Folder with ``tls.crt`` and ``tls.key``, as of a mounted Secret of type
            kubernetes.io/tls; None for HTTP. It is read again when it changes.
        review: Returns the status of a request from its header ``Authorization`` and its path, 200
            to allow it; None to allow all. Probes are always allowed.
        clock: Returns seconds, monotonic.

    Raises:
        BadInput: The address is not available, or the certificate cannot be used.
    """
    certificate = None if tls_folder is None else _Certificate(tls_folder)
    try:
        server = _Server(address, pages, _Metrics(registry, clock), certificate, review)
    except OSError as error:
        raise BadInput(
            f"{written(*address)}: {error.strerror}; choose another address with --listen"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="http", daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    scheme = "http" if certificate is None else "https"
    where = written(str(host), port)
    _log.info("listening on %s://%s", scheme, where, extra={"event": "listening"})
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    """Server whose connections have their TLS handshake in their own thread."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        pages: Mapping[str, Callable[[], Answer]],
        metrics: _Metrics,
        certificate: _Certificate | None,
        review: Callable[[str, str], HTTPStatus] | None,
    ) -> None:
        self.pages, self.metrics = pages, metrics
        self._certificate, self._review = certificate, review
        self._connections: dict[socket, str] = {}  # the oldest first, with the client's address
        self._lock = threading.Lock()
        super().__init__(address, _Handler, bind_and_activate=False)
        self.socket.close()  # it is of IPv4
        self.socket = listening_socket(*address, MOST_CONNECTIONS)
        self.server_address = self.socket.getsockname()

    def get_request(self) -> tuple[socket, Any]:
        connection, client = super().get_request()
        if self._certificate is None:
            return connection, client
        connection.settimeout(TIMEOUT)
        return self._certificate.wrap(connection), client

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; if there are too many, end one of whoever has most."""
        with self._lock:
            self._connections[request] = client_address[0]
            if len(self._connections) > MOST_CONNECTIONS:
                ((greediest, _),) = Counter(self._connections.values()).most_common(1)
                ended = next(each for each, by in self._connections.items() if by == greediest)
                del self._connections[ended]
                with suppress(OSError):
                    ended.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection, and close it."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Log nothing: anybody may break a connection off."""

    def refusal(self, path: str, authorization: str) -> HTTPStatus | None:
        """Return the status with which to refuse a request; None to answer it."""
        if self._review is None or path in PROBES:
            return None
        status = self._review(authorization, path)
        return None if status == HTTPStatus.OK else status


class _Metrics:
    """The text of a registry's metrics, made at most once in `_KEPT` seconds."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry, self._clock = registry, clock
        self._encode, self.kind = choose_encoder("")  # one format, which all readers know
        self._lock = threading.Lock()
        self._text, self._until = b"", -inf

    def text(self) -> bytes:
        """Return the metrics of now, or of a moment ago."""
        with self._lock:
            if self._clock() >= self._until:
                self._text = self._encode(self._registry)
                self._until = self._clock() + _KEPT
            return self._text


class _Handler(BaseHTTPRequestHandler):
    """Handler of one connection, which has one request without a body."""

    server: _Server
    connection: socket

    def handle(self) -> None:
        """Answer a request whose head comes in time and is not too large.

        `http.server` reads 100 headers of 64 KiB each, and waits for each of their lines.
        """
        head, until = b"", time.monotonic() + TIMEOUT
        while not _END_OF_HEAD.search(head):
            if len(head) > LARGEST_HEAD:
                self.wfile.write(_TOO_LARGE)
                return
            self.connection.settimeout(max(until - time.monotonic(), 0.001))
            part = self.connection.recv(LARGEST_HEAD)
            if not part:
                return
            head += part
        self.connection.settimeout(TIMEOUT)
        self.rfile = BytesIO(head)
        self.handle_one_request()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        refused = self.server.refusal(path, self.headers.get("Authorization", ""))
        if refused is not None:
            self._answer(refused, "text/plain", f"{refused.phrase.lower()}\n".encode())
            return
        if path == "/metrics":
            self._answer(HTTPStatus.OK, self.server.metrics.kind, self.server.metrics.text())
            return
        pages = " ".join(("/metrics", *self.server.pages))
        page = self.server.pages.get(
            path, lambda: Answer(HTTPStatus.NOT_FOUND, f"not found; try {pages}\n")
        )
        code, body, kind = page()
        self._answer(code, kind, body.encode())

    def _answer(self, code: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing, since every scrape would be a line."""


class _Certificate:
    """A certificate for TLS, read again when its files change.

    Raises:
        BadInput: The certificate cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._files = folder / "tls.crt", folder / "tls.key"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._signature = self._signed()
            self._context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"{folder}: tls.crt and tls.key cannot be used ({error}); mount a Secret of type "
                f"kubernetes.io/tls there"
            ) from error

    def wrap(self, connection: socket) -> ssl.SSLSocket:
        """Return a connection that begins with a handshake at its first read."""
        try:
            now = self._signed()
            if now != self._signature:
                self._context.load_cert_chain(*self._files)
                self._signature = now
        except (OSError, ssl.SSLError) as error:
            _log.warning("the certificate cannot be renewed: %s", error)
        return self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )

    def _signed(self) -> object:
        return [(each.stat().st_ino, each.stat().st_mtime_ns) for each in self._files]
