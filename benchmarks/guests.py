"""Measure what a pod loses that lends its core, on the real kernel, with guests and without.

Two pods with a core each are held by the agent's reconciler, as in a local run. The owner sleeps,
and the guest's programs spin, so that the agent lends them the owner's core. Then the owner wakes,
and the agent does not look any more: this is what an owner has before guests leave. Without guests,
nothing runs beside it. Both are measured by turns: the part of a core that the owner has while it
spins, and how long pieces of work of 2 ms take, between which it sleeps for 18 ms. Last, how long
it takes until a guest comes, from the moment when the owner is stopped. Run it as root; programs
outside the pods disturb all of it.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from walras_agent.local.cgroups import kernel_groups
from walras_agent.local.placement import JobPlacer, run_id
from walras_agent.local.runs import Run
from walras_agent.node_plan import EnforcedGrant, NodePlan
from walras_agent.observe import read_group
from walras_agent.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_agent.local.placement import PlacedJob
    from walras_agent.reconcile import Reconciler

SPIN = "while True: pass"
OWNER = """
import json, sys, time
seconds = float(sys.argv[1])

def work(until):
    while time.thread_time() < until:
        pass

sys.stdin.readline()
begun, used = time.perf_counter(), time.process_time()
while time.perf_counter() < begun + seconds:
    pass
part = (time.process_time() - used) / (time.perf_counter() - begun)
took = []
for _ in range(int(50 * seconds)):
    time.sleep(0.018)
    begun = time.perf_counter()
    work(time.thread_time() + 0.002)
    took.append(time.perf_counter() - begun)
print(json.dumps([part, took]))
"""
PATIENCE = 30.0  # seconds until the agent must have lent the core
AWAKE = 5.0  # seconds for which an owner spins before it is stopped


class Loss(NamedTuple):
    """What the owner has.

    Attributes:
        part: Part of its core that it has while it spins.
        took: Seconds that each piece of work of 2 ms took, in ascending order.
    """

    part: float
    took: list[float]


def measure(guests: int, seconds: float) -> Loss:
    """Let the owner wake beside a number of spinning programs of the guest."""
    run, groups = Run(run_id()), next(iter(kernel_groups()))
    programs: list[subprocess.Popen[str]] = []
    with closing(JobPlacer(run, groups)) as placer:
        try:
            owner, guest = placer.open("owner"), placer.open("guest")
            programs.extend(start(guest, SPIN) for _ in range(guests))
            programs.append(start(owner, OWNER, str(seconds)))
            lend(placer, owner, guest, is_wanted=guests > 0)
            answer, _ = programs[-1].communicate("go\n")
        finally:
            for program in programs:
                program.kill()
                program.wait()
    part, took = json.loads(answer)
    return Loss(part, sorted(took))


def start(job: PlacedJob, code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python program in a job."""
    program = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    job.admit(program.pid)
    return program


def lend(placer: JobPlacer, owner: PlacedJob, guest: PlacedJob, *, is_wanted: bool) -> None:
    """Let the agent hold both jobs until the guest uses the owner's core."""
    topology, end = Topology.read(), time.monotonic() + PATIENCE
    reconciler = placer.reconciler(lambda: topology)
    grants = tuple(EnforcedGrant(job.name, job.name, 1000) for job in (owner, guest))
    reconciler.offer(NodePlan(1, "enforce", grants, "thread"))
    reconciler.step(time.monotonic())
    while is_wanted and not _is_on(reconciler.enforcer.cgroups, owner, guest):
        if time.monotonic() > end:
            raise RuntimeError("the agent lends nothing")
        time.sleep(0.5)
        reconciler.step(time.monotonic())


def arrival() -> float:
    """Return the seconds from when an owner, which spun, is stopped until it has a guest."""
    run, groups, topology = Run(run_id()), next(iter(kernel_groups())), Topology.read()
    programs: list[subprocess.Popen[str]] = []
    with closing(JobPlacer(run, groups)) as placer:
        try:
            owner, guest = placer.open("owner"), placer.open("guest")
            programs.extend(start(job, SPIN) for job in (owner, guest, guest))
            reconciler = placer.reconciler(lambda: topology)
            grants = tuple(EnforcedGrant(job.name, job.name, 1000) for job in (owner, guest))
            reconciler.offer(NodePlan(1, "enforce", grants, "thread"))
            reconciler.step(time.monotonic())
            end = time.monotonic() + AWAKE
            while time.monotonic() < end:
                go_on(reconciler)
            programs[0].send_signal(signal.SIGSTOP)
            began = time.monotonic()
            while not _is_on(reconciler.enforcer.cgroups, owner, guest):
                if time.monotonic() > began + PATIENCE:
                    raise RuntimeError("the agent lends nothing")
                go_on(reconciler)
            return time.monotonic() - began
        finally:
            for program in programs:
                program.kill()
                program.wait()


def go_on(reconciler: Reconciler) -> None:
    """Let the agent do what it does next, as its loop does."""
    time.sleep(reconciler.pause)
    reconciler.correct(time.monotonic())
    if reconciler.guests_due:
        reconciler.step(time.monotonic())


def _is_on(cgroups: object, owner: PlacedJob, guest: PlacedJob) -> bool:
    groups = (read_group(cgroups, job.container) for job in (owner, guest))  # type: ignore[arg-type]
    mine, theirs = (group.cpus for group in groups if group)
    return bool(mine & theirs)


def row(name: str, losses: Sequence[Loss]) -> list[str]:
    """Return the row of a table."""
    took = sorted(1000 * each for loss in losses for each in loss.took)
    part = statistics.mean(loss.part for loss in losses)
    figures = took[len(took) // 2], took[len(took) * 99 // 100], took[-1]
    return [name, f"{part:.4f}", *(f"{each:.2f}" for each in figures)]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--arrivals", type=int, default=10)
    options = parser.parse_args()
    kinds = {"none": 0, "two programs": 2, "ten programs": 10}
    losses: dict[str, list[Loss]] = {name: [] for name in kinds}
    for _ in range(options.turns):
        for name, guests in kinds.items():
            losses[name].append(measure(guests, options.seconds))
    table = Table("guests", title="What the owner of a core has", title_justify="left")
    for column in ("part of its core", "2 ms of work: median, ms", "p99", "worst"):
        table.add_column(column, justify="right")
    for name, measured in losses.items():
        table.add_row(*row(name, measured))
    console = Console(width=120)
    console.print(table)
    came = sorted(arrival() for _ in range(options.arrivals))
    if came:
        middle = statistics.median(came)
        console.print(f"Seconds until a guest came: median {middle:.2f}, worst {came[-1]:.2f}")


if __name__ == "__main__":
    main()
