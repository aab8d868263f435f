"""Memory by credits on a real node: two teams' programs want now more and now less of it.

Nothing stands in for anything but a pod that asks for most of the node's memory and uses none, so
that the rest is too little for both. One life, in the order of the tests.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from contextlib import suppress
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from click.testing import CliRunner

from cluster_tools import SYSTEM, ToolError, apply, containers, get, kubectl, pods
from shared_node import OURS, entitlement, namespace
from waiting import eventually
from walras_api.cluster import NodeObject, Pod
from walras_operator.command import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from installed import Installed

pytestmark = pytest.mark.node

TEAMS = ("tides", "waves")
MIB = 1 << 20
FOR_SALE = 384 * MIB
QUANTA = 75
NO_LIMIT = 1 << 62
RULES = {"quantumSeconds": 1, "sliceSize": "8Mi", "mechanism": "Karma"}
MARKET = "/apis/walras.dev/v1alpha1/markets/default"

PROGRAM = """
import mmap, sys, time

turn = int(sys.argv[1])
held = []
while True:
    wanted = (300, 40, 40, 300)[turn % 4]  # 30 s: what is measured follows slowly on a busy node
    while len(held) > wanted:
        held.pop().close()
    while len(held) < wanted:
        held.append(mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        held[-1].write(bytes(1 << 20))
    turn += 1
    time.sleep(15)
"""


class Look(NamedTuple):
    """The state of memory and credits at one moment.

    Attributes:
        quantum: Number of the quantum that was settled last.
        credits: Credits, by team.
        granted: Bytes that the node's plan grants, by team.
        limits: Bytes to which the groups of pods are limited, by team.
    """

    quantum: int
    credits: dict[str, float]
    granted: dict[str, int]
    limits: dict[str, int]


def program(team: str, turn: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": f"localhost/walras-agent:{version('walras')}",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", PROGRAM, str(turn)],
        "resources": {"requests": {"memory": "64Mi"}},
    }
    return a_pod(team, team, container)


def a_pod(name: str, team: str, container: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": team, "labels": {"app": name}}
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def ballast(installed: Installed) -> dict[str, Any]:
    """A pod that asks for all memory but what is to be for sale."""
    node = get(f"/api/v1/nodes/{installed.node.name}")
    there = get("/api/v1/pods")["items"]
    taken = sum(
        Pod.model_validate({"apiVersion": "v1", "kind": "Pod", **each}).memory_requested
        for each in there
        if each["metadata"]["namespace"] not in TEAMS
    )
    asked = NodeObject.model_validate(node).memory - taken - FOR_SALE
    container = {
        "name": "main",
        "image": f"localhost/walras-agent:{version('walras')}",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", "import time; time.sleep(3600)"],
        "resources": {"requests": {"memory": str(asked)}},
    }
    return a_pod("ballast", "default", container)


def job(team: str) -> dict[str, Any]:
    spec = {
        "entitlement": team,
        "selector": {"matchLabels": {"app": team}},
        "parallelFraction": "0.5",
        "memory": {"demand": "measured"},
    }
    metadata = {"name": team, "namespace": team}
    return {"apiVersion": OURS, "kind": "MarketJob", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def swinging(installed: Installed) -> Iterator[Installed]:
    """Two teams whose programs want memory by turns, on a Market with short quanta."""
    before = get(MARKET)["spec"]
    try:
        apply(*map(namespace, TEAMS), *(entitlement(team, 1) for team in TEAMS))
        apply(ballast(installed), *(program(team, 2 * turn) for turn, team in enumerate(TEAMS)))
        set_rules(RULES)
        apply(*map(job, TEAMS))
        yield installed
    finally:
        set_rules(before.get("memory"))
        for what in (["namespace", *TEAMS], ["pod", "ballast"], ["entitlement", *TEAMS]):
            with suppress(ToolError):
                kubectl("delete", "--ignore-not-found", "--timeout=60s", *what)


def set_rules(memory: Any) -> None:
    patch = json.dumps({"spec": {"memory": memory}})
    kubectl("patch", "market", "default", "--type=merge", "--patch", patch)


def look(installed: Installed) -> Look:
    market = get(MARKET).get("status", {})
    ledger = market.get("ledger", {})
    granted = {
        each["namespace"]: quantity(each["memory"])
        for each in installed.shared.allocation()["spec"].get("grants", ())
        if each["namespace"] in TEAMS and "memory" in each
    }
    credits_ = {each["user"]: float(each["credits"]) for each in ledger.get("balances", ())}
    return Look(ledger.get("quantum", 0), credits_, granted, limits(installed))


def quantity(text: str) -> int:
    """Bytes of a grant, as the plan has them."""
    for unit, power in (("Ki", 10), ("Mi", 20), ("Gi", 30)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) << power
    return int(text)


def limits(installed: Installed) -> dict[str, int]:
    """Return the bytes to which teams' pods are limited, the lower limit if there are two."""
    groups = installed.node.cgroups.containers()
    version_2 = installed.node.cgroups.version == 2
    file = "memory.high" if version_2 else "memory.soft_limit_in_bytes"
    found = {}
    for team in TEAMS:
        for pod in pods(team):
            for container in containers(pod):
                if (group := groups.get(container)) is not None:
                    text = installed.node.cgroups.pod_memory(group, file)
                    found[team] = NO_LIMIT if text in {None, "max"} else int(text or 0)
    return found


def test_credits_and_limits_follow_what_programs_want(
    swinging: Installed, unharmed: Installed
) -> None:
    assert eventually(lambda: look(swinging).quantum > 0, 120, pause=0.5)
    memory = NodeObject.model_validate(get(f"/api/v1/nodes/{unharmed.node.name}")).memory
    seen: list[Look] = []
    first = look(swinging).quantum
    kills = {first + QUANTA // 3: "operator", first + 2 * QUANTA // 3: "agent"}
    until = time.monotonic() + 900  # a busy machine takes several seconds for a quantum
    while (now := look(swinging)).quantum < first + QUANTA and time.monotonic() < until:
        assert sum(now.granted.values()) <= FOR_SALE
        assert sum(each for each in now.limits.values() if each < NO_LIMIT) <= memory
        seen.append(now)
        due = [number for number in kills if number <= now.quantum]
        for number in due:
            unharmed.node.kill(unharmed.pod(kills.pop(number)))
        time.sleep(0.5)
    assert now.quantum >= first + QUANTA, seen[-3:]
    rich: defaultdict[str, int] = defaultdict(int)
    for each in seen:
        for team in TEAMS:
            rest = sum(each.granted.values()) - each.granted.get(team, 0)
            rich[team] += each.granted.get(team, 0) > rest
    assert all(rich[team] for team in TEAMS), rich
    gaps = [each.credits["tides"] - each.credits["waves"] for each in seen if each.credits]
    moves = {(later > former) - (later < former) for former, later in pairwise(gaps)}
    assert moves >= {-1, 1}, gaps
    for team in TEAMS:
        held = [each.limits[team] for each in seen if each.limits.get(team, NO_LIMIT) < NO_LIMIT]
        assert max(held) > 1.3 * min(held), held


def test_users_see_what_a_quantum_cost_them_and_whose_memory_they_have(
    swinging: Installed,
) -> None:
    def told() -> bool:
        found = (get(f"/apis/{OURS}/entitlements/{team}")["status"]["credits"] for team in TEAMS)
        return any(each.get("borrowed") and float(each["spent"]) > 0 for each in found)

    assert eventually(told, 60, pause=0.2), swinging


def test_the_ledger_is_the_replay_of_the_operators_log(swinging: Installed, tmp_path: Path) -> None:
    market, log = tmp_path / "market.json", tmp_path / "operator.log"
    market.write_text(kubectl("get", "market", "default", "--output", "json"))
    said = ""
    for pod in pods(SYSTEM, "app.kubernetes.io/component=operator"):
        name = pod["metadata"]["name"]
        for option in ("--previous=true", "--previous=false"):
            with suppress(ToolError):
                said += kubectl("logs", "--namespace", SYSTEM, name, "--tail=-1", option)
    log.write_text(said)
    outcome = CliRunner().invoke(main, ["ledger", "--log", str(log), "--market", str(market)])
    assert outcome.exit_code == 0, outcome.output
    assert look(swinging).quantum >= QUANTA
