"""A dashboard's server as a process, and a gateway before it that can fail and rename."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from command_line import start
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LARGEST = 2**24


@contextmanager
def served(*arguments: str, folder: str | Path = "/", port: str = "0") -> Iterator[str]:
    """Run a dashboard's server in a folder, and yield the URL that opens it, with its token."""
    with start("dashboard", *arguments, "--port", port, folder=folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://"), process.stderr.read()
            yield url
        finally:
            process.terminate()
            with suppress(ValueError):
                process.communicate(timeout=60)


class Gateway:
    """A gateway between a browser and a dashboard's server.

    Args:
        url: URL of the server, with its token.
        names: Replacements for names in the server's answers; addresses use the replacements too.

    Attributes:
        url: URL to open instead, without a token.
    """

    def __init__(self, url: str, names: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self._host, self._token = parts.netloc, parts.query.removeprefix("token=")
        self._names = dict(names or {})
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()
        self._port = 0
        self.start()
        self.url = f"http://127.0.0.1:{self._port}/"

    def start(self) -> None:
        """Answer, on the same port as before."""
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                gateway._pass(self, b"")

            def do_POST(self) -> None:
                length = min(LARGEST, int(self.headers.get("Content-Length", "0")))
                gateway._pass(self, self.rfile.read(length))

            def log_message(self, *_: object) -> None:
                """Suppress the log."""

        def listening() -> bool:
            try:
                self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
            except OSError:  # the port of before is still being given back
                return False
            return True

        assert eventually(listening, 30)
        assert self._server is not None
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Answer nobody, and end all connections."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _pass(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """Ask the server, and pass its answer on as it comes."""
        headers = {"Host": self._host, "Authorization": f"Bearer {self._token}"}
        if kind := request.headers.get("Content-Type"):
            headers["Content-Type"] = kind
        asked = http.client.HTTPConnection(self._host, timeout=120)
        request.close_connection = True
        self._open.add(request.connection)
        try:
            path = self._back(request.path)
            asked.request(request.command, path, self._back_in(body), headers)
            self._relay(asked.getresponse(), request)
        except (OSError, http.client.HTTPException):
            pass  # the browser has left, or the server has
        finally:
            asked.close()
            self._open.discard(request.connection)

    def _relay(self, answer: http.client.HTTPResponse, request: BaseHTTPRequestHandler) -> None:
        kind = answer.headers.get("Content-Type", "")
        request.send_response(answer.status)
        for name in ("Content-Type", "Content-Security-Policy", "Cache-Control"):
            if value := answer.headers.get(name):
                request.send_header(name, value)
        request.send_header("Connection", "close")
        request.end_headers()
        if kind.startswith("text/event-stream"):
            while piece := answer.read1(65536):
                request.wfile.write(piece)
                request.wfile.flush()
        else:
            whole = answer.read()
            request.wfile.write(self._renamed(whole) if "json" in kind else whole)

    def _renamed(self, text: bytes) -> bytes:
        found = text.decode()
        for old, new in self._names.items():
            found = found.replace(old, _in_json(new))
        return found.encode()

    def _back_in(self, body: bytes) -> bytes:
        found = body.decode()
        for old, new in self._names.items():
            found = found.replace(_in_json(new), old)
        return found.encode()

    def _back(self, path: str) -> str:
        found = path
        for old, new in self._names.items():
            found = found.replace(quote(new, safe="!'()*"), old)
        return found if found.isascii() else quote(unquote(found))


def _in_json(text: str) -> str:
    """Return a text as it stands in a JSON string that is not in ASCII only."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
