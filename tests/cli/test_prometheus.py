"""Reports and history from Prometheus: from answers as it gives them, and from a real one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import urllib.request
from datetime import UTC, datetime
from socket import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from answering import Answering, send
from waiting import eventually
from walras.outcome.hourly_accounts import DAY, HOUR
from walras_cli.cluster.prometheus import Prometheus, Range, days_of, prometheus_history
from walras_cli.cluster.report.sums import Row, report_of
from walras_cli.main import main
from walras_service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

pytestmark = pytest.mark.system

START = 20_700 * DAY
STEP = 300


class Server(Answering):
    """A server that answers queries for ranges in the format of Prometheus's documentation.

    Attributes:
        values: Value of a metric of the operator by its name, label and time; None for no point.
        code: Status of all answers.
        body: Body of all answers; None to answer queries.
        asked: Paths and headers of all requests.
    """

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Callable[[int], float | None]]] = {}
        self.code, self.body = 200, ""
        self.asked: list[tuple[str, str | None]] = []
        super().__init__()

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append((request.path, request.headers.get("Authorization")))
        moved = {"Location": "http://127.0.0.1:1/"} if self.code == 302 else {}
        send(request, self.code, self.body.encode() or self.answer(request.path), **moved)

    def answer(self, path: str) -> dict[str, Any]:
        query = {key: each[0] for key, each in parse_qs(urlsplit(path).query).items()}
        metric = query["query"].partition("(walras_operator_")[2].rstrip(")").partition("{")[0]
        label = "entitlement" if "by (entitlement)" in query["query"] else "node"
        times = range(int(query["start"]), int(query["end"]) + 1, int(query["step"]))
        result = [
            {
                "metric": {label: name} if name else {},
                "values": [[t, str(value)] for t in times if (value := at(t)) is not None],
            }
            for name, at in self.values.get(metric, {}).items()
        ]
        return {"status": "success", "data": {"resultType": "matrix", "result": result}}


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    try:
        yield made
    finally:
        made.close()


def fill(server: Server) -> None:
    """Two users for two hours, in which nobody led for half of one."""
    away = range(START + HOUR, START + HOUR + 1800)
    server.values = {
        "leader": {"": lambda t: 0.0 if t in away else 1.0},
        "entitled_cores": {"ann": lambda _: 4.0, "bob": lambda _: 4.0},
        "bought_cores": {"ann": lambda _: 5.0, "bob": lambda _: 3.0},
        "held_cores": {"ann": lambda t: 6.0 if t < START + HOUR else 2.0, "bob": lambda _: 2.0},
        "spent_cores": {"ann": lambda _: 4.0},
        "used_cores": {"ann": lambda _: 1.5},
        "granted_memory_bytes": {"ann": lambda _: float(2**31)},
        "credits": {"ann": lambda t: float("nan") if t == START else 5.0, "bob": lambda _: 1.0},
        "core_price": {"n1": lambda _: 1.25},
    }


def rows(server: Server) -> dict[str, Row]:
    days = days_of(Prometheus.at(server.url), START, START + 2 * HOUR)
    made = report_of(days, START, START + 2 * HOUR)
    return {each.user: each for each in made.rows}


def test_sums_follow_from_the_points_at_which_somebody_led(server: Server) -> None:
    fill(server)
    found = rows(server)
    ann, bob = found["ann"], found["bob"]
    assert ann.cores.entitled == 4 * 1.5
    assert ann.cores.held == 6 + 2 * 0.5
    assert (ann.cores.used, bob.cores.used) == (1.5 * 1.5, None)
    assert (ann.cores.borrowed, ann.cores.lent) == (1.5, 0)
    assert (bob.cores.borrowed, bob.cores.lent) == (0, 1.5)
    assert (ann.cores.paid, ann.cores.price) == (6, 0.8)
    assert bob.cores.paid is None
    assert ann.memory.held == 3
    days = days_of(Prometheus.at(server.url), START, START + 2 * HOUR)
    (period,) = report_of(days, START, START + 2 * HOUR).periods
    assert [gap.missing_seconds for gap in period.gaps] == [1800]


def test_history_has_users_and_prices(server: Server) -> None:
    fill(server)
    now = START + 2 * HOUR
    found = prometheus_history(Prometheus.at(server.url), 2 * HOUR, STEP, now)
    assert found.source == "prometheus"
    assert found.times == tuple(range(START, now + 1, STEP))
    ann = {each.name: each.values for each in found.series("user", "ann")}
    assert set(ann["held"]) == {6.0, 2.0}
    assert ann["credits"][:2] == (None, 2.0), "above the mean of all users"
    (price, sold) = found.series("node", "n1")
    assert set(price.values) == {1.25}
    assert set(sold.values) == {None}
    server.values = {}
    assert prometheus_history(Prometheus.at(server.url), HOUR, STEP, now).source == "none"


def test_long_times_are_asked_for_in_parts_and_matchers_and_tokens_are_sent(
    server: Server, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    found = Prometheus.at(server.url + "/", 'cluster="a"', str(token))
    days_of(found, START, START + 30 * DAY)
    queries = [parse_qs(urlsplit(path).query) for path, _ in server.asked]
    assert {authorization for _, authorization in server.asked} == {"Bearer secret"}
    assert 'max (walras_operator_leader{cluster="a"})' in {each["query"][0] for each in queries}
    assert len({each["start"][0] for each in queries}) == 5
    for each in queries:
        points = (int(each["end"][0]) - int(each["start"][0])) // int(each["step"][0]) + 1
        assert points <= 11_000


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [
        (
            422,
            '{"status": "error", "errorType": "execution", "error": "too many samples"}',
            "422: too many samples",
        ),
        (401, "who are you", "HTTP status 401 Unauthorized"),
        (302, "elsewhere", "HTTP status 302"),
        (200, "<html>", "its answer is not one of Prometheus's range API"),
        (200, "[]", "its answer is not one of Prometheus's range API"),
        (200, '{"data": {"result": [{"metric": {}}]}}', "not one of Prometheus's range API"),
    ],
)
def test_what_prometheus_refuses_is_said(server: Server, code: int, body: str, said: str) -> None:
    server.code, server.body = code, body
    with pytest.raises(Failure) as caught:
        days_of(Prometheus.at(server.url), START, START + HOUR)
    assert said in str(caught.value)
    assert str(caught.value).startswith(server.url)


def test_a_server_that_is_away_is_one_line() -> None:
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        done = CliRunner().invoke(main, ["report", "--prometheus", url], prog_name="walras")
    assert done.exit_code == 1
    assert "Connection refused; check --prometheus" in done.output


def test_the_command_reports_from_prometheus(server: Server) -> None:
    fill(server)
    since = ["--since", "2026-09-04T00:00:00Z", "--until", "2026-09-04T02:00:00Z"]
    assert START == 20_700 * DAY
    server.values["leader"] = {"": lambda _: 1.0}
    options = ["report", "--prometheus", server.url, *since]
    done = CliRunner().invoke(main, [*options, "-o", "json"], prog_name="walras")
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    assert document["source"] == "prometheus"
    assert [each["user"] for each in document["rows"]] == ["ann", "bob"]
    assert document["rows"][0]["cores"]["entitled"] == 8
    shown = CliRunner().invoke(main, options, prog_name="walras")
    assert "core-hours" in shown.output
    assert "ann" in shown.output
    cost = CliRunner().invoke(main, [*options, "--format", "opencost"], prog_name="walras")
    assert json.loads(cost.output)["data"][0]["ann"]["cpuCost"] == 8


BINARIES = os.environ.get("WALRAS_PROMETHEUS", "")
PROMETHEUS = shutil.which("prometheus", path=BINARIES or None) or ""
PROMTOOL = shutil.which("promtool", path=BINARIES or None) or ""
needs_prometheus = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL),
    reason="needs prometheus and promtool: put them on PATH, or their folder in WALRAS_PROMETHEUS "
    "(Debian: apt install prometheus)",
)

SCRAPE = 60


def exposition() -> Iterator[str]:
    """Two days of two operators, as OpenMetrics; between 6:00 and 7:00 of the first, none led."""
    times = range(START, START + 2 * DAY, SCRAPE)
    gauges = {
        "entitled_cores": {"ann": 4.0, "bob": 4.0},
        "bought_cores": {"ann": 5.0, "bob": 3.0},
        "held_cores": {"ann": 6.0, "bob": 2.0},
        "spent_cores": {"ann": 4.5, "bob": 3.5},
        "granted_memory_bytes": {"ann": float(2**31)},
    }
    for metric, users in gauges.items():
        yield f"# TYPE walras_operator_{metric} gauge"
        for user, value in users.items():
            for pod in ("operator-0", "operator-1"):
                labels = f'entitlement="{user}",pod="{pod}"'
                for time in times:
                    yield f"walras_operator_{metric}{{{labels}}} {value} {time}"
    yield "# TYPE walras_operator_leader gauge"
    for pod in ("operator-0", "operator-1"):
        for time in times:
            leads = pod == "operator-0" and not START + 6 * HOUR <= time < START + 7 * HOUR
            yield f'walras_operator_leader{{pod="{pod}"}} {int(leads)} {time}'
    yield "# EOF"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "metrics").write_text("\n".join(exposition()) + "\n")
    (folder / "prometheus.yml").write_text("global: {}\n")
    subprocess.run(
        [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "metrics", "data"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    options += [f"--web.listen-address={address}", "--storage.tsdb.retention.time=100y"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([PROMETHEUS, *options], cwd=folder, stderr=log, stdout=log)

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        assert eventually(ready, 60), (folder / "log").read_text()
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


@needs_prometheus
def test_a_real_prometheus_gives_the_sums_of_its_samples(prometheus: str) -> None:
    days = days_of(Prometheus.at(prometheus), START, START + 2 * DAY)
    made = report_of(days, START, START + 2 * DAY)
    hours = 47
    ann, bob = made.rows
    assert ann.cores.held == pytest.approx(6 * hours)
    assert ann.cores.paid == pytest.approx(4.5 * hours)
    assert bob.cores.lent == pytest.approx(hours)
    assert ann.memory.held == pytest.approx(2 * hours)
    (gap,) = made.periods[0].gaps
    assert (gap.start[11:16], gap.end[11:16], gap.missing_seconds) == ("06:00", "07:00", HOUR)


@needs_prometheus
def test_a_real_prometheus_says_what_is_wrong_with_a_matcher(prometheus: str) -> None:
    with pytest.raises(Failure, match=r"400: .*(parse error|invalid parameter)"):
        days_of(Prometheus.at(prometheus, "cluster"), START, START + HOUR)


@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e308", "-1e308", "1e19"])
def test_figures_that_are_none_are_left_out(server: Server, value: str) -> None:
    fill(server)
    server.values["held_cores"]["ann"] = server.values["credits"]["bob"] = lambda _: float(value)
    found = rows(server)
    assert found["ann"].cores.held is None
    assert found["bob"].cores.entitled == 6.0, "the rest goes on"
    history = prometheus_history(Prometheus.at(server.url), 7200, STEP, START + 2 * HOUR)
    assert history.source == "prometheus"


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"data": {"result": ' + "[" * 100_000,
        '{"data": {"result": [{"metric": {}, "values": [[Infinity, "1"]]}]}}',
        '{"data": {"result": [{"metric": {}, "values": [[1e400, "1"]]}]}}',
        '{"data": {"result": [{"metric": {}, "values": [["NaN", "1"]]}]}}',
        '{"data": {"result": "abc"}}',
        '{"data": {"result": [7]}}',
    ],
)
@pytest.mark.parametrize("code", [200, 400])
def test_an_answer_that_is_none_is_told_in_one_line(server: Server, body: str, code: int) -> None:
    server.body, server.code = body, code
    with pytest.raises(Failure) as told:
        Prometheus.at(server.url).query("leader", "", Range(0, 600, 300))
    message = told.value.format_message()
    assert "\n" not in message
    assert "check --prometheus" in message


def test_what_it_says_of_an_error_cannot_change_the_terminal(server: Server) -> None:
    server.body, server.code = json.dumps({"error": "a\nb\x1b[2J" + "c" * 1000}), 400
    with pytest.raises(Failure) as told:
        Prometheus.at(server.url).query("leader", "", Range(0, 600, 300))
    message = told.value.format_message()
    assert "400: a b?[2Jccc" in message
    assert len(message) < 500


@pytest.mark.parametrize("head", [True, False], ids=["head", "body"])
def test_an_answer_that_drips_for_ever_ends(head: bool) -> None:
    """A byte comes now and then, so that no single read takes long."""

    class Dripping(Answering):
        def respond(self, request: BaseHTTPRequestHandler) -> None:
            start = b"HTTP/1.1 200 OK\r\n" if head else b"HTTP/1.1 200 OK\r\n\r\n"
            request.close_connection = True
            with contextlib.suppress(OSError):
                request.wfile.write(start)
                while True:
                    request.wfile.write(b"X-A: b\r\n")
                    request.wfile.flush()
                    threading.Event().wait(0.01)

    server = Dripping()
    try:
        with pytest.raises(Failure, match="check --prometheus"):
            Prometheus(server.url, patience=0.3).query("leader", "", Range(0, 600, 300))
    finally:
        server.close()


def test_a_report_believes_the_charts_operator_alone(server: Server) -> None:
    fill(server)
    since = datetime.fromtimestamp(START, UTC).isoformat()
    until = datetime.fromtimestamp(START + 2 * HOUR, UTC).isoformat()
    arguments = ["report", "--prometheus", server.url, "--since", since, "--until", until]
    CliRunner().invoke(main, arguments, catch_exceptions=False)
    asked = [parse_qs(urlsplit(path).query)["query"][0] for path, _ in server.asked]
    assert asked
    assert all('{namespace="walras-system",service="walras-operator"}' in each for each in asked)
