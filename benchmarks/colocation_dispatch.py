"""Measure how long colocation takes to place all waiting pods of a cluster.

Needs KUBECONFIG of an empty control plane, which is filled with nodes and with pods whose scheduler
is Walras, and emptied again. All pods wait when the time begins: before the Market gets a
colocation policy. It ends when the API server has bound the last pod, and includes the operator's
debounce (0.2 s), the matching, and the statuses of all jobs. The peers bind pods without decisions:
one after another by our own client, and as many at a time as the operator by a compiled one (curl).
Everything shares the CPUs of this machine, so times on a busy machine say little.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from walras_api.contract import COLOCATION_GATE

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from control_plane import empty_kubeconfig, ensure, refuse

from large_cluster import JOBS, LargeCluster
from scaled_operator import ScaledOperator
from simulated_agents import SimulatedAgents
from walras_operator.publish.publisher import THREADS
from walras_service.kinds import OURS, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_service.api import Document

SIZES = ((100, 1_000, 2.0), (1_000, 10_000, 10.0))
"""Nodes, pods, and target seconds to place them."""

SAMPLE = 500
"""Pods that each peer binds; its time is scaled to the number of pods that Walras places."""

SOCKETS = 5
QUIET = 10.0  # seconds without a new plan after which agents and statuses are up to date

_MARKET = OURS["Market"].path(name="default")
_UNBOUND = {"fieldSelector": "spec.nodeName="}


class PlacementTimes(NamedTuple):
    """Result for one cluster size.

    Attributes:
        seconds: Seconds from the choice of a policy to the last bound pod.
        one_by_one: Seconds that our own client takes to bind as many pods one after another.
        curl: Seconds that curl takes to bind as many pods, several at a time.
        mebibytes: Peak memory of the operator, in MiB.
    """

    seconds: float
    one_by_one: float
    curl: float
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
    agents = SimulatedAgents(cluster.api.configuration)
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
        scale = pods / SAMPLE
        return PlacementTimes(
            seconds, scale * one_by_one(cluster), scale * by_curl(cluster), mebibytes
        )
    finally:
        agents.close()
        cluster.close()


def wait_for_quiet(cluster: LargeCluster, agents: SimulatedAgents) -> None:
    """Wait until all agents have a plan, and no new plan comes."""
    ensure(lambda: cluster.told(_MARKET), "the Market's status is not updated")
    ensure(lambda: len(agents.plans) == len(cluster.nodes), "some nodes have no plan")
    ensure(lambda: time.monotonic() > agents.seen + QUIET, "new plans keep coming")


def place_all(cluster: LargeCluster, operator: ScaledOperator, pods: int) -> float:
    """Set a colocation policy; return the seconds to the last bound pod."""
    began = time.monotonic()
    policy = {"policy": "StableMarriageRandom"}
    cluster.change(_MARKET, {"spec": {"colocation": policy}})
    ensure(lambda: operator.placed() >= pods, "some pods are not placed")
    return time.monotonic() - began


@contextmanager
def bindings(cluster: LargeCluster) -> Iterator[dict[str, Document]]:
    """Create waiting pods; give the Binding of each by its path, and delete the pods at the end."""
    pattern = next(each for each in cluster.documents if each["kind"] == "Pod")
    spec = {
        "schedulerName": COLOCATION_GATE,
        "automountServiceAccountToken": False,
        "containers": [{"image": "none", **each} for each in pattern["spec"]["containers"]],
    }
    target = {"apiVersion": "v1", "kind": "Node", "name": cluster.nodes[0]}
    names = [f"peer-{number}" for number in range(SAMPLE)]
    for name in names:
        pod = {"metadata": {"name": name, "namespace": JOBS}, "spec": spec}
        cluster.api.request("POST", PODS.path(JOBS), pod)
    try:
        yield {
            PODS.path(JOBS, name, "binding"): {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": target,
            }
            for name in names
        }
    finally:
        cluster.all(cluster.delete, [PODS.path(JOBS, name) for name in names])


def one_by_one(cluster: LargeCluster) -> float:
    """Return the seconds in which our own client binds the pods of `bindings`."""
    with bindings(cluster) as bodies:
        began = time.monotonic()
        for path, body in bodies.items():
            cluster.api.request("POST", path, body)
        return time.monotonic() - began


def by_curl(cluster: LargeCluster) -> float:
    """Return the seconds in which curl binds the pods of `bindings`, ``THREADS`` at a time."""
    found = cluster.api.configuration
    files = {"cacert": found.ssl_ca_cert, "cert": found.cert_file, "key": found.key_file}
    with bindings(cluster) as bodies:
        transfers = (
            {
                "url": f"{cluster.api.host}{path}",
                "header": "Content-Type: application/json",
                "data": json.dumps(body),
                "output": os.devnull,
                **files,
            }
            for path, body in bodies.items()
        )
        lines = [
            "\n".join(f"{name} = {json.dumps(each[name])}" for name in each) for each in transfers
        ]
        command = [
            "curl",
            "--parallel",
            "--parallel-max",
            str(THREADS),
            "--fail",
            "--no-progress-meter",
        ]
        began = time.monotonic()
        subprocess.run(
            [*command, "--config", "-"],
            input="\nnext\n".join(lines),
            text=True,
            check=True,
        )
        return time.monotonic() - began


def main() -> None:
    """Measure all sizes, and print a table."""
    kubeconfig = empty_kubeconfig()
    sizes = SIZES[: int(sys.argv[1])] if len(sys.argv) > 1 else SIZES
    title = f"From a policy to the last pod ({os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f})"
    table = Table("", title=title, title_justify="left")
    for column in ("seconds", "target", "met", "one by one", "curl", "operator MiB"):
        table.add_column(column, justify="right", no_wrap=True)
    for nodes, pods, target in sizes:
        found = measure(kubeconfig, nodes, pods)
        table.add_row(
            f"{nodes} nodes, {pods} pods",
            f"{found.seconds:.2f}",
            f"{target:g}",
            "yes" if found.seconds <= target else "no",
            f"{found.one_by_one:.2f}",
            f"{found.curl:.2f}",
            str(found.mebibytes),
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
