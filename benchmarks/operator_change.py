"""Measure the time from a changed entitlement to the last plan that the operator writes for it.

Needs KUBECONFIG of an empty control plane, which is filled with nodes and pods, and emptied again;
agents are simulated, and answer meanwhile. The time begins before the change is sent, ends when a
watch has delivered the last new plan, and includes the operator's debounce (0.2 s). The peer writes
the same plans one after another by GET and PUT, without decisions. Everything shares the CPUs of
this machine, so times on a busy machine say little.
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
"""Nodes, pods, and target seconds of a change."""

MOST_MEBIBYTES = 400
SHARES = (9, 1, 9, 1, 9)
QUIET = 2.0  # seconds without a new plan after which none is expected

_PLANS = OURS["NodeAllocation"]
_ENTITLEMENT = OURS["Entitlement"].path(name="user-0")


class ChangeTimes(NamedTuple):
    """Result for one cluster size.

    Attributes:
        seconds: Seconds to the last plan, for each change.
        plans: Number of plans written, for each change.
        peer: Seconds that the peer takes for as many plans.
        mebibytes: Peak memory of the operator, in MiB.
    """

    seconds: list[float]
    plans: list[int]
    peer: float
    mebibytes: int


def measure(kubeconfig: str, nodes: int, pods: int) -> ChangeTimes:
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
                wait_for_quiet(cluster, agents)
                pairs = [change(cluster, agents, shares) for shares in SHARES]
                mebibytes = operator.mebibytes()
            finally:
                operator.close()
        seconds, plans = [list(each) for each in zip(*pairs, strict=True)]
        peer = one_by_one(cluster.api, cluster.nodes[: round(statistics.median(plans))])
        return ChangeTimes(seconds, [int(each) for each in plans], peer, mebibytes)
    finally:
        agents.close()
        cluster.close()


def change(cluster: LargeCluster, agents: SimulatedAgents, shares: int) -> tuple[float, int]:
    """Change an entitlement; return the seconds to the last plan, and the number of plans."""
    before, began = count_plans(agents), time.monotonic()
    cluster.change(_ENTITLEMENT, {"spec": {"shares": shares}})
    ensure(lambda: cluster.told(_ENTITLEMENT), "the Entitlement's status is not updated")
    last, plans = agents.seen, count_plans(agents) - before
    wait_for_quiet(cluster, agents)
    return last - began, plans


def wait_for_quiet(cluster: LargeCluster, agents: SimulatedAgents) -> None:
    """Wait until every node has a plan, and no new plan comes."""
    ensure(
        lambda: len(agents.plans) == len(cluster.nodes) and time.monotonic() > agents.seen + QUIET,
        "new plans keep coming",
    )
    if agents.problem or cluster.unready():
        refuse(f"nodes are lost, perhaps because this machine is too slow {agents.problem}")


def count_plans(agents: SimulatedAgents) -> int:
    """Return the number of plans so far."""
    return sum(map(len, agents.plans.values()))


def one_by_one(api: Api, nodes: Iterable[str]) -> float:
    """Write new plans for nodes one after another; return the seconds."""
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
        found = measure(kubeconfig, nodes, pods)
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
