"""A job's counter is read from a real server, which may do anything but harm."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from walras_agent.profiling.counters import CounterError
from walras_agent.profiling.http_page import MAX_BYTES, HttpPage, metric_sum
from walras_agent.profiling.request import HttpSource

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = """\
# HELP steps_total Training steps.
# TYPE steps_total counter
steps_total{worker="0",shard="a}b\\"c d"} 12.5 1395066363000
steps_total{worker="1"} 3e2
steps_total_errors 7
other 1
plain 42
spaced {a="b"}\t5
nothing NaN
"""


@contextmanager
def serving(*parts: bytes, host: str = "127.0.0.1", close: bool = True) -> Iterator[HttpSource]:
    """Answer one connection with these bytes; then close it, or keep it open."""
    done = threading.Event()

    def answer() -> None:
        with listener, listener.accept()[0] as connection:
            received = b""
            while not received.endswith(b"\r\n\r\n"):
                received += connection.recv(65536)
            for part in parts:
                try:
                    connection.sendall(part.replace(b"REQUEST", received.split(b"\r\n")[0]))
                except OSError:
                    break
            if not close:
                done.wait()

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield HttpSource(host, listener.getsockname()[1], "/progress?of=all")
    finally:
        done.set()
        thread.join()


def plain(body: bytes, status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status + b"\r\n" + headers + b"\r\n" + body


@pytest.mark.system
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_number_on_a_page_is_read(host: str) -> None:
    with serving(plain(b"12"), b"34.5 steps\n", host=host) as page:
        assert HttpPage(page).read() == 1234.5


@pytest.mark.system
def test_server_that_keeps_the_connection_open_is_read_all_the_same() -> None:
    with serving(plain(b"17", headers=b"Content-Length: 2\r\n"), close=False) as page:
        assert HttpPage(page).read() == 17


@pytest.mark.system
def test_page_in_chunks_is_put_together() -> None:
    chunks = plain(b"1\r\n1\r\n2\r\n23\r\n0\r\n\r\n", headers=b"Transfer-Encoding: chunked\r\n")
    with serving(chunks) as page:
        assert HttpPage(page).read() == 123


@pytest.mark.system
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(
            plain(b"", b"302 Found", b"Location: http://[::1]/\r\n"), "302", id="redirect"
        ),
        pytest.param(plain(b"5", b"404 Not Found"), "404", id="no such page"),
        pytest.param(plain(b"soon"), "does not begin with a number", id="no number"),
        pytest.param(plain(b""), "does not begin with a number", id="empty"),
        pytest.param(plain(b"inf"), "does not begin with a number", id="infinity"),
        pytest.param(plain(b"1" * (MAX_BYTES + 1)), "larger than", id="too large"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "SSH-2.0", id="not HTTP"),
        pytest.param(b"", "closed|no answer", id="nothing"),
        pytest.param(
            plain(b"5", headers=b"Content-Length: " + b"9" * 30 + b"\r\n"), "too|fit", id="length"
        ),
        pytest.param(
            plain(b"f" * 30 + b"\r\n5", headers=b"Transfer-Encoding: chunked\r\n"),
            "too|fit",
            id="chunk",
        ),
    ],
)
def test_what_is_no_counter_is_said(answer: bytes, said: str) -> None:
    with serving(answer) as page, pytest.raises(CounterError, match=said):
        HttpPage(page).read()


@pytest.mark.system
def test_silent_server_is_left_alone() -> None:
    with serving(close=False) as page, pytest.raises(CounterError, match="no answer within 1 s"):
        HttpPage(page).read()


@pytest.mark.system
def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(plain(b"8")) as page:
        assert HttpPage(page).read() == 8


@pytest.mark.parametrize(
    ("metric", "value"),
    [("steps_total", 312.5), ("plain", 42), ("spaced", 5), ("other", 1)],
)
def test_series_of_a_metric_are_added(metric: str, value: float) -> None:
    assert metric_sum(PAGE, metric, "here") == value


@pytest.mark.parametrize("metric", ["steps", "total", "absent", "HELP"])
def test_metric_that_is_not_there_is_not_found(metric: str) -> None:
    with pytest.raises(CounterError, match="name one of its counters"):
        metric_sum(PAGE, metric, "here")


def test_metric_that_is_no_number_is_said() -> None:
    with pytest.raises(CounterError, match="does not begin with a number"):
        metric_sum(PAGE, "nothing", "here")


def test_page_made_to_be_slow_is_not() -> None:
    """A pattern that goes back and forth over such lines would not come to an end."""
    hostile = 'x{a="' + '\\"{' * 300_000 + "\n" + 'x{"' * 1000
    with pytest.raises(CounterError):
        metric_sum(hostile, "x", "here")
