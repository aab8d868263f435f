"""Colocation on a cluster: from the choice of a rule to the last of all waiting pods on its node.

Needs KUBECONFIG of an empty control plane: it is filled with nodes and with pods that wait for
Walras as their scheduler, and emptied again. The time begins before the Market is given a rule,
with all pods known and waiting, and ends when the API server has bound the last; the operator's
debounce, 0.2 s, the match, and the statuses of all jobs are parts of it. The peer binds as many
pods one after another, with nothing to decide. All of it shares the CPUs of this machine; on a busy
one the times say little.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from walras.resources.contract import COLOCATION_GATE

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from control_plane import empty_kubeconfig, ensure, refuse

from large_cluster import JOBS, LargeCluster
from scaled_operator import ScaledOperator
from simulated_agents import SimulatedAgents
from walras_service.kinds import NODES, OURS, PODS

SIZES = ((100, 1_000, 2.0), (1_000, 10_000, 10.0))
"""Nodes, pods, and seconds that placing them may take."""

ONE_BY_ONE = 500
"""Pods that the peer binds; its time is told for as many as Walras has placed."""

SOCKETS = 5
QUIET = 10.0  # seconds without a plan, in which agents answer to the last and jobs are told of it

_MARKET = OURS["Market"].path(name="default")
_UNBOUND = {"fieldSelector": "spec.nodeName="}


class Found(NamedTuple):
    """What was measured.

    Attributes:
        seconds: From the choice of a rule to the last pod.
        peer: Seconds for as many pods, one after another.
        mebibytes: The most that the operator ever had.
    """

    seconds: float
    peer: float
    mebibytes: int


def waiting(kubeconfig: str, nodes: int, pods: int) -> LargeCluster:
    """Describe a cluster whose pods all wait, and whose nodes have room for them."""
    cluster = LargeCluster(kubeconfig, nodes, pods)
    for each in cluster.documents:
        if each["kind"] == "Node":
            each["metadata"]["labels"] = {"walras.dev/sockets": str(SOCKETS)}
        elif each["kind"] == "Pod":
            del each["spec"]["nodeName"]
            each["spec"]["schedulerName"] = COLOCATION_GATE
        elif each["kind"] == "Market":
            each["spec"] |= {"epochSeconds": 1, "colocation": {"timeoutSeconds": 86400}}
    return cluster


def measured(kubeconfig: str, nodes: int, pods: int) -> Found:
    """Fill the cluster, measure, and empty it."""
    cluster = waiting(kubeconfig, nodes, pods)
    agents = SimulatedAgents(cluster.api.found)
    try:
        cluster.fill()
        agents.live(cluster.nodes)
        agents.start()
        with tempfile.TemporaryDirectory() as folder:
            operator = ScaledOperator(kubeconfig, Path(folder) / "log")
            try:
                rest(cluster, agents)
                seconds = placed(cluster, operator, pods)
                mebibytes = operator.mebibytes()
            finally:
                operator.close()
        if any(True for _ in cluster.api.names(PODS, _UNBOUND)):
            refuse("not every pod has a node")
        return Found(seconds, one_by_one(cluster) * pods / ONE_BY_ONE, mebibytes)
    finally:
        agents.close()
        cluster.close()


def rest(cluster: LargeCluster, agents: SimulatedAgents) -> None:
    """Wait until every node may take pods, its agent has told of it, and everybody knows."""
    ensure(lambda: cluster.told(_MARKET), "the operator does not answer")
    ensure(lambda: len(agents.plans) == len(cluster.nodes), "nodes are without a plan")
    ensure(lambda: not tainted(cluster), "the control plane lets nodes take no pods")
    ensure(lambda: time.monotonic() > agents.seen + QUIET, "the cluster does not come to rest")


def tainted(cluster: LargeCluster) -> int:
    """How many nodes take no pods yet, since the control plane has only begun to know them."""
    time.sleep(1)
    found = cluster.api.request("GET", NODES.path(), query={"resourceVersion": 0}, timeout=30)
    return sum(bool(node["spec"].get("taints")) for node in found["items"])


def placed(cluster: LargeCluster, operator: ScaledOperator, pods: int) -> float:
    """Give the Market a rule; seconds to the last pod."""
    began = time.monotonic()
    rule = {"policy": "StableMarriageRandom"}
    cluster.change(_MARKET, {"spec": {"colocation": rule}})
    ensure(lambda: operator.placed() >= pods, "not everybody is placed")
    return time.monotonic() - began


def one_by_one(cluster: LargeCluster) -> float:
    """Make pods that wait, and bind them; seconds for the bindings."""
    pattern = next(each for each in cluster.documents if each["kind"] == "Pod")
    names = [f"peer-{number}" for number in range(ONE_BY_ONE)]
    for name in names:
        metadata = {"name": name, "namespace": JOBS}
        spec = {
            "schedulerName": COLOCATION_GATE,
            "automountServiceAccountToken": False,
            "containers": [{"image": "none", **each} for each in pattern["spec"]["containers"]],
        }
        cluster.api.request("POST", PODS.path(JOBS), {"metadata": metadata, "spec": spec})
    target = {"apiVersion": "v1", "kind": "Node", "name": cluster.nodes[0]}
    began = time.monotonic()
    for name in names:
        body = {"metadata": {"name": name}, "target": target}
        cluster.api.request("POST", PODS.path(JOBS, name, "binding"), body)
    took = time.monotonic() - began
    cluster.all(cluster.delete, [PODS.path(JOBS, name) for name in names])
    return took


def main() -> None:
    """Measure all sizes, and print a table."""
    kubeconfig = empty_kubeconfig()
    sizes = SIZES[: int(sys.argv[1])] if len(sys.argv) > 1 else SIZES
    title = f"From a rule to the last pod ({os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f})"
    table = Table("", title=title, title_justify="left")
    for column in ("seconds", "target", "met", "one by one", "operator MiB"):
        table.add_column(column, justify="right", no_wrap=True)
    for nodes, pods, target in sizes:
        found = measured(kubeconfig, nodes, pods)
        table.add_row(
            f"{nodes} nodes, {pods} pods",
            f"{found.seconds:.2f}",
            f"{target:g}",
            "yes" if found.seconds <= target else "no",
            f"{found.peer:.2f}",
            str(found.mebibytes),
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
