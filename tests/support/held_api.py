"""An API server that answers a request when a test lets it, however long that takes.

It keeps objects as Kubernetes does: versions, UIDs, subresources, JSON patches with conditions, and
preconditions of deletes. Every client has one request open at a time, and the test chooses whose
request is handled next, or that a client loses the answer while its request is handled later. All
that was ever stored is kept, with who wrote it, for a checker.
"""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from walras_service.api_errors import ApiError, refusal
from walras_service.kinds import CONFIG_MAPS, EVENTS, NODES, OURS, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Document = dict[str, Any]

HOST = "https://cluster"
PATIENCE = 30.0


class Stored(NamedTuple):
    """A version of an object, and which client wrote it; None as document if it was deleted."""

    path: str
    document: Document | None
    writer: str


class Asked:
    """A request that waits to be handled."""

    def __init__(self, client: str, method: str, path: str, body: Any) -> None:
        self.client, self.method, self.path, self.body = client, method, path, body
        self.done = False
        self.lost = False
        self.answer: Document | ApiError | None = None


class HeldApi:
    """The server.

    Attributes:
        history: All versions of all objects, in the order in which they were stored.
        open: Open request of each client.
        late: Requests whose clients have given up.
    """

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self.history: list[Stored] = []
        self.open: dict[str, Asked] = {}
        self.late: list[Asked] = []
        self.holds = False
        self._objects: dict[str, Document] = {}
        self._version = 100
        self._news = threading.Condition()
        self._running: set[str] = set()
        for each in documents:
            self.put(each)

    def put(self, document: Document, writer: str = "user") -> Document:
        """Create an object, or replace what a user may write of it."""
        path = path_of(document)
        known = self._objects.get(path)
        made = copy.deepcopy(document)
        if known is not None:
            made = {**made, **({"status": known["status"]} if "status" in known else {})}
            made["metadata"]["uid"] = known["metadata"]["uid"]
        made["metadata"].setdefault("uid", f"uid-{path}-{self._version}")
        return self._store(path, made, writer)

    def get(self, path: str) -> Document | None:
        found = self._objects.get(path)
        return copy.deepcopy(found) if found else None

    def objects(self) -> dict[str, Document]:
        return dict(self._objects)

    def client(self, name: str) -> Client:
        """Return what a client takes for its connection."""
        return Client(self, name)

    def run(self, name: str, work: Callable[[], Any]) -> threading.Thread:
        """Run a client's work in a thread, until its first request is open or it has ended."""
        self._running.add(name)

        def run() -> None:
            try:
                work()
            finally:
                with self._news:
                    self._running.discard(name)
                    self._news.notify_all()

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._settle(name)
        return thread

    def runs(self, name: str) -> bool:
        return name in self._running

    def handle(self, name: str) -> None:
        """Handle a client's open request, and wait until it has another or has ended."""
        asked = self.open.pop(name)
        self._handle(asked)
        self._settle(name)

    def lose(self, name: str) -> None:
        """Let a client give up, while its request is still on its way."""
        asked = self.open.pop(name)
        asked.lost = True
        self.late.append(asked)
        with self._news:
            asked.done, asked.answer = True, ApiError("no answer in time", "unreachable")
            self._news.notify_all()
        self._settle(name)

    def handle_late(self, number: int) -> None:
        self._handle(self.late.pop(number))

    def _settle(self, name: str) -> None:
        with self._news:
            if not self._news.wait_for(
                lambda: name in self.open or name not in self._running, PATIENCE
            ):
                raise TimeoutError(f"{name} neither asks nor ends")

    def asked(self, client: str, method: str, path: str, body: Any) -> Document:
        """Take a request of a client, which waits for its turn."""
        asked = Asked(client, method, path, copy.deepcopy(body))
        if not self.holds or path.endswith(EVENTS.plural):  # no order of Events matters
            self._handle(asked)
        else:
            with self._news:
                self.open[client] = asked
                self._news.notify_all()
                self._news.wait_for(lambda: asked.done)
        if isinstance(asked.answer, ApiError):
            raise asked.answer
        assert asked.answer is not None
        return asked.answer

    def _handle(self, asked: Asked) -> None:
        answer: Document | ApiError
        try:
            answer = copy.deepcopy(self._answered(asked))
        except ApiError as error:
            answer = error
        if not asked.lost:
            with self._news:
                asked.done, asked.answer = True, answer
                self._news.notify_all()

    def _answered(self, asked: Asked) -> Document:
        path, subresource = asked.path, ""
        if path.endswith("/status"):
            path, subresource = path.removesuffix("/status"), "status"
        known = self._objects.get(path)
        if asked.method == "POST":
            return self._made(asked)
        if asked.method == "GET" and known is None and path == CONFIG_MAPS.path(NAMESPACE):
            return {"items": [e for p, e in self._objects.items() if p.startswith(f"{path}/")]}
        if known is None:
            raise refusal(HOST, asked.method, path, 404, "not found")
        if asked.method == "GET":
            return known
        if asked.method == "DELETE":
            return self._deleted(asked, known)
        if asked.method == "PUT":
            self._require(asked, known, asked.body["metadata"].get("resourceVersion"))
            return self._store(path, asked.body, asked.client)
        return self._patched(asked, path, known, subresource)

    def _made(self, asked: Asked) -> Document:
        made = copy.deepcopy(asked.body)
        path = f"{asked.path}/{made['metadata'].get('name', self._version)}"
        if path in self._objects:
            raise refusal(HOST, "POST", path, 409, "exists")
        made["metadata"]["uid"] = f"uid-{path}-{self._version}"
        made["metadata"].setdefault("creationTimestamp", "2026-01-30T00:00:00Z")
        return self._store(path, made, asked.client)

    def _deleted(self, asked: Asked, known: Document) -> Document:
        only = (asked.body or {}).get("preconditions", {})
        if only.get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            raise refusal(HOST, "DELETE", asked.path, 409, "another object")
        self._require(asked, known, only.get("resourceVersion"))
        del self._objects[asked.path]
        self._version += 1
        self.history.append(Stored(asked.path, None, asked.client))
        return {"kind": "Status"}

    def _patched(self, asked: Asked, path: str, known: Document, subresource: str) -> Document:
        made = copy.deepcopy(known)
        for each in asked.body:
            pointer, value = each["path"], each.get("value")
            if pointer == "/metadata/resourceVersion":
                self._require(asked, known, value)
            elif each["op"] == "test":
                if known["metadata"]["uid"] != value:
                    raise refusal(HOST, "PATCH", path, 422, "a test failed")
            elif (pointer == "/status") == (subresource == "status"):
                place, _, field = pointer.strip("/").rpartition("/")
                (made[place] if place else made)[field] = value
        return self._store(path, made, asked.client)

    def _require(self, asked: Asked, known: Document, version: str | None) -> None:
        if version and version != known["metadata"]["resourceVersion"]:
            raise refusal(HOST, asked.method, asked.path, 409, "the object has been modified")

    def _store(self, path: str, document: Document, writer: str) -> Document:
        self._version += 1
        made = copy.deepcopy(document)
        made["metadata"]["resourceVersion"] = str(self._version)
        self._objects[path] = made
        self.history.append(Stored(path, made, writer))
        return made


class Client:
    """A client's connection, with the methods of `walras_service.api.Api` that writers use."""

    def __init__(self, server: HeldApi, name: str) -> None:
        self._server, self._name = server, name

    def request(self, method: str, path: str, body: Any = None, **_: Any) -> Document:
        return self._server.asked(self._name, method, path, body)

    def find(self, path: str, *_: Any) -> Document | None:
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.reason != "missing":
                raise
            return None


NAMESPACE = "walras-system"
KINDS = {**OURS, "Node": NODES, "Pod": PODS, "ConfigMap": CONFIG_MAPS}


def path_of(document: Document) -> str:
    metadata = document["metadata"]
    return KINDS[document["kind"]].path(metadata.get("namespace", ""), metadata["name"])
