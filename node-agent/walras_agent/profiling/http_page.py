"""Facts: reads a job's progress from a page that its pod serves by HTTP.

The job is not trusted: redirections are not followed, no proxy is used, the page may have at most
`MAX_BYTES`, and all of it must arrive within `TIMEOUT_SECONDS`.
"""

from __future__ import annotations

import io
import math
import re
import socket
import time
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING

from walras_agent.profiling.counters import TIMEOUT_SECONDS, CounterError, parse_number

if TYPE_CHECKING:
    from walras_agent.profiling.request import HttpSource, Source

MAX_BYTES = 1 << 20  # bytes

_MAX_CAUSE = 100  # characters of an error that may quote the answer


@dataclass(frozen=True, slots=True)
class HttpPage:
    """Counter that reads a number, or a metric in Prometheus's text format, from a page.

    Attributes:
        page: Address of the page.
        source: Kind of the counter.
    """

    page: HttpSource
    source: Source = field(default="http", init=False)

    def read(self) -> float:
        """Return the progress so far, as `Counter.read` does."""
        body = self._body()
        if self.page.metric is None:
            return parse_number(body, self._url)
        return metric_sum(body.decode("utf-8", "replace"), self.page.metric, self._url)

    def close(self) -> None:
        """Do nothing: no resource is held between reads."""

    def _body(self) -> bytes:
        try:
            response = HTTPResponse(_ReceivedAnswer(self._answer()))  # type: ignore[arg-type]
            response.begin()
            body = response.read()
        except (OSError, HTTPException, ValueError, OverflowError) as error:
            # ValueError and OverflowError: the server announces an impossible length.
            cause = str(error)[:_MAX_CAUSE] or type(error).__name__
            raise CounterError(f"{self._url}: {cause}; let the job serve its counter") from error
        if response.status != 200:
            raise CounterError(
                f"{self._url} answers {response.status}; it must answer 200 with the counter"
            )
        return body

    def _answer(self) -> bytes:
        """Return what the server sends until it closes the connection, or until the timeout."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        lines = (f"GET {self.page.path} HTTP/1.0", f"Host: {self._host}", "Connection: close", "")
        request = "".join(f"{line}\r\n" for line in lines)
        received = bytearray()
        address = (self.page.address, self.page.port)
        with socket.create_connection(address, TIMEOUT_SECONDS) as connection:
            connection.sendall(request.encode("ascii"))
            while (left := deadline - time.monotonic()) > 0:
                connection.settimeout(left)
                try:
                    part = connection.recv(65536)
                except TimeoutError:
                    break
                if not part:
                    break
                received += part
                if len(received) > MAX_BYTES:
                    raise OSError(f"the page is larger than {MAX_BYTES} bytes")
        if not received:
            raise OSError(f"no answer within {TIMEOUT_SECONDS:g} s")
        return bytes(received)

    @property
    def _host(self) -> str:
        host = f"[{self.page.address}]" if ":" in self.page.address else self.page.address
        return f"{host}:{self.page.port}"

    @property
    def _url(self) -> str:
        return f"http://{self._host}{self.page.path}"


@dataclass(frozen=True, slots=True)
class _ReceivedAnswer:
    """A server's answer in place of the socket that `HTTPResponse` reads."""

    answer: bytes

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self.answer)


def metric_sum(text: str, metric: str, where: str) -> float:
    """Return the sum over all series of a metric in a page of Prometheus's text format.

    Format: https://prometheus.io/docs/instrumenting/exposition_formats. A line has the metric's
    name, perhaps labels in braces, whose quoted values may contain anything, the value, and perhaps
    a time.

    Raises:
        CounterError: The page has no such metric, or a value is no number.
    """
    labels = r'\{(?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*\}'
    series = re.compile(rf"^{re.escape(metric)}(?:[ \t]*{labels}[ \t]*|[ \t]+)(\S+)", re.MULTILINE)
    values = [
        parse_number(match[1].encode(), f"{metric} at {where}") for match in series.finditer(text)
    ]
    if not values:
        raise CounterError(f"{where} has no metric {metric}; name one of its counters")
    try:
        return math.fsum(values)
    except OverflowError:
        raise CounterError(
            f"{metric} at {where} is too large to be a number; count in a larger unit"
        ) from None
