"""Measure how long colocation takes to place all waiting_cluster pods of a cluster.

Needs KUBECONFIG of an empty control plane, which is filled with nodes and with pods whose scheduler
is Walras, and emptied again. All pods wait when the time begins: before the Market gets a
colocation policy. It ends when the API server has bound the last pod, and includes the operator's
debounce (0.2 s), the matching, and the statuses of all jobs. The peer binds as many pods one after
another, without decisions. Everything shares the CPUs of this machine, so times on a busy machine
say little.
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
"""Nodes, pods, and target seconds to place them."""

ONE_BY_ONE = 500
"""Pods that the peer binds; its time is scaled to the number of pods that Walras places."""

SOCKETS = 5
QUIET = 10.0  # seconds without a new plan after which agents and statuses are up to date

_MARKET = OURS["Market"].path(name="default")
_UNBOUND = {"fieldSelector": "spec.nodeName="}


class PlacementTimes(NamedTuple):
    """Result for one cluster size.

    Attributes:
        seconds: Seconds from the choice of a policy to the last bound pod.
        peer: Seconds that the peer takes for as many pods.
        mebibytes: Peak memory of the operator, in MiB.
    """

    seconds: float
    peer: float
    mebibytes: int


def waiting_cluster(kubeconfig: str, nodes: int, pods: int) -> LargeCluster:
    """Return a cluster whose pods are all waiting, and whose nodes have room for them."""
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


def measure(kubeconfig: str, nodes: int, pods: int) -> PlacementTimes:
    """Fill the cluster, measure, and empty it."""
    cluster = waiting_cluster(kubeconfig, nodes, pods)
    agents = SimulatedAgents(cluster.api.found)
    try:
        cluster.fill()
        agents.live(cluster.nodes)
        agents.start()
        with tempfile.TemporaryDirectory() as folder:
            operator = ScaledOperator(kubeconfig, Path(folder) / "log")
            try:
                wait_for_quiet(cluster, agents)
                seconds = place_all(cluster, operator, pods)
                mebibytes = operator.mebibytes()
            finally:
                operator.close()
        if any(True for _ in cluster.api.names(PODS, _UNBOUND)):
            refuse("some pods are not bound to a node")
        return PlacementTimes(seconds, one_by_one(cluster) * pods / ONE_BY_ONE, mebibytes)
    finally:
        agents.close()
        cluster.close()


def wait_for_quiet(cluster: LargeCluster, agents: SimulatedAgents) -> None:
    """Wait until all nodes accept pods, all agents have a plan, and no new plan comes."""
    ensure(lambda: cluster.told(_MARKET), "the Market's status is not updated")
    ensure(lambda: len(agents.plans) == len(cluster.nodes), "some nodes have no plan")
    ensure(lambda: not count_tainted(cluster), "some nodes stay tainted")
    ensure(lambda: time.monotonic() > agents.seen + QUIET, "new plans keep coming")


def count_tainted(cluster: LargeCluster) -> int:
    """Return the number of nodes that are still tainted, as new nodes are."""
    time.sleep(1)
    found = cluster.api.request("GET", NODES.path(), query={"resourceVersion": 0}, timeout=30)
    return sum(bool(node["spec"].get("taints")) for node in found["items"])


def place_all(cluster: LargeCluster, operator: ScaledOperator, pods: int) -> float:
    """Set a colocation policy; return the seconds to the last bound pod."""
    began = time.monotonic()
    policy = {"policy": "StableMarriageRandom"}
    cluster.change(_MARKET, {"spec": {"colocation": policy}})
    ensure(lambda: operator.placed() >= pods, "some pods are not placed")
    return time.monotonic() - began


def one_by_one(cluster: LargeCluster) -> float:
    """Create waiting pods and bind them; return the seconds for the bindings."""
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
    title = f"From a policy to the last pod ({os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f})"
    table = Table("", title=title, title_justify="left")
    for column in ("seconds", "target", "met", "one by one", "operator MiB"):
        table.add_column(column, justify="right", no_wrap=True)
    for nodes, pods, target in sizes:
        found = measure(kubeconfig, nodes, pods)
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
