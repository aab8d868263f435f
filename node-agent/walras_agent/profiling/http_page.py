"""Facts: a number that a job serves by HTTP from its pod's address.

The job is not trusted: nothing is followed elsewhere, no proxy is asked, the page may be no larger
than `LARGEST`, and all of it must have come within `PATIENCE_SECONDS`, however it is dealt out.
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

from walras_agent.profiling.counters import PATIENCE_SECONDS, CounterError, parse_number

if TYPE_CHECKING:
    from walras_agent.profiling.request import HttpCounter, Source

LARGEST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class HttpPage:
    """The number on a page, or a metric on a page in Prometheus's text format.

    Attributes:
        page: Where.
        source: What is counted.
    """

    page: HttpCounter
    source: Source = field(default="http", init=False)

    def read(self) -> float:
        """See `Counter`."""
        body = self._body()
        if self.page.metric is None:
            return parse_number(body, self._url)
        return metric_sum(body.decode("utf-8", "replace"), self.page.metric, self._url)

    def close(self) -> None:
        """See `Counter`."""

    def _body(self) -> bytes:
        try:
            response = HTTPResponse(_Received(self._answer()))  # type: ignore[arg-type]
            response.begin()
            body = response.read()
        except (OSError, HTTPException, ValueError, OverflowError) as error:
            # The last two where a length is said that no page can have.
            raise CounterError(
                f"{self._url}: {str(error) or type(error).__name__}; let the job serve its counter"
            ) from error
        if response.status != 200:
            raise CounterError(
                f"{self._url} answers {response.status}; it must answer 200 with the counter"
            )
        return body

    def _answer(self) -> bytes:
        """All that the server sends, until it closes; of one that does not, what came in time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        lines = (f"GET {self.page.path} HTTP/1.0", f"Host: {self._host}", "Connection: close", "")
        request = "".join(f"{line}\r\n" for line in lines)
        came = bytearray()
        address = (self.page.address, self.page.port)
        with socket.create_connection(address, PATIENCE_SECONDS) as connection:
            connection.sendall(request.encode("ascii"))
            while (left := deadline - time.monotonic()) > 0:
                connection.settimeout(left)
                try:
                    part = connection.recv(65536)
                except TimeoutError:
                    break
                if not part:
                    break
                came += part
                if len(came) > LARGEST:
                    raise OSError(f"the page is larger than {LARGEST} bytes")
        if not came:
            raise OSError(f"no answer within {PATIENCE_SECONDS:g} s")
        return bytes(came)

    @property
    def _host(self) -> str:
        host = f"[{self.page.address}]" if ":" in self.page.address else self.page.address
        return f"{host}:{self.page.port}"

    @property
    def _url(self) -> str:
        return f"http://{self._host}{self.page.path}"


@dataclass(frozen=True, slots=True)
class _Received:
    """What came from a server, in place of the socket that `HTTPResponse` reads."""

    answer: bytes

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self.answer)


def metric_sum(text: str, metric: str, where: str) -> float:
    """The sum over all series of a metric, in Prometheus's text format.

    Format: https://prometheus.io/docs/instrumenting/exposition_formats. A line has the metric's
    name, perhaps labels in braces, whose quoted values may hold anything, the value, and perhaps
    a time.

    Raises:
        CounterError: There is none.
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
        raise CounterError(f"{metric} at {where} is beyond all numbers; count less") from None
