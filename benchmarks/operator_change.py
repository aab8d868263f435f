"""The operator on a cluster: from the change of an entitlement to the last plan written for it.

Needs KUBECONFIG of an empty control plane: it is filled with nodes and pods, whose agents are
simulated here and answer all the while, and emptied again. The time begins before the change is
sent and ends when the last new plan has come by a watch; the operator's debounce, 0.2 s, is a part
of it. The peer is the same plans written one after another by GET and PUT, as a loop would, without
anything to decide. All of it shares the CPUs of this machine; on a busy one the times say little.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from control_plane import empty_kubeconfig, ensure, refuse

from large_cluster import LargeCluster
from scaled_operator import ScaledOperator
from simulated_agents import SimulatedAgents
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras_service.api import Api

SIZES = ((100, 1_000, 1.0), (1_000, 10_000, 5.0))
"""Nodes, pods, and seconds that a change may take."""

MOST_MEBIBYTES = 400
SHARES = (9, 1, 9, 1, 9)
QUIET = 2.0  # seconds without a plan after which there is none to come

_PLANS = OURS["NodeAllocation"]
_CLAIM = OURS["Entitlement"].path(name="user-0")


class Found(NamedTuple):
    """What was measured.

    Attributes:
        seconds: From a change to the last plan, of each change.
        plans: Written for it, of each change.
        peer: Seconds for as many plans, one after another.
        mebibytes: The most that the operator ever had.
    """

    seconds: list[float]
    plans: list[int]
    peer: float
    mebibytes: int


def measured(kubeconfig: str, nodes: int, pods: int) -> Found:
    """Fill the cluster, measure, and empty it."""
    cluster = LargeCluster(kubeconfig, nodes, pods)
    agents = SimulatedAgents(cluster.api.found)
    try:
        cluster.fill()
        agents.live(cluster.nodes)
        agents.start()
        with tempfile.TemporaryDirectory() as folder:
            operator = ScaledOperator(kubeconfig, Path(folder) / "log")
            try:
                rest(cluster, agents)
                pairs = [change(cluster, agents, shares) for shares in SHARES]
                mebibytes = operator.mebibytes()
            finally:
                operator.close()
        seconds, plans = [list(each) for each in zip(*pairs, strict=True)]
        peer = one_by_one(cluster.api, cluster.nodes[: round(statistics.median(plans))])
        return Found(seconds, [int(each) for each in plans], peer, mebibytes)
    finally:
        agents.close()
        cluster.close()


def change(cluster: LargeCluster, agents: SimulatedAgents, shares: int) -> tuple[float, int]:
    """Change an entitlement; seconds to the last plan, and how many there were."""
    before, began = count(agents), time.monotonic()
    cluster.change(_CLAIM, {"spec": {"shares": shares}})
    ensure(lambda: cluster.told(_CLAIM), "the operator does not answer")
    last, plans = agents.seen, count(agents) - before
    rest(cluster, agents)
    return last - began, plans


def rest(cluster: LargeCluster, agents: SimulatedAgents) -> None:
    """Wait until every node has a plan, and no new one comes."""
    ensure(
        lambda: len(agents.plans) == len(cluster.nodes) and time.monotonic() > agents.seen + QUIET,
        "the cluster does not come to rest",
    )
    if agents.problem or cluster.unready():
        refuse(f"nodes are lost, this machine is too slow {agents.problem}")


def count(agents: SimulatedAgents) -> int:
    """How many plans there were."""
    return sum(map(len, agents.plans.values()))


def one_by_one(api: Api, nodes: Iterable[str]) -> float:
    """Write other plans for nodes; seconds."""
    began = time.monotonic()
    for node in nodes:
        found = api.request("GET", _PLANS.path(name=node))
        found["spec"]["epoch"] += 1
        api.request("PUT", _PLANS.path(name=node), found)
    return time.monotonic() - began


def main() -> None:
    """Measure all sizes, and print a table."""
    kubeconfig = empty_kubeconfig()
    title = f"From a change to the last plan ({os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f})"
    table = Table("", title=title, title_justify="left")
    for column in ("plans", "seconds, median", "target", "met", "one by one", "operator MiB"):
        table.add_column(column, justify="right", no_wrap=True)
    for nodes, pods, target in SIZES:
        found = measured(kubeconfig, nodes, pods)
        took = statistics.median(found.seconds)
        met = took <= target and found.mebibytes <= MOST_MEBIBYTES
        table.add_row(
            f"{nodes} nodes, {pods} pods",
            f"{statistics.median(found.plans):g}",
            f"{took:.2f}",
            f"{target:g}, {MOST_MEBIBYTES} MiB",
            "yes" if met else "no",
            f"{found.peer:.2f}",
            str(found.mebibytes),
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
