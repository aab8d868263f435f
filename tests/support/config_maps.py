"""An API server that has ConfigMaps only, with the versions and conflicts of a real one.

It can be told to fail: to refuse a write, to lose the answer of one that it has carried out, and to
let somebody else change an object before one.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, urlsplit

from answering import Answering, body_of, send, told_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.server import BaseHTTPRequestHandler

Document = dict[str, Any]
Fault = Literal["refuse", "forbid", "lose", "conflict"]


class ConfigMaps(Answering):
    """An API server that has ConfigMaps only.

    Attributes:
        objects: ConfigMaps by name.
        faults: Faults of the next writes, one each; later writes are carried out.
        writes: Method and name of each write that was asked for.
        forbidden: Whether reads are forbidden.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.faults: deque[Fault | None] = deque()
        self.writes: list[tuple[str, str]] = []
        self.reads = 0
        self.forbidden = False
        self.before_write: Callable[[], None] = lambda: None
        self._version = 0
        self._lock = threading.Lock()
        super().__init__()

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        if request.command == "GET":
            send(request, *self.read(request.path))
        else:
            self.serve_write(request)

    def read(self, path: str) -> tuple[int, Document]:
        if self.forbidden:
            return 403, told_to("forbid it")
        self.reads += 1
        url = urlsplit(path)
        name = url.path.rpartition("/")[2]
        with self._lock:
            if "/leases" in path:
                return 200, {"kind": "LeaseList", "metadata": {}, "items": []}
            if name == "configmaps":
                (wanted,) = parse_qs(url.query)["labelSelector"]
                items = [
                    {"metadata": each["metadata"]}
                    for each in self.objects.values()
                    if wanted in each["metadata"]["labels"]
                ]
                return 200, {"kind": "List", "metadata": {}, "items": items}
            if name not in self.objects:
                return 404, {"kind": "Status", "message": f"{name} not found"}
            return 200, self.objects[name]

    def serve_write(self, request: BaseHTTPRequestHandler) -> None:
        document = json.loads(body_of(request) or b"{}")
        name = document.get("metadata", {}).get("name") or request.path.rpartition("/")[2]
        name = urlsplit(name).path
        self.before_write()
        with self._lock:
            self.writes.append((request.command, name))
            fault = self.faults.popleft() if self.faults else None
            if fault in {"refuse", "forbid"}:
                code = 503 if fault == "refuse" else 403
                send(request, code, told_to(fault))
                return
            code, answer = self.write(request.command, name, document, fault)
        if fault == "lose":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        send(request, code, answer)

    def write(
        self, method: str, name: str, document: Document, fault: Fault | None = None
    ) -> tuple[int, Document]:
        """Carry out a write, as others may do directly."""
        known = self.objects.get(name)
        if method == "DELETE":
            self.objects.pop(name, None)
            return (404 if known is None else 200), {"kind": "Status", "message": "gone"}
        version = document["metadata"].get("resourceVersion")
        stale = known is not None and version != known["metadata"]["resourceVersion"]
        if fault == "conflict" or (method == "POST" and known is not None) or stale:
            return 409, {"kind": "Status", "message": f"{name} has changed"}
        if method == "PUT" and known is None:
            return 404, {"kind": "Status", "message": f"{name} not found"}
        self._version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self._version)}
        self.objects[name] = {**document, "metadata": metadata}
        return 200, self.objects[name]
