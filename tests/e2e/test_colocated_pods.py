"""Pods that wait on a real node: two that live off memory and two that compute, placed in pairs.

The node counts as four processors, of which the teams' programs take two, so that both pairs are
placed at once. The programs run as real pods beside the two teams'.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from cluster_tools import apply, containers, get, helm, kubectl, pods
from installed import CHART
from shared_node import OURS, namespace
from waiting import eventually
from walras_api.contract import COLOCATION_GATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster_tools import Document
    from installed import Installed

pytestmark = pytest.mark.node

LAB = "lab"
PROGRAMS = {
    "stream": "data = bytearray(1 << 27)\nwhile True: data = bytearray(data)",
    "count": "total = 0\nwhile True: total += 1",
}
BANDWIDTH = {"stream": "8", "count": "0.1"}
"""Gigabytes a second: the rule puts high beside low."""


def waiting_pod(program: str, number: int) -> Document:
    container = {
        "name": "main",
        "image": f"localhost/walras-agent:{version('walras')}",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", PROGRAMS[program]],
        "resources": {"limits": {"memory": "512Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{program}-{number}",
            "namespace": LAB,
            "labels": {"app": program},
        },
        "spec": {
            "schedulingGates": [{"name": COLOCATION_GATE}],
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }


def profile(program: str) -> Document:
    spec = {"parallelFraction": "0.9", "memoryBandwidth": BANDWIDTH[program]}
    where = {"name": program, "namespace": LAB}
    return {"apiVersion": OURS, "kind": "SpeedupProfile", "metadata": where, "spec": spec}


def job(program: str) -> Document:
    spec = {
        "entitlement": LAB,
        "selector": {"matchLabels": {"app": program}},
        "profile": program,
    }
    where = {"name": program, "namespace": LAB}
    return {"apiVersion": OURS, "kind": "MarketJob", "metadata": where, "spec": spec}


def told() -> list[Document]:
    """Return what the jobs' statuses say of each pod."""
    jobs = (get(f"/apis/{OURS}/namespaces/{LAB}/marketjobs/{each}") for each in PROGRAMS)
    return [pod for each in jobs for pod in each.get("status", {}).get("pods", ())]


def partners() -> dict[str, str]:
    """Return the partner beside which each pod was placed, as its job's status says."""
    return {
        pod["name"]: pod["colocation"].get("partner", "") for pod in told() if "colocation" in pod
    }


def pair_by(rule: str) -> None:
    """Set the rule by which the market pairs pods, and exchange no partners to learn of them."""
    change = json.dumps({"spec": {"colocation": {"policy": rule, "exploration": "0"}}})
    kubectl("patch", "market", "default", "--type", "merge", "--patch", change)


@pytest.fixture
def colocating(installed: Installed) -> Iterator[Installed]:
    """Walras with the right to place pods, but no rule by which to pair them."""
    helm("upgrade", "walras", CHART, *installed.options(), "--set", "colocation.enabled=true")
    kubectl("label", "node", installed.node.name, "walras.dev/sockets=4")
    try:
        spec = {"shares": 1, "namespaces": [LAB]}
        claim = {"apiVersion": OURS, "kind": "Entitlement", "metadata": {"name": LAB}}
        apply(namespace(LAB), {**claim, "spec": spec})
        apply(*map(profile, PROGRAMS), *map(job, PROGRAMS))
        yield installed
    finally:
        kubectl("delete", "pods", "--all", "--namespace", LAB, "--timeout=180s")
        kubectl("delete", "namespace", LAB, "--timeout=180s")
        kubectl("delete", "entitlement", LAB)
        kubectl("label", "node", installed.node.name, "walras.dev/sockets-")
        pair_by("None")


def test_programs_that_live_off_memory_are_placed_beside_those_that_compute(
    colocating: Installed,
) -> None:
    apply(*(waiting_pod(program, number) for program in PROGRAMS for number in range(2)))
    assert eventually(lambda: len(told()) == 4, 60, pause=0.5), told()
    pair_by("Complementary")  # after all have come: the first two would be paired at once
    assert eventually(lambda: sum(map(len, map(containers, pods(LAB)))) == 4, 120, pause=0.5)
    assert {pod["spec"]["nodeName"] for pod in pods(LAB)} == {colocating.node.name}
    assert eventually(lambda: len(partners()) == 4, 60, pause=0.5), partners()
    for name, partner in partners().items():
        assert ("count" in partner) == name.startswith("stream"), partners()
    assert colocating.watcher.violations() == []
