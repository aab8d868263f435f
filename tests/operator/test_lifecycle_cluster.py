"""Installing, bringing up to date, releasing and checking, on a real API server.

Agents are played (`played_agents`), operators are processes with a decision that is foreseeable
(`operator_process`), and the commands are run as a chart's Jobs run them.
"""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from operator_cluster import CRDS, DEFINITIONS, OURS_PATH, OperatorCluster
from played_agents import PlayedAgent
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from walras_operator.lead.lease_object import LeaseObject
from walras_operator.lifecycle import definitions
from walras_operator.lifecycle.lease_takeover import LeaseTakeover
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from played_agents import Manner

pytestmark = needs_cluster

Document = dict[str, Any]
MARKET = f"{OURS_PATH}/markets/default"
ENTITLEMENTS = f"{DEFINITIONS}/entitlements.walras.dev"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OperatorCluster]:
    made = OperatorCluster(f"lc-{time.time_ns() % 10**10}", tmp_path)
    yield made
    made.close()


@pytest.fixture
def no_market(cluster: OperatorCluster) -> Iterator[None]:
    cluster.delete(MARKET)
    yield
    cluster.delete(MARKET)


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "walras_operator", *arguments],
        env=os.environ | {"KUBECONFIG": KUBECONFIG},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def told(*arguments: str) -> tuple[int, str]:
    """Run a command, and return its exit code and its output."""
    process = started(*arguments)
    said, _ = process.communicate(timeout=120)
    return process.returncode, said


def rows(said: str) -> dict[str, str]:
    """Return what was done to each definition, and to the Market."""
    return {line[:30].strip(): line[31:] for line in said.splitlines()}


def definition() -> Document:
    (path,) = (each for each in CRDS if "entitlements" in each.name)
    found: Document = yaml.safe_load(path.read_text())
    return found


def replace(cluster: OperatorCluster, spec: Document) -> None:
    """Give the cluster another definition of an Entitlement."""
    stored = cluster.api.request("GET", ENTITLEMENTS)
    cluster.api.request("PUT", ENTITLEMENTS, {**stored, "spec": {**stored["spec"], **spec}})


def test_definitions_are_made_and_then_left_alone(cluster: OperatorCluster) -> None:
    cluster.delete(ENTITLEMENTS)
    assert eventually(lambda: cluster.read(ENTITLEMENTS) is None)
    code, said = told("crds")
    assert (code, rows(said)["entitlements.walras.dev"]) == (0, "created")
    assert definitions.unestablished(cluster.api) == []
    code, said = told("crds")
    assert (code, set(rows(said).values())) == (0, {"unchanged"})


def test_an_older_definition_is_brought_up_to_date_and_its_objects_stay(
    cluster: OperatorCluster,
) -> None:
    path = cluster.entitlement(shares=7)
    older = copy.deepcopy(definition()["spec"])
    schema = older["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del schema["properties"]["memoryShare"]
    schema.pop("x-kubernetes-validations", None)
    older["versions"][0]["additionalPrinterColumns"] = []
    replace(cluster, older)
    uid = (cluster.read(path) or {})["metadata"]["uid"]

    code, said = told("crds")
    assert code == 0
    assert rows(said)["entitlements.walras.dev"] == "changed"
    found = cluster.read(path) or {}
    assert (found["metadata"]["uid"], found["spec"]["shares"]) == (uid, 7)
    text = (cluster.read(ENTITLEMENTS) or {})["spec"]["versions"][0]
    assert "memoryShare" in str(text)
    assert text["additionalPrinterColumns"] != []


def test_a_cluster_of_a_later_version_is_left_alone(cluster: OperatorCluster) -> None:
    later = copy.deepcopy(definition()["spec"]["versions"][0])
    former = {**copy.deepcopy(later), "storage": False}
    later["name"] = "v1"
    replace(cluster, {"versions": [former, later]})
    try:
        assert eventually(
            lambda: "v1" in (cluster.read(ENTITLEMENTS) or {})["status"]["storedVersions"]
        )
        code, said = told("crds")
        assert code == 1
        assert "entitlements.walras.dev: objects are stored as v1, which this version" in said
        kept = (cluster.read(ENTITLEMENTS) or {})["spec"]["versions"]
        assert [each["name"] for each in kept] == ["v1alpha1", "v1"]
    finally:
        cluster.delete(ENTITLEMENTS)
        assert eventually(lambda: cluster.read(ENTITLEMENTS) is None)
        assert told("crds")[0] == 0


@pytest.mark.usefixtures("no_market")
def test_a_market_follows_the_values_and_keeps_what_is_changed_by_hand(
    cluster: OperatorCluster,
) -> None:
    def apply(text: str) -> str:
        code, said = told("crds", "--no-definitions", "--market", text)
        assert code == 0, said
        return rows(said)["market default"]

    def spec() -> Document:
        found: Document = (cluster.read(MARKET) or {})["spec"]
        return found

    assert apply('{"mode": "observe"}') == "created"
    assert apply('{"mode": "observe"}') == "unchanged"
    cluster.change(MARKET, {"spec": {"mode": "enforce", "cores": {"reservedCores": 2}}})
    assert apply('{"mode": "observe"}') == "unchanged"
    assert apply('{"mode": "observe", "epochSeconds": 9}') == "changed: spec.epochSeconds"
    assert (spec()["mode"], spec()["epochSeconds"]) == ("enforce", 9)
    assert spec()["cores"]["reservedCores"] == 2
    assert apply('{"epochSeconds": 9}') == "unchanged", "nobody chose another mode"
    assert spec()["mode"] == "enforce"
    assert apply('{"mode": "observe"}') == "changed: spec.epochSeconds, spec.mode"
    assert spec()["mode"] == "observe"


@pytest.mark.usefixtures("no_market")
def test_a_new_market_only_observes_and_one_that_enforced_goes_on(
    cluster: OperatorCluster,
) -> None:
    def upgrade(text: str) -> str:
        assert told("crds", "--no-definitions", "--market", text)[0] == 0
        return str((cluster.read(MARKET) or {})["spec"]["mode"])

    assert upgrade("{}") == "observe"
    assert upgrade('{"mode": "enforce"}') == "enforce"
    assert upgrade("{}") == "enforce"

    cluster.delete(MARKET)  # what a chart made whose default was to enforce:
    head = {"apiVersion": "walras.dev/v1alpha1", "kind": "Market"}
    metadata = {"name": "default", "annotations": {"walras.dev/applied-spec": "{}"}}
    cluster.make(f"{OURS_PATH}/markets", {**head, "metadata": metadata, "spec": {}})
    assert upgrade("{}") == "enforce"
    assert upgrade('{"epochSeconds": 9}') == "enforce"
    assert upgrade('{"mode": "observe"}') == "observe"
    assert upgrade("{}") == "observe"


@pytest.mark.usefixtures("no_market")
def test_a_market_of_somebody_else_is_left_alone(cluster: OperatorCluster) -> None:
    head = {"apiVersion": "walras.dev/v1alpha1", "kind": "Market"}
    metadata = {"name": "default"}
    cluster.make(f"{OURS_PATH}/markets", {**head, "metadata": metadata, "spec": {}})
    code, said = told("crds", "--no-definitions", "--market", '{"mode": "observe"}')
    assert code == 0
    assert "was not created by the chart" in said
    assert (cluster.read(MARKET) or {})["spec"]["mode"] == "enforce"


def test_a_market_that_cannot_be_is_refused_by_its_field(cluster: OperatorCluster) -> None:
    code, said = told("crds", "--no-definitions", "--market", '{"mode": "perhaps"}')
    assert code == 1
    assert "spec.mode" in said
    assert "Traceback" not in said


@contextmanager
def agents(cluster: OperatorCluster, **manners: Manner) -> Iterator[dict[Manner, str]]:
    """Create nodes with played agents, and yield the nodes' names."""
    nodes = {manner: cluster.node(number) for number, manner in enumerate(manners.values())}
    played = [PlayedAgent(cluster, node, manner) for manner, node in nodes.items()]
    yield nodes
    for each in played:
        each.end()
    for node in nodes.values():
        cluster.delete(f"{OURS_PATH}/nodeallocations/{node}")


def grant(cluster: OperatorCluster, *nodes: str) -> None:
    """Make NodeAllocations as an operator does that ran before."""
    for node in nodes:
        uid = (cluster.read(f"/api/v1/nodes/{node}") or {})["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        head = {"apiVersion": "walras.dev/v1alpha1", "kind": "NodeAllocation"}
        grants = [{"podUID": "u", "name": "p", "cores": "1"}]
        spec = {"epoch": 5, "mode": "observe", "grants": grants}
        metadata = {"name": node, "ownerReferences": [owner]}
        document = {**head, "metadata": metadata, "spec": spec}
        cluster.api.request("POST", f"{OURS_PATH}/nodeallocations", document)


def release(cluster: OperatorCluster, timeout: int = 60) -> list[str]:
    options = ["--namespace", cluster.name, "--release-after", "1", "--timeout", str(timeout)]
    return ["release", *options]


def test_nodes_are_released_and_those_that_cannot_be_are_named(cluster: OperatorCluster) -> None:
    with agents(cluster, a="obeys", b="refuses", c="dead", d="remembers") as nodes:
        grant(cluster, *nodes.values())
        later = OURS["NodeAllocation"].path(name=nodes["remembers"])
        assert eventually(lambda: (cluster.read(later) or {}).get("status", {}).get("epoch"))
        code, said = told(*release(cluster))
        assert code == 0, said
        assert "released: 2 nodes are restored" in said
        assert f"{nodes['refuses']}: its agent refuses to write: as a test has it" in said
        assert f"{nodes['dead']}: its agent does not renew its Lease" in said
        assert "walras-agent restore --state-folder /var/lib/walras-agent" in said
        assert all(cluster.allocation(node) is None for node in nodes.values())
    assert cluster.lease()["holderIdentity"].startswith("release_"), "until it has run out"


def test_an_operator_stands_by_while_nodes_are_released(cluster: OperatorCluster) -> None:
    """It gives grants whenever it leads; that none come back shows that it does not."""
    operator = cluster.operator("a")
    with agents(cluster, a="obeys") as nodes:
        node = nodes["obeys"]
        cluster.pod("p", node)
        assert eventually(lambda: cluster.grants(node) == 1), operator.log.read_text()
        code, said = told(*release(cluster))
        assert code == 0, said
        assert operator.get("/healthz") == (200, "ok\n")
        assert not operator.leads()
        assert cluster.allocation(node) is None


def test_who_cannot_release_in_time_lets_operators_lead_again(cluster: OperatorCluster) -> None:
    operator = cluster.operator("a")
    with agents(cluster, a="tries") as nodes:
        node = nodes["tries"]
        cluster.pod("p", node)
        assert eventually(lambda: cluster.grants(node) == 1)
        code, said = told(*release(cluster, timeout=16))
        assert code == 1
        assert "not all nodes are restored in time, and operators lead again" in said
        assert f"{node}: as a test has it: Pending" in said
        assert eventually(operator.leads)
        assert eventually(lambda: cluster.grants(node) == 1), operator.log.read_text()


def test_a_release_that_is_ended_lets_operators_lead_again(cluster: OperatorCluster) -> None:
    with agents(cluster, a="tries") as nodes:
        grant(cluster, *nodes.values())
        process = started(*release(cluster))
        assert eventually(lambda: cluster.lease().get("holderIdentity"))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 128 + signal.SIGTERM
        assert cluster.lease()["holderIdentity"] == ""


def test_two_who_take_the_lease_know_of_each_other(cluster: OperatorCluster) -> None:
    first, second = (
        LeaseTakeover(LeaseObject(cluster.api, cluster.name, "walras-operator"), name)
        for name in ("a", "b")
    )
    assert (first.take(), second.take()) == (1, 2)
    second.renew()
    with pytest.raises(Exception, match="the object has been modified"):
        first.renew()


def check(cluster: OperatorCluster, timeout: int) -> tuple[int, str]:
    options = ["--namespace", cluster.name, "--timeout", str(timeout)]
    return told("check", *options, "--nodes", f"walras.dev/check={cluster.name}")


def test_a_check_names_everything_that_is_missing(cluster: OperatorCluster) -> None:
    node, cordoned = cluster.node(1), cluster.node(2)
    for each in (node, cordoned):
        path = f"/api/v1/nodes/{each}"
        cluster.change(path, {"metadata": {"labels": {"walras.dev/check": cluster.name}}})
    cluster.change(f"/api/v1/nodes/{cordoned}", {"spec": {"unschedulable": True}})
    cluster.delete(ENTITLEMENTS)
    assert eventually(lambda: cluster.read(ENTITLEMENTS) is None)
    code, said = check(cluster, 3)
    assert code == 1
    assert "entitlements.walras.dev does not exist" in said
    assert f"no operator renews the Lease {cluster.name}/walras-operator" in said
    assert f"1 of 1 nodes have no agent that renews its Lease: {node};" in said

    assert told("crds")[0] == 0
    cluster.operator("a")
    agent = PlayedAgent(cluster, node)
    try:
        code, said = check(cluster, 60)
        assert code == 0, said
        assert said.startswith("an operator leads, all definitions are established")
    finally:
        agent.end()
