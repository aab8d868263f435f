"""Connections that never become requests, and probes that no viewer can keep from an answer."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI

from waiting import PATIENCE, eventually
from walras_dashboard import serving
from walras_dashboard.serving import bound, probes_answered, server_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_dashboard.serving import Server

pytestmark = pytest.mark.system


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, int, int]]:
    """A server, its port, and that of its probes."""
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    app = FastAPI()

    @app.get("/")
    def page() -> str:
        return "page"

    server = server_of(app)
    with (
        bound("127.0.0.1", 0) as on,
        bound("127.0.0.1", 0) as probes,
        probes_answered(server, probes),
    ):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [on]}, daemon=True)
        thread.start()
        assert eventually(lambda: server.started)
        yield server, on.getsockname()[1], probes.getsockname()[1]
        server.should_exit = True
        thread.join(PATIENCE)


def get(port: int) -> tuple[int, bytes]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as answer:
        return answer.status, answer.read()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_a_connection_without_a_whole_head_is_closed(
    ports: tuple[Server, int, int], sent: bytes
) -> None:
    _, port, _ = ports
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as half:
        half.sendall(sent)
        assert half.recv(100) == b""
    assert get(port) == (200, b'"page"')


def test_half_a_request_after_a_whole_one_is_closed_too(ports: tuple[Server, int, int]) -> None:
    _, port, _ = ports
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as half:
        half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b'page"'):
            answer += half.recv(1000)
        half.sendall(b"GET / HTTP/1.1\r\nHost")
        assert half.recv(100) == b""


def test_probes_are_answered_beside_half_requests_and_fail_once_the_loop_stands_still(
    ports: tuple[Server, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, port, probes = ports
    address = ("127.0.0.1", port)
    halves = [socket.create_connection(address, timeout=PATIENCE) for _ in range(100)]
    assert get(probes) == (200, b"ok\n")
    for each in halves:
        each.close()
    monkeypatch.setattr(type(server), "lives", property(lambda _: False))
    with pytest.raises(urllib.error.HTTPError, match="503"):
        get(probes)


def test_a_loop_that_stands_still_does_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_of(FastAPI())
    monkeypatch.setattr("walras_dashboard.serving.time.monotonic", lambda: 100.0)
    server.ticked = 91.0
    assert server.lives
    server.ticked = 89.0
    assert not server.lives
