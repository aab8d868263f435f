"""The account through upgrades and rollbacks on a real API server, by real operators.

The version before kept core credits in the statuses of Entitlements, and nowhere else. It is taken
from the history of the repository, with its definitions.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from market_cluster import CRDS, DEFINITIONS, OURS, MarketCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_cluster

Document = dict[str, Any]

ROOT = Path(__file__).parents[2]
BEFORE = "36ee5b30184c642acd20b3d569205eed8522b072"
"""The last commit that kept credits in statuses only."""

USERS = ("ada", "bob", "cyd")
CREDITS = {"ada": "-2", "bob": "-4", "cyd": "6"}
MARKET = f"{OURS}/markets/default"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MarketCluster]:
    """A market of three users, of whom the third has no jobs."""
    made = MarketCluster(KUBECONFIG, tmp_path)
    try:
        made.namespace("lab")
        made.make(
            market(cores={"credits": {"halfLifeHours": 8760}}, epochSeconds=1),
            *map(entitlement, USERS),
            node("n1"),
            *(job(user, user) for user in USERS[:2]),
            *(pod(f"{user}-0", user, "n1") for user in USERS[:2]),
        )
        made.agents_live(["n1"])
        yield made
    finally:
        made.close()
        for path in CRDS:
            define(made, yaml.safe_load(path.read_text()))


def define(cluster: MarketCluster, definition: Document) -> None:
    """Replace the schema of a kind."""
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    current = cluster.read(path) or {}
    cluster.api.request("PUT", path, {**current, "spec": definition["spec"]})


def told(cluster: MarketCluster) -> dict[str, Decimal]:
    """Return the credits that statuses of Entitlements have, in core-hours."""
    found = {}
    for user in USERS:
        status = (cluster.read(f"{OURS}/entitlements/{user}") or {}).get("status", {})
        found[user] = Decimal(status.get("coreCredits", {}).get("coreHours", "0"))
    return found


def account(cluster: MarketCluster) -> dict[str, Decimal]:
    """Return the balances of the account in the Market's status, in core-hours."""
    stored = (cluster.read(MARKET) or {}).get("status", {}).get("account", {})
    return {each["entitlement"]: Decimal(each["coreHours"]) for each in stored.get("balances", ())}


def readiness(cluster: MarketCluster) -> tuple[str, str]:
    """Return reason and message of the Market's condition Ready."""
    conditions = (cluster.read(MARKET) or {}).get("status", {}).get("conditions", ())
    return next(
        ((each["reason"], each["message"]) for each in conditions if each["type"] == "Ready"),
        ("", ""),
    )


def credit(cluster: MarketCluster, factor: int = 1) -> None:
    """Write credits into the statuses of Entitlements, as the version before has them."""
    for user, hours in CREDITS.items():
        owed = {"coreHours": str(factor * int(hours)), "level": "0"}
        cluster.change(f"{OURS}/entitlements/{user}/status", {"status": {"coreCredits": owed}})


def close_to(found: dict[str, Decimal]) -> bool:
    return found.keys() == CREDITS.keys() and all(
        abs(each - Decimal(CREDITS[user])) < Decimal("0.2") for user, each in found.items()
    )


def test_an_account_that_an_old_definition_drops_is_missed_until_the_new_one_is_there(
    cluster: MarketCluster,
) -> None:
    today = {path: yaml.safe_load(path.read_text()) for path in CRDS}
    (of_markets,) = (each for path, each in today.items() if path.stem.endswith("_markets"))
    old = deepcopy(of_markets)
    for version in old["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        del status["account"]
    define(cluster, old)
    credit(cluster)
    cluster.start_operator()
    assert eventually(lambda: readiness(cluster)[0] == "AccountDropped", 60), readiness(cluster)
    assert "walras-operator crds --print | kubectl apply" in readiness(cluster)[1]
    assert account(cluster) == {}
    assert close_to(told(cluster))
    define(cluster, of_markets)
    assert eventually(lambda: readiness(cluster)[0] == "Cleared", 60), readiness(cluster)
    assert close_to(account(cluster))
    assert sum(account(cluster).values()) == 0


class Before:
    """The version before: its definitions and its operator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", BEFORE, "core", "operator", "service", "crds"],
            capture_output=True,
            check=False,
        )
        if archive.returncode:
            pytest.skip(f"the history of this repository does not reach {BEFORE[:7]}")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        self.definitions = [
            yaml.safe_load(path.read_text())
            for path in sorted((folder / "crds").glob("walras.dev_*.yaml"))
        ]

    def run(self, cluster: MarketCluster, seconds: float) -> None:
        """Let its operator decide for some time."""
        path = os.pathsep.join(str(self.folder / each) for each in ("core", "operator", "service"))
        command = [sys.executable, "-m", "walras_operator", "run", "--kubeconfig", KUBECONFIG]
        epoch = _epoch(cluster)
        log = self.folder / "operator.log"
        with log.open("a") as out:
            process = subprocess.Popen(
                [*command, "--listen", "off", "--lease-seconds", "3"],
                env={**os.environ, "PYTHONPATH": path},
                stdout=out,
                stderr=out,
            )
        try:
            assert eventually(lambda: _epoch(cluster) >= epoch + 3, seconds), log.read_text()
        finally:
            process.terminate()
            process.wait(30)


def _epoch(cluster: MarketCluster) -> int:
    status = (cluster.read(MARKET) or {}).get("status", {})
    return int(status.get("epoch", {}).get("number", 0))


def test_credits_survive_an_upgrade_a_rollback_and_the_next_upgrade(
    cluster: MarketCluster, tmp_path: Path
) -> None:
    before = Before(tmp_path)
    today = [yaml.safe_load(path.read_text()) for path in CRDS]

    def defined(definitions: list[Document]) -> None:
        for each in definitions:
            define(cluster, each)

    defined(before.definitions)
    credit(cluster)
    before.run(cluster, 240)
    assert close_to(told(cluster)), told(cluster)
    assert readiness(cluster)[0] == "Cleared"  # it knows of no account that could be dropped

    defined(today)
    cluster.start_operator("--lease-seconds", "3")
    assert eventually(lambda: close_to(account(cluster)), 120), account(cluster)
    assert sum(account(cluster).values()) == 0
    assert eventually(lambda: close_to(told(cluster)), 60), told(cluster)
    cluster.stop_operator()

    defined(before.definitions)
    before.run(cluster, 240)
    assert close_to(told(cluster)), told(cluster)
    assert account(cluster) == {}
    # What it does from now on counts, and not what was stored before the rollback.
    credit(cluster, factor=2)

    defined(today)
    cluster.start_operator("--lease-seconds", "3")
    assert eventually(lambda: account(cluster).get("cyd", 0) > 11, 120), account(cluster)
    assert sum(account(cluster).values()) == 0
