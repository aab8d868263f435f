"""Compare the CPU time that pods use with what they bought, on the real kernel, old way and new.

The pods are spinning programs in cgroups of this machine, as in a local run. The old way puts every
fraction on all shared CPUs with a weight by what was bought. The new one is the agent's: fractions
pinned to single CPUs, and weights corrected by the time that was used. Both are measured by turns,
each with new programs, over ``--seconds`` (60) after ``--settle`` (10). An error is how far a pod's
time is from what it bought, in percent of the latter. What programs outside take, as the agent
itself does on a slow machine, is not counted: it is taken from all pods alike that divide the same
CPUs, also by way of others. As root.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from walras_agent.cpuset import CpuSet
from walras_agent.local.cgroups import KernelGroups, kernel_groups
from walras_agent.local.placement import JobPlacer, run_id
from walras_agent.local.runs import Run
from walras_agent.node_plan import EnforcedGrant, NodePlan
from walras_agent.observe import read_group
from walras_agent.quota import WEIGHT_FILES
from walras_agent.topology import Topology
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras_agent.local.placement import PlacedJob

SPIN = "while True: pass"
WEIGHT_OF_A_CORE = {1: 8192, 2: 312}


class Pod(NamedTuple):
    """A pod that could use more than it bought.

    Attributes:
        millicores: Thousandths of a CPU that it bought.
        processes: Number of its processes, all of which spin.
    """

    millicores: int
    processes: int


class Node(NamedTuple):
    """The cgroups in which the pods of one measurement run, and what makes them."""

    placer: JobPlacer
    groups: KernelGroups


def mixes(cpus: int) -> dict[str, list[Pod]]:
    """Return the mixes of pods, which buy all CPUs of a machine with an even number of them."""
    pairs = cpus // 2

    def repeated(*pods: tuple[int, int]) -> list[Pod]:
        return [Pod(*each) for each in pods] * pairs

    return {
        "1.333 and 0.667, one process more than cores each": repeated((1333, 2), (667, 1)),
        "1.333 and 0.667, two processes each": repeated((1333, 2), (667, 2)),
        "1.333 and 0.667, three processes and one": repeated((1333, 3), (667, 1)),
        "1.5 and 0.5": repeated((1500, 2), (500, 1)),
        "0.9, 0.7 and 0.4": repeated((900, 1), (700, 1), (400, 1)),
        "five below one core": repeated((500, 1), (500, 2), (333, 1), (333, 4), (334, 1)),
        "twenty of 0.1": repeated(*[(100, 1 + number % 2) for number in range(20)]),
    }


def old_way(node: Node, pods: Sequence[Pod], jobs: Sequence[PlacedJob]) -> Callable[[], int]:
    """Put fractions on all shared CPUs with weights by what was bought; nothing is corrected."""
    left = list(Topology.read().cpuset)
    own = [CpuSet(left.pop(0) for _ in range(pod.millicores // 1000)) for pod in pods]
    file = WEIGHT_FILES[node.groups.version]
    for pod, job, mine in zip(pods, jobs, own, strict=True):
        job.place(mine | CpuSet(left) if pod.millicores % 1000 else mine)
        weight = WEIGHT_OF_A_CORE[node.groups.version] * pod.millicores // 1000
        node.groups.write(CgroupFile("cpu", job.pod, file), str(max(weight, 2)))
    return int


def new_way(node: Node, pods: Sequence[Pod], jobs: Sequence[PlacedJob]) -> Callable[[], int]:
    """Let the agent's reconciler hold the pods; return its next step."""
    topology = Topology.read()
    reconciler = node.placer.reconciler(lambda: topology)
    grants = (
        EnforcedGrant(job.name, job.name, pod.millicores)
        for pod, job in zip(pods, jobs, strict=True)
    )
    reconciler.offer(NodePlan(1, "enforce", tuple(grants), "thread"))

    def step() -> int:
        return len(reconciler.step(time.monotonic()).writes)

    step()
    return step


class Division(NamedTuple):
    """How pods divided the CPUs.

    Attributes:
        errors: Error of each pod in percent.
        cpus: CPUs that all pods used on average.
        writes: Writes while it was measured.
    """

    errors: list[float]
    cpus: float
    writes: int


def measure(
    way: Callable[[Node, Sequence[Pod], Sequence[PlacedJob]], Callable[[], int]],
    pods: Sequence[Pod],
    settle: float,
    seconds: float,
) -> Division:
    """Run the programs of a mix and return how they divided the CPUs."""
    programs: list[subprocess.Popen[bytes]] = []
    run, groups = Run(run_id()), next(iter(kernel_groups()))
    node = Node(JobPlacer(run, groups), groups)
    with closing(node.placer):
        try:
            jobs = [node.placer.open(f"pod-{number}") for number in range(len(pods))]
            step = way(node, pods, jobs)
            for pod, job in zip(pods, jobs, strict=True):
                for _ in range(pod.processes):
                    programs.append(subprocess.Popen([sys.executable, "-c", SPIN]))
                    job.admit(programs[-1].pid)
            wait(settle, step)
            begin, before = time.monotonic(), [job.cpu_seconds() for job in jobs]
            writes = wait(seconds, step)
            used = [job.cpu_seconds() - had for job, had in zip(jobs, before, strict=True)]
            took = time.monotonic() - begin
            places = [placed(node, job) for job in jobs]
        finally:
            for program in programs:
                program.kill()
                program.wait()
    sets = beside_each_other(places)
    errors = [0.0] * len(pods)
    for cpus, members in sets:
        theirs = sum(used[each] for each in members)
        for each in members:
            part = 1000 * len(cpus) * used[each] / theirs
            errors[each] = 100 * (part / pods[each].millicores - 1)
    return Division(errors, sum(used) / took, writes)


def beside_each_other(places: Sequence[CpuSet]) -> list[tuple[CpuSet, list[int]]]:
    """Return the pods that divide the same CPUs, also by way of others, and these CPUs."""
    sets: list[tuple[CpuSet, list[int]]] = []
    for number, cpus in enumerate(places):
        beside = [each for each in sets if each[0] & cpus]
        sets = [each for each in sets if not each[0] & cpus]
        members = [number, *(pod for _, pods in beside for pod in pods)]
        sets.append((CpuSet(cpu for some, _ in [*beside, (cpus, [])] for cpu in some), members))
    return sets


def placed(node: Node, job: PlacedJob) -> CpuSet:
    """Return the CPUs that a pod may use."""
    group = read_group(node.groups, job.container)
    return group.cpus if group else CpuSet()


def wait(seconds: float, step: Callable[[], int]) -> int:
    """Let time pass and the way take its steps, one a second; return the writes."""
    end, writes = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
        writes += step()
    return writes


def main() -> None:
    """Measure all mixes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=10)
    parser.add_argument("mixes", nargs="*", help="parts of the names of mixes; by default all")
    options = parser.parse_args()
    table = Table(
        "", "pods", title="Error of used against bought, in percent", title_justify="left"
    )
    for column in ("old: mean", "worst", "CPUs", "new: mean", "worst", "CPUs", "writes a minute"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, pods in mixes(len(Topology.read().cpus)).items():
        if options.mixes and not any(part in name for part in options.mixes):
            continue
        old, new = (
            measure(way, pods, options.settle, options.seconds) for way in (old_way, new_way)
        )
        cells = [
            cell
            for each in (old, new)
            for cell in (
                f"{statistics.mean(map(abs, each.errors)):.1f}",
                f"{max(map(abs, each.errors)):.1f}",
                f"{each.cpus:.2f}",
            )
        ]
        table.add_row(name, str(len(pods)), *cells, f"{60 * new.writes / options.seconds:.0f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
