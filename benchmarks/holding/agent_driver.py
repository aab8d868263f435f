"""Divides the CPUs among the pods of one measurement after another, by one way.

A process of its own: it imports the agent of whatever checkout is first on PYTHONPATH, and nothing
else of the benchmark.
Orders come as lines of JSON on the standard input, and each has one line of answer:

    {"do": "open", "way": "agent", "pods": {"a": 1500}}   makes the pods' cgroups; answers where
    {"do": "count"}                                       answers how often fsync was called so far
    {"do": "close"}                                       removes them

Between ``open`` and ``close``, the way ``agent`` does what the agent's own loop does on a node, and
has its journal in a file, too. ``weights`` does what the kubelet does for pods that request what
they bought: every pod may use all CPUs, and has a weight by its request.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import select
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from walras_agent.journal import Journal
from walras_agent.local.cgroups import KernelGroups, kernel_groups
from walras_agent.local.placement import JobPlacer, run_id
from walras_agent.local.runs import Run
from walras_agent.node_plan import EnforcedGrant, NodePlan
from walras_agent.topology import Topology
from walras_agent.tree import CgroupFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_agent.local.placement import PlacedJob
    from walras_agent.reconcile import Reconciler

PERIOD = 10.0
"""Seconds from one step of the agent to the next; it corrects weights in between."""


class Fsyncs:
    """Counts the calls of fsync in this process."""

    def __init__(self) -> None:
        self.calls = 0
        self._fsync = os.fsync
        os.fsync = self  # type: ignore[assignment]

    def __call__(self, file: int) -> None:
        """Count and do it."""
        self.calls += 1
        self._fsync(file)


def main() -> None:
    """Follow orders until the input ends."""
    fsyncs = Fsyncs()
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        if order["do"] == "open":
            with tempfile.TemporaryDirectory() as folder:
                measure(order, fsyncs, Path(folder))
            answer({})


def measure(order: Mapping[str, Any], fsyncs: Fsyncs, folder: Path) -> None:
    """Make the pods, and divide the CPUs among them until they are to be closed."""
    groups = next(iter(kernel_groups()))
    run = Run(run_id())
    placer = JobPlacer(run, groups)
    try:
        jobs = {name: placer.open(name) for name in order["pods"]}
        by_agent = order["way"] == "agent"
        if by_agent:
            reconciler = reconciler_of(placer, order["pods"], folder)
            reconciler.step(time.monotonic())
        else:
            weigh(groups, jobs, order["pods"])
        answer(
            {
                "agent": sys.modules[JobPlacer.__module__].__file__,
                "run": run.group,
                "folders": groups.mounts,
                "pods": {name: job.container for name, job in jobs.items()},
            }
        )
        while True:
            if by_agent:
                divide(reconciler)
            if json.loads(sys.stdin.readline() or '{"do": "close"}')["do"] == "close":
                return
            answer({"fsyncs": fsyncs.calls})
    finally:
        placer.close()


def reconciler_of(placer: JobPlacer, pods: Mapping[str, int], folder: Path) -> Reconciler:
    """Return the reconciler of the pods, with a journal in a file, as it has on a node."""
    topology = Topology.read()
    journal = Journal.open(folder / "journal")
    with patch.object(Journal, "in_memory", lambda *_: journal):
        reconciler = placer.reconciler(lambda: topology)
    grants = (EnforcedGrant(name, name, bought, **user(name)) for name, bought in pods.items())
    reconciler.offer(NodePlan(1, "enforce", tuple(grants), "thread"))
    return reconciler


def user(name: str) -> dict[str, Any]:
    """Return that each pod is of a user of its own, to an agent that knows users."""
    fields = {field.name for field in dataclasses.fields(EnforcedGrant)}
    return {"user": name} if "user" in fields else {}


def divide(reconciler: Reconciler) -> None:
    """Do what the agent's loop does, until the next order comes."""
    stepped = -math.inf
    while True:
        now = time.monotonic()
        if now >= stepped + PERIOD or getattr(reconciler, "guests_due", False):
            reconciler.step(now)
            stepped = now
        else:
            reconciler.correct(now)
        pause = reconciler.pause if reconciler.competing else PERIOD
        if ordered(min(pause, stepped + PERIOD - time.monotonic())):
            return


def ordered(seconds: float) -> bool:
    """Wait for an order for some seconds; return whether one came."""
    return bool(select.select([sys.stdin], [], [], max(0.0, seconds))[0])


def weigh(groups: KernelGroups, jobs: Mapping[str, PlacedJob], pods: Mapping[str, int]) -> None:
    """Weigh pods by requests, with the formulas of the kubelet and of runc for cgroup v2."""
    for name, job in jobs.items():
        shares = max(2, pods[name] * 1024 // 1000)
        if groups.version == 1:
            groups.write(CgroupFile("cpu", job.pod, "cpu.shares"), str(shares))
        else:
            weight = 1 + (shares - 2) * 9999 // 262142
            groups.write(CgroupFile("cpu", job.pod, "cpu.weight"), str(weight))


def answer(what: Mapping[str, object]) -> None:
    """Print a line of JSON."""
    print(json.dumps(dict(what)), flush=True)


if __name__ == "__main__":
    main()
