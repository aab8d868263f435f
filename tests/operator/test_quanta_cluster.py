"""Quanta on a real API server, by real operators that are killed: the ledger follows from the log.

Nodes and pods are made through the API; of agents there are Leases only. Two operators stand by for
each other, and every one that dies is followed by another.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from faulty_proxy import FAULTS, FaultyProxy
from market_cluster import OURS, MarketCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from walras_operator.command import main
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_cluster

USERS = ("ann", "bob", "cyd")
QUANTA = 30
MARKET = f"{OURS}/markets/default"


class Operators:
    """Operators as processes, each with a log of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kubeconfig = folder, KUBECONFIG
        self.logs: list[Path] = []
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        log = self.folder / f"operator-{len(self.logs)}.log"
        options = ["--lease-seconds", "3", "--listen", "off", "--debounce", "0.05", "0.2"]
        command = [sys.executable, "-m", "walras_operator", "run", "--kubeconfig", self.kubeconfig]
        with log.open("w") as out:
            self.running.append(subprocess.Popen([*command, *options], stderr=out, stdout=out))
        self.logs.append(log)

    def kill(self) -> None:
        """Kill a random one of the operators."""
        process = self.running.pop(random.randrange(len(self.running)))
        process.kill()
        process.wait()

    def close(self) -> None:
        while self.running:
            self.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MarketCluster]:
    made = MarketCluster(KUBECONFIG, tmp_path)
    try:
        made.namespace("lab")
        made.make(
            market(memory={"quantumSeconds": 1, "sliceSize": "1Gi"}, epochSeconds=5),
            *(entitlement(user) for user in USERS),
            *(job(user, user, memory={"demand": "4Gi"}) for user in USERS),
            node("n1"),
            node("n2"),
            *(pod(f"{user}-{n}", user, n) for user in USERS for n in ("n1", "n2")),
        )
        made.agents_live(("n1", "n2"))
        yield made
    finally:
        made.close()


@pytest.fixture
def operators(tmp_path: Path) -> Iterator[Operators]:
    made = Operators(tmp_path)
    try:
        yield made
    finally:
        made.close()


def ledger(cluster: MarketCluster) -> dict[str, Any]:
    found = cluster.read(MARKET) or {}
    told: dict[str, Any] = found.get("status", {}).get("ledger", {})
    return told


def quantum(cluster: MarketCluster) -> int:
    return int(ledger(cluster).get("quantum", 0))


def checked(operators: Operators, market: Path) -> str:
    """Return the output of ``walras-operator ledger`` on the logs of all operators."""
    logs = [word for log in operators.logs for word in ("--log", str(log))]
    outcome = CliRunner().invoke(main, ["ledger", *logs, "--market", str(market)])
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_the_ledger_is_the_replay_of_the_log_whatever_the_network_does_and_whoever_is_killed(
    cluster: MarketCluster, operators: Operators, tmp_path: Path
) -> None:
    """Requests come late, are refused or cut off; some are carried out and never answered."""
    proxy = FaultyProxy(KUBECONFIG, seed=1)
    operators.kubeconfig = proxy.kubeconfig(tmp_path)
    try:
        operators.start()
        operators.start()
        assert eventually(lambda: quantum(cluster) > 0, 120), operators.logs[0].read_text()
        proxy.rate = 0.2
        seen = last_kill = quantum(cluster)
        while seen < QUANTA:
            now = quantum(cluster)
            assert now >= seen
            if now > seen:
                seen = now
                wanted = {"spec": {"memory": {"demand": f"{random.randrange(1, 14)}Gi"}}}
                cluster.change(f"{OURS}/namespaces/lab/marketjobs/{random.choice(USERS)}", wanted)
            if seen >= last_kill + 6:
                last_kill = seen
                time.sleep(random.uniform(0.0, 1.2))
                operators.kill()
                operators.start()
            time.sleep(0.1)
        assert set(proxy.failed) == set(FAULTS), proxy.failed
        proxy.rate = 0.0
        assert eventually(lambda: quantum(cluster) > seen + 1, 120), operators.logs[-1].read_text()
        operators.close()
    finally:
        proxy.close()
    document = tmp_path / "market.json"
    document.write_text(json.dumps(cluster.read(MARKET)))
    assert "the ledger follows" in checked(operators, document)
