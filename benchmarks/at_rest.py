"""Count what the operator writes while nothing changes, and what that costs.

    KUBECONFIG=... python benchmarks/at_rest.py [NODES:PODS ...]

Needs KUBECONFIG of an empty control plane, which is filled with nodes, pods and 100 users, and
emptied again; agents are simulated. Once no plan has come for a while, nothing is changed any more.
Writes are the API server's own count of accepted requests by kind, without those of agents. The CPU
time of both processes is the kernel's count, in percent of a core.

Where memory is plentiful, every user holds what it asks for. Where it is scarce, Karma divides it
anew every ten seconds, so that plans change by what it decides.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from control_plane import empty_kubeconfig, ensure
from operator_change import size

from large_cluster import LargeCluster
from scaled_operator import ScaledOperator
from simulated_agents import SimulatedAgents
from walras_service.kinds import OURS

SIZES = ((100, 1_000),)
"""Nodes and pods."""

MEMORY = {"plentiful": "64Gi", "scarce": "16Gi"}

_WRITES = re.compile(
    r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<number>\S+)$", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_CPU = re.compile(r"^process_cpu_seconds_total (\S+)$", re.MULTILINE)
_CHANGES = {"POST", "PUT", "PATCH", "DELETE"}
_KINDS = {each.plural: name for name, each in OURS.items()}


class AtRest:
    """What a cluster costs over a time.

    Args:
        cluster: The cluster, whose API server is asked.
        operator: Its operator.
    """

    def __init__(self, cluster: LargeCluster, operator: ScaledOperator) -> None:
        self._api = cluster.api
        self._operator = psutil.Process(operator.process.pid)
        self._before = self._now()

    def _now(self) -> tuple[float, Counter[str], float, float]:
        with self._api.opened("/metrics") as answer:
            text = answer.read().decode()
        times = self._operator.cpu_times()
        (server,) = _CPU.findall(text)
        return time.monotonic(), writes(text), times.user + times.system, float(server)

    def measured(self) -> tuple[dict[str, float], float, float]:
        """Return writes a second by kind, and percent of a core of operator and API server."""
        began, counts, operator, server = self._before
        now, after, operator_then, server_then = self._now()
        passed = now - began
        rates = {name: (after[name] - counts[name]) / passed for name in sorted(after)}
        return (
            {name: rate for name, rate in rates.items() if rate},
            100 * (operator_then - operator) / passed,
            100 * (server_then - server) / passed,
        )


def writes(metrics: str) -> Counter[str]:
    """Return the accepted writes of our kinds so far, without what only agents write."""
    counts: Counter[str] = Counter()
    for found in _WRITES.finditer(metrics):
        labels = dict(_LABEL.findall(found["labels"]))
        kind = _KINDS.get(labels["resource"])
        of_agent = (kind, labels["subresource"]) == ("NodeAllocation", "status")
        written = labels["verb"] in _CHANGES and labels["code"].startswith("2")
        if kind and written and not of_agent:
            counts[kind] += int(float(found["number"]))
    return counts


def measure(
    kubeconfig: str, nodes: int, pods: int, memory: str, settle: float, seconds: float
) -> tuple[dict[str, float], float, float]:
    """Fill the cluster, wait, measure, and empty it."""
    cluster = LargeCluster(kubeconfig, nodes, pods, MEMORY[memory])
    agents = SimulatedAgents(cluster.api.configuration)
    try:
        cluster.fill()
        agents.live(cluster.nodes)
        agents.start()
        with tempfile.TemporaryDirectory() as folder:
            operator = ScaledOperator(kubeconfig, Path(folder) / "operator")
            try:
                ensure(lambda: len(agents.plans) == nodes, "some nodes have no plan")
                time.sleep(settle)
                rest = AtRest(cluster, operator)
                time.sleep(seconds)
                return rest.measured()
            finally:
                operator.close()
    finally:
        agents.close()
        cluster.close()


def main() -> None:
    """Measure all sizes, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("size", nargs="*", type=size, default=SIZES, metavar="NODES:PODS")
    parser.add_argument("--memory", choices=MEMORY, action="append", help="by default, both")
    parser.add_argument("--settle", type=float, default=60, help="seconds before (60)")
    parser.add_argument("--seconds", type=float, default=120, help="seconds that are counted (120)")
    options = parser.parse_args()
    kubeconfig = empty_kubeconfig()
    table = Table("", title="While nothing changes", title_justify="left")
    for column in ("writes a second", "operator, % of a core", "API server, % of a core"):
        table.add_column(column, justify="right")
    table.add_column("writes a second by kind")
    for nodes, pods in options.size:
        for memory in options.memory or MEMORY:
            rates, operator, server = measure(
                kubeconfig, nodes, pods, memory, options.settle, options.seconds
            )
            table.add_row(
                f"{nodes} nodes, {pods} pods, memory {memory}",
                f"{sum(rates.values()):.2f}",
                f"{operator:.1f}",
                f"{server:.1f}",
                ", ".join(f"{name} {rate:.2f}" for name, rate in rates.items()),
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
