"""Facts: the market over time, as Prometheus has it from the operator's metrics.

Prometheus sees every operator, and standby operators report the same figures as the leader. A time
counts as observed if some operator led then; otherwise nobody decided, and the figures are old.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from socket import SHUT_RDWR
from threading import Timer
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from walras.outcome.history import (
    FIELDS,
    GIB,
    SLOT,
    History,
    MarketSample,
    part_of,
    slot_of,
    stored,
)
from walras.outcome.hourly_accounts import COLUMNS, DAY, HOUR, OTHERS, Day, HourSums
from walras_service.failures import BadInput, Failure
from walras_service.untrusted import printable
from walras_view.facts import Used

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping

    from walras.outcome.blocks import Table
    from walras.outcome.history import Kind

RESOLUTION = 300
"""Seconds between two points of a report: a gap is known to that precision."""

PATIENCE = 60.0
"""Seconds that an answer may take until its last byte."""

LARGEST_ANSWER = 256 * 2**20

LARGEST_FIGURE = 1e18
"""Amount beyond which a figure is none; a cluster has fewer bytes, and sums stay finite."""

_LONGEST_REASON = 300

_CHUNK = 7 * DAY  # 2 016 points: Prometheus returns at most 11 000 of a series
_ASKING = 4
_PREFIX = "walras_operator_"

_METRICS: Mapping[str, tuple[str, float]] = {
    "entitled": ("entitled_cores", 1),
    "bought": ("bought_cores", 1),
    "held": ("held_cores", 1),
    "used": ("used_cores", 1),
    "credits": ("credits", 1),
    "paid": ("spent_cores", 1),
    "memoryEntitled": ("entitled_memory_bytes", GIB),
    "memoryHeld": ("granted_memory_bytes", GIB),
    "memoryUsed": ("used_memory_bytes", GIB),
    "memoryLent": ("lent_memory_bytes", GIB),
    "memoryBorrowed": ("borrowed_memory_bytes", GIB),
}
"""Metric of each figure of a user, and its units in one unit of the figure."""

Points = dict[int, float]


class Range(NamedTuple):
    """The times of a query.

    Attributes:
        start: First time, in seconds since 1970.
        end: Last time, in seconds since 1970.
        step: Seconds between two times.
    """

    start: int
    end: int
    step: int


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, since the next host must not get the token."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect."""


class _Deadline(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Ends connections that take too long, even if a byte comes now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._sockets: list[socket.socket] = []

    def http_open(self, req: urllib.request.Request) -> Any:
        """Open a connection that ends in time."""
        return self.do_open(self._noted(HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> Any:
        """Open a connection that ends in time."""
        return self.do_open(self._noted(HTTPSConnection), req)

    def _noted(self, kind: type[HTTPConnection]) -> Any:
        sockets = self._sockets

        class Noted(kind):  # type: ignore[misc, valid-type]
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        return Noted

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Return a context after whose time the connections end."""
        timer = Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _end(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus server, or what answers like one, such as Thanos or Mimir.

    Attributes:
        url: Its URL, to which ``/api/v1`` is added.
        match: Label matchers, such as ``cluster="a"``, where it knows several clusters.
        token: Bearer token; empty for none.
        patience: Seconds that an answer may take.
    """

    url: str
    match: str = ""
    token: str = ""
    patience: float = PATIENCE

    @classmethod
    def at(cls, url: str, match: str = "", token_file: str | None = None) -> Prometheus:
        """Return the server at a URL.

        Raises:
            BadInput: The URL is none of HTTP, or the file cannot be read.
        """
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).netloc:
            raise BadInput(f"--prometheus {url}: write a URL such as http://prometheus:9090")
        try:
            token = Path(token_file).read_text().strip() if token_file else ""
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"--prometheus-token {token_file}: {error}") from error
        return cls(url.rstrip("/"), match, token)

    def query(self, metric: str, label: str, times: Range) -> dict[str, Points]:
        """Return the largest value of a metric of the operator at each time, by a label.

        Args:
            metric: Name of the metric without its prefix.
            label: Label; empty for the largest of all.
            times: Times to ask for.

        Raises:
            Failure: It cannot be asked, or refuses, with what it says.
        """
        by = f" by ({label})" if label else ""
        selector = f"{_PREFIX}{metric}" + (f"{{{self.match}}}" if self.match else "")
        series = self._asked(
            {
                "query": f"max{by} ({selector})",
                "start": str(times.start),
                "end": str(times.end),
                "step": str(times.step),
            }
        )
        try:
            return {str(each["metric"].get(label, "")): _points(each["values"]) for each in series}
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise self._failure("its answer is not one of Prometheus's range API") from error

    def use_of_pods(self) -> dict[tuple[str, str], Used]:
        """Return the CPUs that pods use now, by namespace and name, as kubelets count them.

        Raises:
            Failure: It cannot be asked, or refuses, with what it says.
        """
        labels = ",".join(filter(None, ('container!="",pod!=""', self.match)))
        rate = f"rate(container_cpu_usage_seconds_total{{{labels}}}[5m])"
        series = self._asked({"query": f"sum by (namespace, pod) ({rate})"}, "query")
        try:
            values = {
                (str(each["metric"]["namespace"]), str(each["metric"]["pod"])): each["value"][1]
                for each in series
            }
            used = {name: Used(float(cpus), 0) for name, cpus in values.items()}
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise self._failure("its answer is not one of Prometheus's query API") from error
        return {name: each for name, each in used.items() if 0 <= each.cpus <= LARGEST_FIGURE}

    def _asked(self, parameters: Mapping[str, str], api: str = "query_range") -> list[Any]:
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(  # noqa: S310 - `at` has seen to the scheme
            f"{self.url}/api/v1/{api}?{urlencode(parameters)}", headers=headers
        )
        deadline = _Deadline()
        opener = urllib.request.build_opener(_NoRedirect, deadline)
        try:
            with deadline.within(self.patience), opener.open(request, timeout=PATIENCE) as answer:
                text = answer.read(LARGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._failure(_said(error)) from error
        except (OSError, HTTPException) as error:
            raise self._failure(str(getattr(error, "reason", error))) from error
        if len(text) > LARGEST_ANSWER:
            raise self._failure("its answer is larger than 256 MiB; ask for less time")
        try:
            return list(json.loads(text)["data"]["result"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._failure("its answer is not one of Prometheus's range API") from error

    def _failure(self, why: str) -> Failure:
        return Failure(f"{self.url}: {why}; check --prometheus")


def prometheus_history(prometheus: Prometheus, since: int, step: int, now: int) -> History:
    """Return the history of users and nodes that Prometheus has.

    Args:
        prometheus: The server.
        since: Seconds to look back.
        step: Seconds between two times.
        now: Current time, in seconds since 1970.

    Raises:
        Failure: It cannot be asked.
    """
    times = Range(-(-(now - since) // step) * step, now - now % step, step)
    users = _users(prometheus, times)
    prices = prometheus.query("core_price", "node", times)
    samples: dict[int, MarketSample] = {}
    for time in range(times.start, times.end + 1, step):
        nodes = {
            name: stored((points[time], None), "node")
            for name, points in prices.items()
            if time in points
        }
        tables: dict[Kind, Table] = {"user": users.get(time, {}), "node": nodes}
        samples[time] = MarketSample(time, tables)
    slots = sorted({slot_of(time) for time in samples})
    unbounded = SLOT * LARGEST_ANSWER
    parts = [
        part_of(slot, [each for each in samples.values() if slot_of(each.time) == slot], unbounded)
        for slot in slots
    ]
    note = "Prometheus has no figures of jobs, nor of how much of each node is sold"
    sampled = any(part.blocks for part in parts)
    return History(
        "prometheus" if sampled else "none",
        step,
        tuple(samples),
        tuple(parts),
        (note,) if sampled else (f"{prometheus.url} has no metrics of a Walras operator",),
    )


def days_of(prometheus: Prometheus, start: int, end: int) -> tuple[Day, ...]:
    """Return the accounts of users that follow from Prometheus's figures.

    Args:
        prometheus: The server.
        start: Start, in seconds since 1970, a multiple of `RESOLUTION`.
        end: End, in seconds since 1970, a multiple of `RESOLUTION`.

    Raises:
        Failure: It cannot be asked.
    """
    chunks = [
        Range(first, min(first + _CHUNK, end) - RESOLUTION, RESOLUTION)
        for first in range(start, end, _CHUNK)
    ]
    days: dict[int, Day] = {}
    for chunk in chunks:
        for each in _observed(prometheus, chunk):
            days[each.number] = days.get(each.number, Day(each.number)) + each
    return tuple(days[number] for number in sorted(days))


def _observed(prometheus: Prometheus, times: Range) -> Iterator[Day]:
    led = prometheus.query("leader", "", times).get("", {})
    users = _users(prometheus, times)
    names = [each.name for each in FIELDS["user"]]
    places = [names.index(each.name) for each in COLUMNS]
    for time in sorted(led):
        if led[time] != 1:
            continue
        table = {
            name: tuple(
                None if (value := row[place]) is None else value * times.step for place in places
            )
            for name, row in users.get(time, {}).items()
        }
        yield Day(time // DAY, {time - time % HOUR: HourSums(times.step, table)})


def _users(prometheus: Prometheus, times: Range) -> dict[int, Table]:
    """Return the figures of all users at each time."""
    with ThreadPoolExecutor(_ASKING) as pool:
        answers = {
            figure: pool.submit(prometheus.query, metric, "entitlement", times)
            for figure, (metric, _) in _METRICS.items()
        }
    figures = {figure: answer.result() for figure, answer in answers.items()}
    figures["credits"] = _above_mean(figures["credits"])
    tables: dict[int, Table] = {}
    for name in sorted({name for series in figures.values() for name in series} - {OTHERS}):
        mine = {figure: series.get(name, {}) for figure, series in figures.items()}
        for time in sorted({time for points in mine.values() for time in points}):
            row = {
                figure: points[time] / _METRICS[figure][1]
                for figure, points in mine.items()
                if time in points
            }
            tables.setdefault(time, {})[name] = _row(row)
    return tables


def _above_mean(series: Mapping[str, Points]) -> dict[str, Points]:
    """Return how far each user's value is above the mean of all users at that time."""
    values: dict[int, list[float]] = {}
    for points in series.values():
        for time, value in points.items():
            values.setdefault(time, []).append(value)
    means = {time: sum(each) / len(each) for time, each in values.items()}
    return {
        name: {time: value - means[time] for time, value in points.items()}
        for name, points in series.items()
    }


def _row(reported: Mapping[str, float]) -> tuple[int | None, ...]:
    """Return the stored row of a user's figures, with those that follow from others."""
    figures: dict[str, float | None] = dict(reported)
    entitled, bought, paid = (reported.get(name) for name in ("entitled", "bought", "paid"))
    if entitled is not None and bought is not None:
        figures |= {"lent": max(entitled - bought, 0.0), "borrowed": max(bought - entitled, 0.0)}
    if bought and paid is not None:
        figures["price"] = paid / bought
    return stored((figures.get(each.name) for each in FIELDS["user"]), "user")


def _points(values: Any) -> Points:
    points = {round(float(time)): float(value) for time, value in values}
    return {time: value for time, value in points.items() if abs(value) <= LARGEST_FIGURE}


def _said(error: urllib.error.HTTPError) -> str:
    """Return what Prometheus says of a request that it refuses."""
    try:
        said = " ".join(str(json.loads(error.read(10_000))["error"]).split())
        return f"{error.code}: {printable(said)[:_LONGEST_REASON]}"
    except (ValueError, KeyError, TypeError, OSError, HTTPException, RecursionError):
        return f"HTTP status {error.code} {error.reason}"
