"""Pages and metrics are answered by HTTP or HTTPS, to whoever may read them."""

from __future__ import annotations

import errno
import json
import logging
import shutil
import socket
import ssl
import threading
import urllib.error
import urllib.request
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from kubernetes.client import Configuration
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from answering import send
from scripted_api import ScriptedServer
from walras_service import authorization, probes
from walras_service.api import Api
from walras_service.authorization import AccessReview
from walras_service.failures import BadInput
from walras_service.listening import listening_socket
from walras_service.probes import LARGEST_HEAD, MOST_CONNECTIONS, serve, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import BaseHTTPRequestHandler

    from prometheus_client.metrics_core import Metric

    Begin = Callable[..., str]

pytestmark = pytest.mark.system


CERTIFICATES = Path(__file__).parent / "certificates"


def get(url: str, certificate: Path | None = None, bearer: str = "") -> tuple[int, str]:
    request = urllib.request.Request(url)  # noqa: S310 - always http or https
    if bearer:
        request.add_header("Authorization", f"Bearer {bearer}")
    trusted = ssl.create_default_context(cafile=certificate) if certificate else None
    try:
        with urllib.request.urlopen(request, timeout=60, context=trusted) as response:  # noqa: S310
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def begin(caplog: pytest.LogCaptureFixture) -> Iterator[Begin]:
    """Begin to serve, and return the URL; servers end with the test."""
    caplog.set_level(logging.INFO)
    with ExitStack() as served:

        def begin(*arguments: Any, **options: Any) -> str:
            served.enter_context(serve(*arguments, **options))
            return caplog.messages[-1].removeprefix("listening on ")

        yield begin


def test_probes_say_what_is_wrong_and_metrics_are_there(begin: Begin) -> None:
    problems: list[str] = []
    registry = CollectorRegistry()
    Gauge("walras_answer", "Of everything.", registry=registry).set(42)
    pages = {"/healthz": lambda: verdict(problems), "/readyz": lambda: verdict([], "epoch 7")}
    url = begin(("127.0.0.1", 0), pages, registry)
    assert get(f"{url}/healthz?verbose") == (200, "ok\n")
    assert get(f"{url}/readyz") == (200, "epoch 7\n")
    problems += ["a thread is stuck", "so is another"]
    assert get(f"{url}/healthz") == (503, "a thread is stuck\nso is another\n")
    assert "walras_answer 42.0\n" in get(f"{url}/metrics")[1]
    assert get(f"{url}/nowhere") == (404, "not found; try /metrics /healthz /readyz\n")


def test_an_address_that_cannot_be_had_is_bad_input(begin: Begin) -> None:
    with pytest.raises(BadInput, match=r"192\.0\.2\.1:9: .*choose another address with --listen"):
        begin(("192.0.2.1", 9), {}, CollectorRegistry())


def test_connections_that_say_nothing_keep_no_probe_out(begin: Begin) -> None:
    url = begin(("127.0.0.1", 0), {"/healthz": lambda: verdict([])}, CollectorRegistry())
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(url)) for _ in range(3 * MOST_CONNECTIONS)]
        assert get(f"{url}/healthz") == (200, "ok\n")
        silent[0].settimeout(60)
        assert silent[0].recv(1) == b""  # ended


def test_many_connections_of_one_address_end_none_of_another(
    begin: Begin,
) -> None:
    url = begin(("127.0.0.1", 0), {"/healthz": lambda: verdict([])}, CollectorRegistry())
    with ExitStack() as stack:
        honest = stack.enter_context(connected(url, "127.0.0.2"))
        many = [stack.enter_context(connected(url)) for _ in range(3 * MOST_CONNECTIONS)]
        many[0].settimeout(60)
        assert many[0].recv(1) == b""  # ended, so the server has seen too many
        honest.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert answered(honest).endswith(b"\r\n\r\nok\n")


@pytest.mark.parametrize("ended", [b"\r\n\r\n", b"\n\n"])
def test_of_a_request_only_little_is_read(ended: bytes, begin: Begin) -> None:
    url = begin(("127.0.0.1", 0), {"/healthz": lambda: verdict([])}, CollectorRegistry())
    line = b"GET /healthz HTTP/1.1\r\nAuthorization: Bearer "
    with connected(url) as client:
        client.sendall(line + b"x" * (LARGEST_HEAD - len(line) - len(ended)) + ended)
        assert answered(client).startswith(b"HTTP/1.0 200 OK\r\n")
    with connected(url) as client:
        client.sendall(line + b"x" * (LARGEST_HEAD + 1 - len(line)))
        assert answered(client).startswith(b"HTTP/1.0 431 Request Header Fields Too Large\r\n")


def test_a_request_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch, begin: Begin) -> None:
    monkeypatch.setattr(probes, "TIMEOUT", 0.1)
    url = begin(("127.0.0.1", 0), {"/healthz": lambda: verdict([])}, CollectorRegistry())
    with connected(url) as client:
        client.settimeout(0.02)
        for _ in range(500):
            with suppress(TimeoutError):
                client.send(b"GET /")
                assert client.recv(1) == b""
                return
    pytest.fail("the server waits for a request as long as some of it comes")


def connected(url: str, own: str = "") -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 60, (own, 0) if own else None)


def answered(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


class _Counted(Collector):
    """Metrics that count how often they are made."""

    made = 0

    def collect(self) -> Iterator[Metric]:
        self.made += 1
        yield GaugeMetricFamily("walras_made", "How often.", self.made)


def test_metrics_are_made_once_a_second_however_many_read_them(
    begin: Begin,
) -> None:
    registry, made, now = CollectorRegistry(), _Counted(), [100.0]
    registry.register(made)
    url, before = begin(("127.0.0.1", 0), {}, registry, clock=lambda: now[0]), made.made
    with ThreadPoolExecutor(8) as readers:
        texts = set(readers.map(get, [f"{url}/metrics"] * 32))
    assert len(texts) == 1
    assert made.made == before + 1
    now[0] += 1.0
    assert get(f"{url}/metrics") not in texts
    assert made.made == before + 2


@pytest.mark.parametrize("certificate", ["", "first"], ids=["http", "https"])
def test_all_addresses_are_those_of_both_families(certificate: str, begin: Begin) -> None:
    folder = CERTIFICATES / certificate if certificate else None
    pages = {"/healthz": lambda: verdict([])}
    scheme, _, rest = begin(("::", 0), pages, CollectorRegistry(), tls_folder=folder).partition(
        "://"
    )
    trusted = ssl.create_default_context() if folder else None
    if trusted is not None and folder is not None:
        trusted.load_verify_locations(folder / "tls.crt")
        trusted.check_hostname = False  # the certificate names no address of IPv6
    port = rest.rpartition(":")[2]
    for host in ("127.0.0.1", "[::1]"):
        if host == "[::1]" and not has_ipv6():
            pytest.skip("this machine has no IPv6, so only IPv4 was tested")
        url = f"{scheme}://{host}:{port}/healthz"
        with urllib.request.urlopen(url, timeout=60, context=trusted) as response:  # noqa: S310
            assert response.read() == b"ok\n"


def has_ipv6() -> bool:
    try:
        listening_socket("::1", 0).close()
    except OSError:
        return False
    return True


def test_an_address_of_one_family_is_not_one_of_the_other(begin: Begin) -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    url = begin(("::1", 0), {"/healthz": lambda: verdict([])}, CollectorRegistry())
    assert url.startswith("http://[::1]:")
    assert get(f"{url}/healthz") == (200, "ok\n")
    with pytest.raises(urllib.error.URLError):
        get(f"{url.replace('[::1]', '127.0.0.1')}/healthz")


@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, None])
def test_without_ipv6_all_addresses_are_those_of_ipv4(
    code: int | None, monkeypatch: pytest.MonkeyPatch, begin: Begin
) -> None:

    class Ipv4Only(socket.socket):
        def bind(self, address: Any) -> None:
            if code is not None and self.family == socket.AF_INET6:
                raise OSError(code, "no IPv6")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Ipv4Only)
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: code is not None)
    url = begin(("::", 0), {"/healthz": lambda: verdict([])}, CollectorRegistry())
    assert url.startswith("http://0.0.0.0:")
    assert get(f"{url.replace('0.0.0.0', '127.0.0.1')}/healthz") == (200, "ok\n")  # noqa: S104


def test_a_port_that_is_in_use_is_no_lack_of_ipv6(begin: Begin) -> None:
    with listening_socket("::", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=rf"^\[::\]:{port}: .*in use"):
            begin(("::", port), {}, CollectorRegistry())


def test_a_certificate_is_used_and_renewed(tmp_path: Path, begin: Begin) -> None:
    folder = tmp_path / "tls"
    shutil.copytree(CERTIFICATES / "first", folder)
    pages = {"/healthz": lambda: verdict([])}
    url = begin(("127.0.0.1", 0), pages, CollectorRegistry(), tls_folder=folder)
    assert url.startswith("https://")
    host, port = url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port))):  # and never a word
        assert get(f"{url}/healthz", folder / "tls.crt") == (200, "ok\n")
    folder.rename(tmp_path / "old")
    shutil.copytree(CERTIFICATES / "renewed", folder)
    assert get(f"{url}/healthz", CERTIFICATES / "renewed" / "tls.crt") == (200, "ok\n")
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        get(f"{url}/healthz", CERTIFICATES / "first" / "tls.crt")
    shutil.rmtree(folder)
    assert get(f"{url}/healthz", CERTIFICATES / "renewed" / "tls.crt") == (200, "ok\n")


def test_a_certificate_that_cannot_be_used_is_bad_input(tmp_path: Path, begin: Begin) -> None:
    with pytest.raises(
        BadInput, match=r"tls\.crt and tls\.key cannot be used .*kubernetes\.io/tls"
    ):
        begin(("127.0.0.1", 0), {}, CollectorRegistry(), tls_folder=tmp_path)


class Reviewer(ScriptedServer):
    """An API server that knows two users, of whom one may read metrics.

    Attributes:
        broken: Whether it answers nothing but 500.
        gate: Opens for the review of tokens that are nobody's.
        guesses: Released when such a token comes.
    """

    USERS: ClassVar = {"scraper": "prometheus", "reader": "nobody in particular"}  # by token
    broken = False

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.guesses = threading.Event(), threading.Semaphore(0)
        self.gate.set()

    def write(self, request: BaseHTTPRequestHandler) -> None:
        document: dict[str, Any] = json.loads(
            request.rfile.read(int(request.headers["Content-Length"]))
        )
        self.written.append((request.command, request.path, document))
        spec = document["spec"]
        if self.broken:
            send(request, 500, {"kind": "Status", "message": "broken"})
        elif document["kind"] == "TokenReview":
            user = self.USERS.get(spec["token"])
            if user is None:
                self.guesses.release()
                self.gate.wait(60)
            status = {"authenticated": user is not None, "user": {"username": user, "groups": []}}
            send(request, 201, {**document, "status": status})
        else:
            wanted = {"path": "/metrics", "verb": "get"}
            allowed = spec["user"] == "prometheus" and spec["nonResourceAttributes"] == wanted
            send(request, 201, {**document, "status": {"allowed": allowed}})


def test_only_those_whom_the_api_server_allows_read_metrics(
    begin: Begin,
) -> None:
    server, now = Reviewer(), [0.0]
    try:
        found = server.settings()
        assert isinstance(found, Configuration)
        review = AccessReview(Api(found, "walras-test"), lambda: now[0])
        pages = {"/healthz": lambda: verdict([]), "/status": lambda: verdict([], "all pods")}
        url = begin(("127.0.0.1", 0), pages, CollectorRegistry(), review=review)
        assert get(f"{url}/healthz") == (200, "ok\n")
        assert server.written == []
        for page in ("/metrics", "/metrics?name[]=up", "/status", "/nowhere"):
            assert get(f"{url}{page}") == (401, "unauthorized\n")
        assert get(f"{url}/metrics", bearer="guessed")[0] == HTTPStatus.UNAUTHORIZED
        assert get(f"{url}/metrics", bearer="reader")[0] == HTTPStatus.FORBIDDEN
        assert get(f"{url}/metrics", bearer="scraper")[0] == HTTPStatus.OK
        assert get(f"{url}/status", bearer="scraper")[0] == HTTPStatus.FORBIDDEN
        asked = len(server.written)
        assert get(f"{url}/metrics", bearer="scraper")[0] == HTTPStatus.OK
        assert len(server.written) == asked, "the answer is kept"
        now[0], server.broken = 61.0, True
        assert get(f"{url}/metrics", bearer="scraper")[0] == HTTPStatus.SERVICE_UNAVAILABLE
        server.broken = False
        assert get(f"{url}/metrics", bearer="scraper")[0] == HTTPStatus.OK
    finally:
        server.close()


def test_those_who_guess_tokens_hold_up_nobody_who_was_allowed_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authorization, "_LEAST", 0.0)
    monkeypatch.setattr(authorization, "_PATIENCE", 0.0)
    monkeypatch.setattr(authorization, "_MOST", 8)
    server, now = Reviewer(), [0.0]
    found = server.settings()
    assert isinstance(found, Configuration)
    review = AccessReview(Api(found, "walras-test"), lambda: now[0])
    most, guesses = authorization._AT_ONCE, [f"Bearer {number}" for number in range(20)]
    with ThreadPoolExecutor(30) as threads:
        try:
            assert review("Bearer scraper", "/metrics") == HTTPStatus.OK
            server.gate.clear()
            waiting = [threads.submit(review, each, "/metrics") for each in guesses]
            for _ in range(most):
                assert server.guesses.acquire(timeout=60)
            done, _ = wait(waiting, 60, FIRST_COMPLETED)
            assert {each.result() for each in done} == {HTTPStatus.SERVICE_UNAVAILABLE}
            for now[0] in (1.0, 61.0):  # the answer is kept, and asked for again
                scraped = threads.submit(review, "Bearer scraper", "/metrics")
                assert scraped.result(timeout=60) == HTTPStatus.OK
        finally:
            server.gate.set()
        results = [each.result() for each in waiting]
        assert results.count(HTTPStatus.UNAUTHORIZED) == most
        assert results.count(HTTPStatus.SERVICE_UNAVAILABLE) == len(guesses) - most
        for guess in guesses:
            assert review(guess, "/metrics") == HTTPStatus.UNAUTHORIZED
        asked = len(server.written)
        assert review("Bearer scraper", "/metrics") == HTTPStatus.OK, "guesses displace no answer"
        assert review(guesses[-1], "/metrics") == HTTPStatus.UNAUTHORIZED
        assert len(server.written) == asked, "both answers are kept"
        assert review(guesses[0], "/metrics") == HTTPStatus.UNAUTHORIZED
        assert len(server.written) == asked + 1, "of guesses, few answers are kept"
    server.close()
