"""Effects: an HTTP server for the metrics and the probes of a process."""

from __future__ import annotations

import logging
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.exposition import choose_encoder

from walras_service.failures import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prometheus_client import CollectorRegistry

_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """Response of a page: status code, body, and content type."""

    code: HTTPStatus
    body: str
    kind: str = "text/plain; charset=utf-8"


def verdict(problems: Sequence[str], well: str = "ok") -> Answer:
    """Return the response to a probe: 503 and the problems, or 200 if there are none."""
    code = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
    return Answer(code, "".join(f"{line}\n" for line in problems or [well]))


def serve(
    address: tuple[str, int],
    pages: Mapping[str, Callable[[], Answer]],
    registry: CollectorRegistry,
) -> None:
    """Start the server in threads of its own; it runs until the process ends.

    Args:
        address: Address and port to listen on; port 0 for any free port.
        pages: Pages besides ``/metrics``, by path.
        registry: Registry of the metrics.

    Raises:
        BadInput: The address is not available.
    """

    class Handler(BaseHTTPRequestHandler):
        """Handler of one connection."""

        timeout = 10  # seconds, for a client that sends nothing

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, kind, encode(registry))
                return
            known = " ".join(("/metrics", *pages))
            page = pages.get(
                path, lambda: Answer(HTTPStatus.NOT_FOUND, f"not found; try {known}\n")
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

    try:
        server = ThreadingHTTPServer(address, Handler)
    except OSError as error:
        where = "{}:{}".format(*address)
        raise BadInput(
            f"{where}: {error.strerror}; choose another address with --listen"
        ) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    host, port = server.server_address[:2]
    _log.info("listening on http://%s:%d", host, port, extra={"event": "listening"})
