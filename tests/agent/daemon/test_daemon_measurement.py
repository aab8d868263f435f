"""The agent's own loop measures a pod that its plan asks for, and knows that when started anew.

It leaves at least one core to be shared, and this machine may have only two. It is therefore told
of one more CPU than there is, reserved for sharing; as there is no pod but the measured one,
nothing is ever put on that.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from measured_pods import MeasuredPods
from real_pods import TREE, needs_pods
from waiting import eventually
from walras_agent.cpuset import CpuSet
from walras_agent.daemon.agent import Agent
from walras_agent.daemon.inotify import ChangeWaiter
from walras_agent.daemon.node import HostPaths, NodeComponents
from walras_agent.daemon.plans import PlanFile, PlanWithdrawn
from walras_agent.daemon.state import open_state
from walras_agent.profiling import measurement
from walras_agent.profiling.request import ProgressSample
from walras_agent.profiling.samples import fit_samples
from walras_agent.topology import Cpu, Topology

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from walras_agent.daemon.agent import Listener, PlanSource
    from walras_agent.daemon.report import ReconcileReport
    from walras_api.node_allocation_status import ProfilingStatus

pytestmark = needs_pods

CPUS = sorted(os.sched_getaffinity(0))[:2]
RESERVED = max(CPUS) + 1
KNOWN = Topology(tuple(Cpu(cpu, cpu, 0, 0, 0) for cpu in (*CPUS, RESERVED)))

TWO_WORKERS = "import os\nos.fork()\nos.write(1, b'at work\\n')\nwhile True: pass"


@dataclass
class Reports:
    """Listener to an agent's reports.

    Attributes:
        last: Measurement in the last report.
        cores: Numbers of CPUs that pods have had.
    """

    last: ProfilingStatus | None = None
    cores: set[int] = field(default_factory=set)

    def notify(self, report: ReconcileReport) -> None:
        self.last = report.profiling
        self.cores |= {len(pod.cpus) for pod in report.node.pods if pod.cpus}


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Iterator[MeasuredPods]:
    """A pod of two processes that compute; how late a busy machine reads counters plays no role."""
    monkeypatch.setattr(measurement, "MOST_UNCERTAIN", math.inf)
    assert TREE is not None
    made = MeasuredPods(TREE)
    program = made.run("aa", sys.executable, "-c", TWO_WORKERS)
    assert program.stdout is not None
    assert program.stdout.readline() == b"at work\n"
    yield made
    made.close()


class DeletedPlan:
    """A source of plans whose plan has been deleted."""

    def changed(self) -> None:
        raise PlanWithdrawn("node-1")


@contextmanager
def resumed(
    pods: MeasuredPods, folder: Path, plans: PlanSource, *listeners: Listener
) -> Iterator[Agent]:
    """Run an agent that resumes with the state that an earlier one left in the folder."""
    with ExitStack() as stack:
        state = stack.enter_context(open_state(folder / "state"))
        waiter = stack.enter_context(ChangeWaiter(folder / "plan.json"))
        node = NodeComponents.open(HostPaths(root=pods.layout.root), state.journal, waiter)
        node.reconciler.topology = lambda: KNOWN
        node.reconciler.enforcer.reserved = lambda: CpuSet([RESERVED])
        agent = Agent(node, plans, state, waiter, listeners, period=3600.0)
        agent.resume()
        yield agent


def run_until_measured(pods: MeasuredPods, folder: Path) -> Reports:
    """Run an agent until it knows how a measurement went."""
    reports = Reports()
    with resumed(pods, folder, PlanFile(folder / "plan.json"), reports) as agent:
        loop = threading.Thread(target=agent.run)
        loop.start()
        assert eventually(lambda: reports.last is not None and reports.last.state != "Running")
        agent.stop()
        loop.join()
    return reports


def ask(folder: Path, name: str) -> None:
    plan = {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "NodeAllocation",
        "metadata": {"name": "node-1"},
        "spec": {
            "epoch": 1,
            "grants": [{"podUID": "aa", "name": "pod-aa", "cores": "2", "isolated": True}],
            "profiling": {"id": name, "podUID": "aa", "sampleSeconds": 1, "repeats": 1},
        },
    }
    (folder / "plan.json").write_text(json.dumps(plan))


def test_pod_is_measured_once_and_the_result_is_kept_until_its_plan_is_deleted(
    pods: MeasuredPods, tmp_path: Path
) -> None:
    ask(tmp_path, "first")
    reports = run_until_measured(pods, tmp_path)
    measured = reports.last
    assert measured is not None
    assert (measured.id, measured.state, measured.reason) == ("first", "Complete", "")
    assert [sample.cores for sample in measured.samples] == [1, 2]
    assert reports.cores == {1, 2}
    again = run_until_measured(pods, tmp_path)
    assert again.last == measured
    assert again.cores == {2}, "what is done is not done again"
    for _ in range(2):
        with resumed(pods, tmp_path, DeletedPlan()) as agent:
            assert agent.reconcile().profiling is None
    assert not (tmp_path / "state" / "measurement.json").exists()


def test_a_pass_that_fails_is_reported_and_tried_again(pods: MeasuredPods, tmp_path: Path) -> None:
    def fails() -> Topology:
        raise ZeroDivisionError("nothing is left")

    ask(tmp_path, "first")
    with resumed(pods, tmp_path, PlanFile(tmp_path / "plan.json")) as agent:
        agent.node.reconciler.topology = fails
        assert "nothing is left" in agent.reconcile().node.refused
        agent.node.reconciler.topology = lambda: KNOWN
        assert agent.reconcile().node.refused == ""


@pytest.mark.speed
def test_processes_that_never_wait_are_found_parallel(pods: MeasuredPods, tmp_path: Path) -> None:
    ask(tmp_path, "first")
    measured = run_until_measured(pods, tmp_path).last
    assert measured is not None
    fit = fit_samples(
        [
            ProgressSample(each.cores, float(each.seconds), float(each.progress))
            for each in measured.samples
        ]
    )
    assert fit is not None
    assert fit.mean > 0.3
