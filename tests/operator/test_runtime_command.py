"""The command ``walras-operator``: what it says to people, and a market on a real API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from operator_cluster import OURS_PATH, OperatorCluster
from real_cluster import KUBECONFIG, needs_cluster
from waiting import eventually
from walras_operator.command import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAD = {"apiVersion": "walras.dev/v1alpha1"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--kubeconfig", "/nowhere"], 2, "give the API server by --kubeconfig or KUBECONFIG"),
        (["--listen", "8080"], 2, "is not an address and port, such as 0.0.0.0:8080"),
        (["--lease-seconds", "1"], 2, "3<=x<=3600"),
    ],
)
def test_what_cannot_work_is_said_at_once(arguments: list[str], code: int, said: str) -> None:
    result = CliRunner().invoke(main, ["run", *arguments], env={"KUBECONFIG": None})
    assert result.exit_code == code
    assert said in result.output


def test_it_explains_itself() -> None:
    result = CliRunner().invoke(main, ["run", "--help"])
    assert result.exit_code == 0
    for word in ("--namespace", "--lease-name", "--debounce", "--log-format", "Exit codes"):
        assert word in result.output


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OperatorCluster]:
    made = OperatorCluster(f"rc-{time.time_ns() % 10**10}", tmp_path)
    yield made
    made.close()


def lease(node: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": f"walras-agent-{node}",
            "namespace": namespace,
            "labels": {"walras.dev/lease": "agent"},
        },
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 3600},
    }


def market(cluster: OperatorCluster) -> tuple[str, str]:
    """Create all objects that one running job needs; return the node and the path of the job."""
    node = cluster.node()
    ready = {"type": "Ready", "status": "True"}
    cluster.change(
        f"/api/v1/nodes/{node}/status",
        {"status": {"allocatable": {"cpu": "8", "memory": "16Gi"}, "conditions": [ready]}},
    )
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.name}/leases"
    cluster.make(leases, lease(node, cluster.name))
    pod = cluster.pod("train", node)
    cluster.change(pod, {"metadata": {"labels": {"app": "train"}}})
    cluster.change(f"{pod}/status", {"status": {"phase": "Running"}})
    cluster.make(
        f"{OURS_PATH}/markets",
        {**HEAD, "kind": "Market", "metadata": {"name": "default"}, "spec": {"epochSeconds": 2}},
    )
    cluster.make(
        f"{OURS_PATH}/entitlements",
        {
            **HEAD,
            "kind": "Entitlement",
            "metadata": {"name": cluster.name},
            "spec": {"shares": 1, "namespaces": [cluster.name]},
        },
    )
    jobs = f"{OURS_PATH}/namespaces/{cluster.name}/marketjobs"
    cluster.make(
        jobs,
        {
            **HEAD,
            "kind": "MarketJob",
            "metadata": {"name": "train", "namespace": cluster.name},
            "spec": {
                "entitlement": cluster.name,
                "selector": {"matchLabels": {"app": "train"}},
                "parallelFraction": "0.95",
            },
        },
    )
    return node, f"{jobs}/train"


@needs_cluster
def test_a_job_is_granted_cores_and_told_so_and_then_all_is_quiet(
    cluster: OperatorCluster,
) -> None:
    node, job = market(cluster)
    arguments = ["run", "--namespace", cluster.name, "--listen", "off"]
    with (cluster.folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "walras_operator", *arguments],
            env=os.environ | {"KUBECONFIG": KUBECONFIG},
            stderr=log,
        )
    try:
        said = (cluster.folder / "log").read_text
        assert eventually(lambda: cluster.grants(node) == 1, 90), said()
        assert eventually(lambda: (cluster.read(job) or {}).get("status", {}).get("pods")), said()
        assert eventually(lambda: "published" in said())
        assert eventually(lambda: quiet(cluster), 60), said()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert cluster.lease()["holderIdentity"] == ""


def quiet(cluster: OperatorCluster) -> bool:
    """Whether nothing is written for more than two epochs."""
    before = cluster.writes()
    time.sleep(5)
    return cluster.writes() == before
