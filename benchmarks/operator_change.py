"""Measure the time from a changed entitlement to the last plan that the operator writes for it.

    KUBECONFIG=... python benchmarks/operator_change.py [--controllers PID] [NODES:PODS ...]

Needs KUBECONFIG of an empty control plane, which is filled with nodes and pods, and emptied again;
agents are simulated, and answer meanwhile. The time begins before the change is sent, ends when a
watch has delivered the first new plan ("decided") and the last one ("written"), and includes the
operator's debounce (0.2 s). "Operator CPU" is the CPU time of the operator's process until the last
plan and the statuses that follow have been written: what is left would go on elsewhere where the
API server and the agents have machines of their own. The peer writes the same plans one after
another by GET and PUT, without decisions.

At the end, the operator is ended with another one waiting beside it ("standby"), and that one with
none ("new process"). The time is taken until the next one has made and published a decision, which
writes at least the status of the Market.

Of thousands of nodes, the Leases alone are more than two CPUs can write. So ``--controllers`` names
the process of the controller manager, which is stopped while they are measured: nobody then misses
a Lease.

Times are in seconds, and those of changes medians. Everything shares the CPUs of this machine, so
times on a busy machine say little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
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
    from collections.abc import Callable, Iterable

    from walras_service.api import Api

SIZES = ((100, 1_000), (1_000, 10_000))
"""Nodes and pods."""

SHARES = (9, 1, 9, 1, 9)
QUIET = 2.0  # seconds without a new plan after which none is expected

_PLANS = OURS["NodeAllocation"]
_ENTITLEMENT = OURS["Entitlement"].path(name="user-0")
_CACHED = "all objects are cached"


class Change(NamedTuple):
    """What one change took.

    Attributes:
        decided: Seconds to the first plan.
        written: Seconds to the last plan.
        plans: Number of plans written.
        cpu: CPU seconds of the operator.
    """

    decided: float
    written: float
    plans: int
    cpu: float


class ChangeTimes(NamedTuple):
    """Result for one cluster size.

    Attributes:
        changes: What each change took.
        peer: Seconds that the peer takes for as many plans.
        mebibytes: Peak memory of the operator, in MiB.
        standby: Seconds until an operator that waited has replaced the one that ended.
        process: Seconds until one that is started after the end of the other has replaced it.
    """

    changes: list[Change]
    peer: float
    mebibytes: int
    standby: float
    process: float


def measure(kubeconfig: str, nodes: int, pods: int, controllers: int | None) -> ChangeTimes:
    """Fill the cluster, measure, and empty it."""
    cluster = LargeCluster(kubeconfig, nodes, pods, controllers=controllers)
    agents = SimulatedAgents(cluster.api.configuration)
    try:
        cluster.fill()
        agents.live(cluster.nodes)
        agents.start()
        with tempfile.TemporaryDirectory() as folder, ExitStack() as operators:

            def start(name: str) -> ScaledOperator:
                operator = ScaledOperator(kubeconfig, Path(folder) / name)
                operators.callback(operator.close)
                return operator

            first = start("first")
            wait_for_quiet(cluster, agents)
            changes = [change(cluster, agents, first, shares) for shares in SHARES]
            mebibytes = first.mebibytes()
            second = start("second")
            ensure(
                lambda: _CACHED in second.log.read_text(), "the standby does not read the cluster"
            )
            standby = replaced(first, lambda: second)
            process = replaced(second, lambda: start("third"))
        plans = round(statistics.median(each.plans for each in changes))
        peer = one_by_one(cluster.api, cluster.nodes[:plans])
        return ChangeTimes(changes, peer, mebibytes, standby, process)
    finally:
        agents.close()
        cluster.close()


def replaced(operator: ScaledOperator, successor: Callable[[], ScaledOperator]) -> float:
    """End an operator; return the seconds until its successor has published a decision."""
    began = time.monotonic()
    operator.close()
    following = successor()
    ensure(following.has_written, "the next operator does not decide")
    return time.monotonic() - began


def change(
    cluster: LargeCluster, agents: SimulatedAgents, operator: ScaledOperator, shares: int
) -> Change:
    """Change an entitlement, and wait until the operator has answered."""
    before, cpu, began = count_plans(agents), operator.cpu_seconds(), time.monotonic()
    cluster.change(_ENTITLEMENT, {"spec": {"shares": shares}})
    ensure(lambda: count_plans(agents) > before, "no plan is written")
    decided = time.monotonic() - began
    ensure(lambda: cluster.told(_ENTITLEMENT), "the Entitlement's status is not updated")
    written, plans = agents.seen - began, count_plans(agents) - before
    cpu = operator.cpu_seconds() - cpu
    wait_for_quiet(cluster, agents)
    return Change(decided, written, plans, cpu)


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
        plan = api.request("GET", _PLANS.path(name=node))
        plan["spec"]["epoch"] += 1
        api.request("PUT", _PLANS.path(name=node), plan)
    return time.monotonic() - began


def size(text: str) -> tuple[int, int]:
    """Return the nodes and pods of an argument such as ``1000:10000``."""
    nodes, pods = map(int, text.split(":"))
    return nodes, pods


def main() -> None:
    """Measure all sizes, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("size", nargs="*", type=size, default=SIZES, metavar="NODES:PODS")
    parser.add_argument("--controllers", type=int, metavar="PID")
    given = parser.parse_args()
    kubeconfig = empty_kubeconfig()
    title = f"From a change to the last plan ({os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f})"
    table = Table("", title=title, title_justify="left")
    columns = (
        "plans",
        "decided",
        "written",
        "operator CPU",
        "one by one",
        "standby",
        "new process",
        "operator MiB",
    )
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for nodes, pods in given.size:
        times = measure(kubeconfig, nodes, pods, given.controllers)
        decided, written, plans, cpu = map(statistics.median, zip(*times.changes, strict=True))
        table.add_row(
            f"{nodes} nodes, {pods} pods",
            f"{plans:g}",
            *(f"{each:.2f}" for each in (decided, written, cpu, times.peer)),
            f"{times.standby:.2f}",
            f"{times.process:.2f}",
            str(times.mebibytes),
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
