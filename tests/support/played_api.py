"""An API server of a few kinds that a test can change, restrict and cut off.

It answers lists in pages, gets and watches as Kubernetes does, so that tests of the dashboard's
watches run on any machine; those on a real API server are marked `api_server`.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from kubernetes.client import Configuration

from walras_api.contract import PLURALS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Document = dict[str, Any]

PLURAL_OF = {
    **PLURALS,
    "Node": "nodes",
    "Pod": "pods",
    "Namespace": "namespaces",
    "Lease": "leases",
}
KIND_OF = {plural: kind for kind, plural in PLURAL_OF.items()}


class PlayedApi:
    """An API server in this process.

    Attributes:
        forbidden: Resources that a user may not list, by the user's bearer token.
        allowed: Requests that are allowed even if the resource is forbidden, by bearer token:
            ``NS/plural`` in a namespace, or ``NAME/plural`` for an object without one.
        unknown: Bearer tokens that belong to nobody.
        users: User of each bearer token, for servers that say whose it is.
        asked: Path, token, and headers of impersonation of each request so far.
    """

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self.forbidden: dict[str, set[str]] = {}
        self.unknown: set[str] = set()
        self.users: dict[str, str] = {}
        self.allowed: dict[str, set[str]] = {}
        self.asked: list[tuple[str, str, str, list[str]]] = []
        self._objects: dict[tuple[str, str, str], Document] = {}
        self._events: list[tuple[int, str, Document]] = []
        self._version = 100
        self._news = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self._open: set[Any] = set()
        self._port = 0
        for each in documents:
            self.put(each)
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def configuration(self, token: str = "") -> Configuration:
        made = Configuration(host=self.url, retries=False)
        if token:
            made.api_key = {"authorization": f"Bearer {token}"}
        return made

    def start(self) -> None:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                api._open.add(self.connection)

            def do_GET(self) -> None:
                api._answer(self)

            def do_POST(self) -> None:
                api._review(self)

            def do_PATCH(self) -> None:
                api._patch(self)

            def log_message(self, *_: object) -> None:
                pass

            def handle(self) -> None:
                try:
                    super().handle()
                except (OSError, ValueError):
                    pass  # cut off
                finally:
                    api._open.discard(self.connection)

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections, and end those that are open."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for each in list(self._open):
            try:
                each.shutdown(2)
            except OSError:
                continue
        with self._news:
            self._news.notify_all()

    def put(self, document: Document) -> None:
        """Create or replace an object."""
        key = _key(document)
        with self._news:
            self._version += 1
            known = self._objects.get(key, {}).get("metadata", {})
            uid = known.get("uid", f"uid-{self._version}")
            version = {"resourceVersion": str(self._version)}
            metadata = {"uid": uid, **document["metadata"], **version}
            event = "MODIFIED" if known else "ADDED"
            made = {**document, "metadata": metadata}
            self._objects[key] = made
            self._events.append((self._version, event, made))
            self._news.notify_all()

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        with self._news:
            self._version += 1
            gone = self._objects.pop((PLURAL_OF[kind], namespace, name))
            gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._version)}}
            self._events.append((self._version, "DELETED", gone))
            self._news.notify_all()

    def get(self, kind: str, name: str, namespace: str = "") -> Document:
        return self._objects[PLURAL_OF[kind], namespace, name]

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        query = {key: each[0] for key, each in parse_qs(parts.query).items()}
        token = _token(request)
        groups = request.headers.get_all("Impersonate-Group") or []
        self.asked.append(
            (request.path, token, request.headers.get("Impersonate-User", ""), groups)
        )
        namespace, plural, name = _split(parts.path)
        if token in self.unknown:
            _send(request, 401, {"message": "Unauthorized"})
        elif parts.path == "/apis/walras.dev/v1alpha1":
            _send(request, 200, {"kind": "APIResourceList"})
        elif parts.path in {"/api", "/apis"}:
            _send(request, 200, {"versions": ["v1"], "groups": []})
        elif plural not in KIND_OF or "metrics" in parts.path:
            _send(request, 404, {"message": "the server could not find the requested resource"})
        elif not self._may(token, namespace, plural, name or _named(query)):
            _send(request, 403, {"message": f"{plural} is forbidden"})
        elif name:
            found = self._objects.get((plural, namespace, name))
            _send(request, 200 if found else 404, found or {"message": f"{name} not found"})
        elif "watch" in query:
            self._watch(request, namespace, plural, query)
        else:
            self._list(request, namespace, plural, query)

    def _review(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a SelfSubjectReview."""
        request.rfile.read(int(request.headers["content-length"]))
        user = self.users.get(_token(request))
        if user is None or not request.path.endswith("/selfsubjectreviews"):
            _send(request, 404, {"message": "the server could not find the requested resource"})
        else:
            _send(request, 201, {"status": {"userInfo": {"username": user}}})

    def _patch(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a merge patch of fields of a spec, from who may see the object."""
        change = json.loads(request.rfile.read(int(request.headers["content-length"])))
        namespace, plural, name = _split(urlsplit(request.path).path)
        found = self._objects.get((plural, namespace, name))
        if not self._may(_token(request), namespace, plural, name):
            _send(request, 403, {"message": f"{plural} is forbidden"})
        elif found is None:
            _send(request, 404, {"message": f"{name} not found"})
        else:
            spec = {**found["spec"], **change["spec"]}
            left = {key: each for key, each in spec.items() if each is not None}
            self.put({**found, "spec": left})
            _send(request, 200, self._objects[plural, namespace, name])

    def _may(self, token: str, namespace: str, plural: str, name: str) -> bool:
        if plural not in self.forbidden.get(token, ()):
            return True
        return f"{namespace or name}/{plural}" in self.allowed.get(token, ())

    def _list(
        self, request: BaseHTTPRequestHandler, namespace: str, plural: str, query: Mapping[str, str]
    ) -> None:
        with self._news:
            items = [
                each
                for (of, where, _), each in sorted(self._objects.items())
                if of == plural and namespace in {"", where} and _selected(each, query)
            ]
            version = str(self._version)
        begin, limit = int(query.get("continue", 0)), int(query.get("limit", len(items) + 1))
        more = str(begin + limit) if begin + limit < len(items) else ""
        metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
        document = {"kind": f"{KIND_OF[plural]}List", "metadata": metadata}
        _send(request, 200, {**document, "items": items[begin : begin + limit]})

    def _watch(
        self, request: BaseHTTPRequestHandler, namespace: str, plural: str, query: Mapping[str, str]
    ) -> None:
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        seen = int(query.get("resourceVersion", 0))
        while self._server is not None:
            with self._news:
                news = [each for each in self._events if each[0] > seen]
                if not news:
                    self._news.wait(0.5)
                    continue
            for version, event, document in news:
                seen = version
                of, where, _ = _key(document)
                if of == plural and namespace in {"", where} and _selected(document, query):
                    _say(request, {"type": event, "object": document})
        request.wfile.write(b"0\r\n\r\n")


def _token(request: BaseHTTPRequestHandler) -> str:
    return (request.headers.get("authorization") or "").removeprefix("Bearer ")


def _key(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    kind = document["kind"]
    namespaced = kind in {"MarketJob", "SpeedupProfile", "Pod", "Lease"}
    where = metadata.get("namespace", "default") if namespaced else ""
    return PLURAL_OF[kind], where, metadata["name"]


def _split(path: str) -> tuple[str, str, str]:
    """Return namespace, resource and name of a path."""
    parts = [unquote(each) for each in path.strip("/").split("/")]
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    namespace = ""
    if rest and rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return namespace, rest[0] if rest else "", rest[1] if len(rest) > 1 else ""


def _named(query: Mapping[str, str]) -> str:
    return query.get("fieldSelector", "").removeprefix("metadata.name=")


def _selected(document: Document, query: Mapping[str, str]) -> bool:
    field, _, value = query.get("fieldSelector", "").partition("=")
    if field == "metadata.name":
        return bool(document["metadata"]["name"] == value)
    if field == "spec.nodeName":
        return bool(document.get("spec", {}).get("nodeName") == value)
    label, _, value = query.get("labelSelector", "").partition("=")
    labels = document["metadata"].get("labels") or {}
    return not label or (labels.get(label) == value if value else label in labels)


def _send(request: BaseHTTPRequestHandler, status: int, document: Document) -> None:
    data = json.dumps(document).encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)


def _say(request: BaseHTTPRequestHandler, event: Document) -> None:
    line = json.dumps(event).encode() + b"\n"
    request.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
    request.wfile.flush()
