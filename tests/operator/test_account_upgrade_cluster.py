"""The account where the API server still has the definition of a version before, which drops it.

That version kept core credits in the statuses of Entitlements, and nowhere else.
"""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from market_cluster import CRDS, DEFINITIONS, OURS, MarketCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from worlds import entitlement, job, market, node, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_cluster

Document = dict[str, Any]

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


def credit(cluster: MarketCluster) -> None:
    """Write credits into the statuses of Entitlements, as the version before has them."""
    for user, hours in CREDITS.items():
        owed = {"coreHours": hours, "level": "0"}
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
