"""An API server that answers as a test tells it, also as a real one cannot be made to answer."""

from __future__ import annotations

import json
import threading
from collections import deque
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from answering import Answering, body_of, send, told_to

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path


class ScriptedServer(Answering):
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
        super().__init__(certificate)

    def close(self) -> None:
        self._ended.set()
        super().close()

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        if request.command != "GET":
            self.write(request)
            return
        query = {key: each[0] for key, each in parse_qs(urlsplit(request.path).query).items()}
        self.asked.append(query)
        if "watch" in query:
            self.watch(request)
        else:
            self.list(request)

    def list(self, request: BaseHTTPRequestHandler) -> None:
        entry = self.lists.popleft() if len(self.lists) > 1 else self.lists[0]
        if isinstance(entry, int):
            send(request, entry, told_to(f"say {entry}"))
            return
        items = [] if entry is None else [entry]
        head = {"kind": "NodeAllocationList", "metadata": {"resourceVersion": "5"}}
        send(request, 200, {**head, "items": items})

    def watch(self, request: BaseHTTPRequestHandler) -> None:
        lines = self.watches.popleft() if self.watches else None
        if isinstance(lines, list) and lines and isinstance(lines[0], int):
            send(request, lines[0], told_to(f"say {lines[0]}"))
            return
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for line in lines or ():
            text = (line if isinstance(line, str) else json.dumps(line)) + "\n"
            request.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
        request.wfile.flush()
        if lines is None:
            self._ended.wait()
        request.wfile.write(b"0\r\n\r\n")

    def write(self, request: BaseHTTPRequestHandler) -> None:
        document = json.loads(body_of(request))
        self.written.append((request.command, request.path.rpartition("/")[2], document))
        code = self.refusals.popleft() if self.refusals else 200
        send(request, code, told_to(f"say {code}"))

    def count(self, *, watches: bool) -> int:
        return sum(("watch" in query) == watches for query in self.asked)
