"""Deadlines, node pools and core credits on a real node: what users and administrators are told.

A node of two CPUs has no two cores to reserve for a deadline, so deadlines are forecast here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from cluster_tools import apply, get, kubectl
from installed import IMAGE
from shared_node import deployment, entitlement, job, namespace
from waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from installed import Installed

pytestmark = pytest.mark.node

LAB, RIVAL = "lab", "vision"
PORTS = {"easy": 28124, "hopeless": 28125}
STEPS_A_SECOND = 1000
HOURS = {"easy": 0.1, "hopeless": 1000.0}
"""Hours of work on one core that each program has, for a deadline of a day."""

COUNTER = """
import http.server, threading, time
began = time.monotonic()
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(round({steps} * (time.monotonic() - began))).encode())
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("", {port}), Page).serve_forever()
"""


def due(program: str) -> dict[str, Any]:
    """A MarketJob with a deadline and a counter."""
    made = job(LAB, program)
    made["spec"] |= {
        "deadline": "1d",
        "progress": {
            "http": {"port": PORTS[program]},
            "total": str(round(3600 * HOURS[program] * STEPS_A_SECOND)),
        },
    }
    return made


@pytest.fixture(scope="module")
def lab(installed: Installed) -> Iterator[Installed]:
    """Walras with two programs that have a deadline, and a market with prices and credits."""
    rules = {
        "cores": {"credits": {"halfLifeHours": 1, "mostShare": "0.2"}},
        "nodePools": {
            "valuePerCoreHour": "1",
            "prices": [{"pool": "default", "perNodeHour": "0.01"}],
        },
    }
    kubectl("patch", "market", "default", "--type=merge", "-p", json.dumps({"spec": rules}))
    scripts = {
        name: COUNTER.format(steps=STEPS_A_SECOND, port=port) for name, port in PORTS.items()
    }
    apply(
        namespace(LAB),
        entitlement(LAB, 1),
        entitlement(RIVAL, 1),
        entitlement("idle", 2),
        *(deployment(LAB, name, IMAGE, script) for name, script in scripts.items()),
        *map(due, PORTS),
        job(RIVAL, "train"),
    )
    yield installed
    kubectl("delete", "namespace", LAB, "--timeout=60s")


def status(program: str) -> dict[str, Any]:
    path = f"/apis/walras.dev/v1alpha1/namespaces/{LAB}/marketjobs/{program}"
    found: dict[str, Any] = get(path).get("status", {})
    return found


def on_time(program: str) -> dict[str, str]:
    conditions = status(program).get("conditions", ())
    return next((each for each in conditions if each["type"] == "OnTime"), {})


def walras(*arguments: str) -> str:
    """Return the output of the command."""
    command = [str(Path(sys.executable).with_name("walras")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_deadline_is_forecast_from_the_programs_own_counter(lab: Installed) -> None:
    assert eventually(lambda: status("easy").get("deadline", {}).get("expectedFinish"), 240, 1)
    assert eventually(lambda: on_time("easy").get("status") == "True", 60, 1), on_time("easy")
    counters = lab.shared.allocation()["status"]["counters"]
    assert len([each for each in counters if float(each["value"]) > 0]) == len(PORTS)
    assert "deadline" in walras("explain", "job", "easy", "-n", LAB)


def test_a_deadline_out_of_reach_says_so_and_bends_nothing(lab: Installed) -> None:
    assert eventually(lambda: on_time("hopeless").get("status") == "False", 240, 1)
    told = on_time("hopeless")
    assert told["reason"] == "Late"
    assert "move spec.deadline" in told["message"]
    assert float(status("hopeless")["deadline"].get("reservedCores", 0)) == 0
    assert "late" in walras("explain", "job", "hopeless", "-n", LAB)
    assert eventually(lambda: not lab.shared.amiss(), 60, 1), lab.shared.amiss()


def test_more_nodes_are_recommended_where_they_are_worth_their_price(lab: Installed) -> None:
    market = "/apis/walras.dev/v1alpha1/markets/default"
    assert eventually(lambda: get(market)["status"].get("nodePools"), 180, 1)
    (pool,) = get(market)["status"]["nodePools"]
    assert (pool["name"], pool["nodes"]) == ("default", 1)
    assert pool["recommendedNodes"] == 2  # at a hundredth of what a core's work is worth
    assert float(pool["oneMore"]["progress"]) > 0
    assert "one more node of pool default would bring" in walras("explain", "cluster")
    assert "walras_operator_node_pool_recommended_nodes" in metrics(lab)


def test_who_is_idle_lends_and_is_owed(lab: Installed) -> None:
    idle = "/apis/walras.dev/v1alpha1/entitlements/idle"

    def lent() -> float:
        return float(get(idle).get("status", {}).get("coreCredits", {}).get("coreHours", "0"))

    assert eventually(lambda: lent() > 0, 240, 1), get(idle)
    assert "more each hour" in walras("explain", "user", "idle")


def metrics(lab: Installed) -> str:
    """The metrics of the operator."""
    port = json.loads(lab.values.read_text())["operator"]["port"]
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
