"""Whatever an API server answers, or does not, is one line that says what to do.

The answers come from a server of these tests: most of them a real one cannot be brought to give.
"""

from __future__ import annotations

import json
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import Configuration

from walras_service.api import MERGE, Api, settings
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES, OURS, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from walras_service.api import Query

pytestmark = pytest.mark.system

MARKETS, JOBS = OURS["Market"], OURS["MarketJob"]


class Server:
    """A server that gives every request the same answer, and remembers the requests.

    Attributes:
        answer: Status, headers and body of every answer.
        date: Header ``Date`` of every answer; the time if empty.
        asked: Method, path with query, headers and body of every request.
    """

    def __init__(self) -> None:
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, b"{}")
        self.date = ""
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.asked.append((self.command, self.path, dict(self.headers), body))
                status, headers, body = server.answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815 - http.server's

            def date_time_string(self, timestamp: float | None = None) -> str:
                return server.date or super().date_time_string(timestamp)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def api(self) -> Api:
        host, port = self._http.server_address[:2]
        return Api(Configuration(host=f"http://{host!s}:{port}", retries=False), "walras-test")

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def refused(api: Api, method: Any, path: str, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        api.request(method, path, **options)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_request_has_all_that_it_was_given(server: Server) -> None:
    server.answer = (201, {}, b'{"kind": "Market"}')
    path = MARKETS.path(name="default", subresource="status")
    query: Query = {"fieldManager": "walras", "force": True}
    found = server.api().request("PATCH", path, {"a": 1}, content_type=MERGE, query=query)
    assert found == {"kind": "Market"}
    ((method, asked, headers, body),) = server.asked
    assert method == "PATCH"
    assert (
        asked == "/apis/walras.dev/v1alpha1/markets/default/status?fieldManager=walras&force=true"
    )
    assert headers["User-Agent"] == "walras-test"
    assert headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(body) == {"a": 1}


@pytest.mark.parametrize(
    ("status", "reason", "transient"),
    [
        (401, "unauthorized", False),
        (409, "conflict", False),
        (410, "expired", False),
        (415, "unsupported", False),
        (422, "invalid", False),
        (429, "busy", True),
        (500, "error", True),
        (503, "error", True),
    ],
)
def test_a_refusal_has_a_reason_and_what_the_server_says(
    server: Server, status: int, reason: str, *, transient: bool
) -> None:
    server.answer = (status, {"Retry-After": "7"}, b'{"message": "not\\nnow"}')
    error = refused(server.api(), "PUT", LEASES.path("system", "mine"))
    assert (error.reason, error.transient, error.retry_after) == (reason, transient, 7)
    path = "/apis/coordination.k8s.io/v1/namespaces/system/leases/mine"
    assert f"cannot update {path}: not now" in str(error)


@pytest.mark.parametrize(
    ("method", "path", "rule"),
    [
        ("GET", PODS.path(), '[""], resources: [pods], verbs: [list, watch]'),
        ("GET", PODS.path("vision", "train-0"), '[""], resources: [pods], verbs: [get]'),
        ("GET", "/api/v1/namespaces", '[""], resources: [namespaces], verbs: [list, watch]'),
        ("GET", "/api/v1/namespaces/vision", '[""], resources: [namespaces], verbs: [get]'),
        (
            "PATCH",
            JOBS.path("vision", "train", "status"),
            '["walras.dev"], resources: [marketjobs/status], verbs: [patch]',
        ),
        (
            "POST",
            LEASES.path("system"),
            '["coordination.k8s.io"], resources: [leases], verbs: [create]',
        ),
    ],
)
def test_what_is_forbidden_is_told_with_the_rule_that_allows_it(
    server: Server, method: str, path: str, rule: str
) -> None:
    server.answer = (403, {}, b'{"message": "User x cannot"}')
    error = refused(server.api(), method, path)
    assert error.reason == "forbidden"
    assert str(error).endswith(
        f": User x cannot; bind a role with the rule {{apiGroups: {rule}}} to this user"
    )


def test_an_owner_is_allowed_by_the_right_to_delete(server: Server) -> None:
    """The admission plugin OwnerReferencesPermissionEnforcement, as on OpenShift."""
    said = "forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>"
    server.answer = (403, {}, json.dumps({"message": said}).encode())
    error = refused(server.api(), "PATCH", LEASES.path("system", "a"))
    assert error.reason == "forbidden"
    rule = '{apiGroups: ["coordination.k8s.io"], resources: [leases], verbs: [delete]}'
    assert str(error).endswith(f": {said}; bind a role with the rule {rule} to this user")


def test_a_namespace_that_is_being_deleted_is_as_good_as_gone(server: Server) -> None:
    """No permission helps, and an operator that counts it as a failure would be restarted."""
    text = (
        'marketjobs.walras.dev "a" is forbidden: unable to create new content in namespace vision '
        "because it is being terminated"
    )
    server.answer = (403, {}, json.dumps({"message": text}).encode())
    error = refused(server.api(), "POST", JOBS.path("vision"))
    assert error.reason == "missing"
    assert str(error).endswith("because it is being terminated")


def test_only_a_kind_of_ours_that_is_not_served_is_to_be_installed(server: Server) -> None:
    server.answer = (404, {}, b"404 page not found")
    way_out = "the response has status 404; install the CustomResourceDefinitions of Walras"
    assert way_out in str(refused(server.api(), "GET", MARKETS.path()))
    for path in (MARKETS.path(name="default"), LEASES.path()):
        error = refused(server.api(), "GET", path)
        assert str(error).endswith("the response has status 404")
        assert error.reason == "missing"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
def test_what_is_no_api_server_is_told_as_such(server: Server, body: bytes) -> None:
    server.answer = (200, {}, body)
    error = refused(server.api(), "GET", MARKETS.path())
    assert "unexpected response, is this an API server? GET /apis/walras.dev" in str(error)


def test_nobody_who_answers_is_told_as_the_system_says_it(server: Server) -> None:
    api = server.api()
    server.close()
    error = refused(api, "GET", MARKETS.path())
    assert str(error) == f"{api.host}: is unreachable: Connection refused"
    assert error.reason == "unreachable"


def test_the_time_of_the_api_server_is_that_of_its_last_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = server.api()
    assert api.ahead() == 0
    api.find("/a")
    assert abs(api.ahead()) < 60
    server.answer = 404, {}, b"{}"
    server.date = formatdate(time.time() - 3600, usegmt=True)
    assert api.find("/a") is None
    assert api.ahead() == pytest.approx(3600, abs=60)
    server.date = "yesterday"
    api.find("/a")
    assert api.ahead() == pytest.approx(3600, abs=60), "an answer that does not tell the time"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 7200)  # somebody sets this machine's clock
    assert api.ahead() == pytest.approx(-3600, abs=60)


def test_names_are_listed_page_by_page(server: Server) -> None:
    item = {"metadata": {"name": "a", "uid": "u"}}
    server.answer = (200, {}, json.dumps({"items": [item], "metadata": {"continue": "x"}}).encode())
    names = server.api().names(MARKETS, {"labelSelector": "a=b"})
    assert next(names) == item["metadata"]
    server.answer = (200, {}, json.dumps({"items": None, "metadata": {}}).encode())
    assert list(names) == []
    assert [asked.partition("?")[2] for _, asked, _, _ in server.asked] == [
        "labelSelector=a%3Db&limit=500&continue=",
        "labelSelector=a%3Db&limit=500&continue=x",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "No such file|Invalid kube-config"), ("{", "while parsing"), ("a: 1", "Invalid")],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, text: str | None, complaint: str
) -> None:
    file = tmp_path / "config"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ApiError, match=complaint) as caught:
        settings(str(file))
    assert str(caught.value).startswith(f"{file}: ")
    assert str(caught.value).endswith("give the API server by --kubeconfig or KUBECONFIG")
