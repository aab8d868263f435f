"""An HTTP server in this process whose answers are a test's: what all played servers stand on."""

from __future__ import annotations

import json
import ssl
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from kubernetes.client import Configuration

if TYPE_CHECKING:
    from pathlib import Path


class Answering(ABC):
    """A server of a free port that listens from its creation until it is closed.

    Args:
        certificate: Folder of a certificate, with which the server speaks TLS.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        respond = self.respond

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet, which is not delayed

            def every_method(self) -> None:
                respond(self)
                self.wfile.flush()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = every_method  # noqa: N815 - http.server's

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
            self._http.socket = context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    @abstractmethod
    def respond(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request of any method."""

    def settings(self) -> Configuration:
        """Return the configuration of a client of this server."""
        return Configuration(host=self.url, retries=False)

    def close(self) -> None:
        """Refuse connections from now on."""
        self._http.shutdown()
        self._http.server_close()


def body_of(request: BaseHTTPRequestHandler) -> bytes:
    """Read the body of a request."""
    return request.rfile.read(int(request.headers.get("Content-Length") or 0))


def send(
    request: BaseHTTPRequestHandler, code: int, document: dict[str, Any] | bytes, **headers: str
) -> None:
    """Answer with a document."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    request.send_response(code)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def told_to(what: object) -> dict[str, Any]:
    """Return the status with which an API server explains itself, who was told what to do."""
    return {"kind": "Status", "message": f"told to {what}"}
