"""An API server that answers as a test tells it, also as a real one cannot be made to answer."""

from __future__ import annotations

import json
import ssl
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration

if TYPE_CHECKING:
    from pathlib import Path


class ScriptedServer:
    """A server that answers lists and watches of NodeAllocations from two scripts.

    A list is answered by the next entry of its script, or by the last one if no other is left: a
    status code, the only document, or None for an empty list. A watch gets the lines of the next
    entry of the other script and ends; if none is left, it gets nothing and stays open. With a
    folder of a certificate, the server speaks TLS.

    Attributes:
        lists: Script of answers to lists.
        watches: Script of answers to watches.
        asked: Queries so far, oldest first.
        refusals: Status codes with which the next writes are answered; later ones are accepted.
        written: Method, end of the path, and document of every write so far.
    """

    def __init__(
        self, *lists: int | dict[str, Any] | None, certificate: Path | None = None
    ) -> None:
        self.lists = deque(lists)
        self.watches: deque[list[Any]] = deque()
        self.asked: list[dict[str, str]] = []
        self.refusals: deque[int] = deque()
        self.written: list[tuple[str, str, Any]] = []
        self._ended = threading.Event()
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                query = {key: each[0] for key, each in parse_qs(urlsplit(self.path).query).items()}
                script.asked.append(query)
                if "watch" in query:
                    script.watch(self)
                else:
                    script.list(self)

            def do_PATCH(self) -> None:
                script.write(self)

            def do_POST(self) -> None:
                script.write(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._scheme = "http" if certificate is None else "https"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def settings(self) -> Configuration:
        host, port = self._server.server_address[:2]
        return Configuration(host=f"{self._scheme}://{host!s}:{port}", retries=False)

    def list(self, request: BaseHTTPRequestHandler) -> None:
        entry = self.lists.popleft() if len(self.lists) > 1 else self.lists[0]
        if isinstance(entry, int):
            answer(request, entry, {"kind": "Status", "message": f"told to say {entry}"})
            return
        items = [] if entry is None else [entry]
        head = {"kind": "NodeAllocationList", "metadata": {"resourceVersion": "5"}}
        answer(request, 200, {**head, "items": items})

    def watch(self, request: BaseHTTPRequestHandler) -> None:
        lines = self.watches.popleft() if self.watches else None
        if isinstance(lines, list) and lines and isinstance(lines[0], int):
            answer(request, lines[0], {"kind": "Status", "message": f"told to say {lines[0]}"})
            return
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for line in lines or ():
            text = (line if isinstance(line, str) else json.dumps(line)) + "\n"
            request.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
        if lines is None:
            self._ended.wait()
        request.wfile.write(b"0\r\n\r\n")

    def write(self, request: BaseHTTPRequestHandler) -> None:
        document = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        self.written.append((request.command, request.path.rpartition("/")[2], document))
        code = self.refusals.popleft() if self.refusals else 200
        answer(request, code, {"kind": "Status", "message": f"told to say {code}"})

    def count(self, *, watches: bool) -> int:
        return sum(("watch" in query) == watches for query in self.asked)


def answer(request: BaseHTTPRequestHandler, code: int, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    request.send_response(code)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
