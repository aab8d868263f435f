"""Programs that run in real cgroups are measured by the agent's own loop.

The loop leaves at least one core to be shared, and this machine may have only two. It is therefore
told of one more CPU than there is, reserved for sharing; as there is no pod but the measured one,
nothing is ever put on that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from measured_pods import MeasuredPods
from real_pods import TREE
from waiting import PATIENCE, eventually
from walras_agent.cpuset import CpuSet
from walras_agent.enforce import CpuEnforcer
from walras_agent.journal import Journal
from walras_agent.memory.enforce import MemoryEnforcer
from walras_agent.memory.numa import NumaEnforcer
from walras_agent.node_plan import EnforcedGrant, NodePlan
from walras_agent.observe import PodObserver
from walras_agent.profiling import counters, http_page
from walras_agent.profiling.instruments import Instruments, Meter
from walras_agent.profiling.profiler import Profiler
from walras_agent.profiling.request import FileSource, HttpSource, MeasurementRequest
from walras_agent.reconcile import Reconciler
from walras_agent.topology import Cpu, Topology

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from walras_agent.profiling.request import MeasurementReport

CPUS = sorted(os.sched_getaffinity(0))[:2]

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(TREE is None, reason="needs root and cgroups"),
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs: a speedup shows on two"),
]

PROGRAM = """
import hashlib, http.server, mmap, os, struct, sys, threading, time

workers, root, computes = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "computes"
steps = mmap.mmap(-1, 4096)
for worker in range(workers):
    if not os.fork():
        block, done = bytes(65536), 0
        while True:
            hashlib.sha256(block).digest() if computes else time.sleep(0.001)
            done += 1
            struct.pack_into("q", steps, 8 * worker, done)

def total():
    return sum(struct.unpack_from(f"{workers}q", steps))

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path == "/metrics":
            for worker in range(workers):
                done, = struct.unpack_from("q", steps, 8 * worker)
                self.wfile.write(f'steps_total{{worker="{worker}"}} {done}\\n'.encode())
    def log_message(self, *args):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.chroot(root)
print(server.server_port, flush=True)
while True:
    with open("/new", "w") as file:
        file.write(str(total()))
    os.rename("/new", "/progress")
    time.sleep(0.01)
"""


@dataclass
class Agent:
    """The agent's loop over a pod that holds two CPUs, or one beside a pod that sleeps.

    Its clock goes on only where it would wait, so that no slow answer of a busy machine is judged;
    where speeds are (``real_time``), it is the machine's.
    """

    pods: MeasuredPods
    folder: Path
    real_time: bool = False
    granted: int = 2000
    played_time: float = 0.0
    used: set[tuple[int, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.start_agent()

    def start_agent(self) -> None:
        observer = PodObserver(self.pods.tree, self.pods.layout)
        journal = Journal.open(self.folder / "journal")
        reserved = max(CPUS) + 1
        enforcer = CpuEnforcer(
            self.pods.tree, observer, journal, lambda: CpuSet([reserved]), clock=self.clock
        )
        memory = MemoryEnforcer(self.pods.tree, journal)
        known = Topology(tuple(Cpu(cpu, cpu, 0, 0, 0) for cpu in (*CPUS, reserved)))
        nodes = NumaEnforcer(self.pods.tree, journal)
        self.reconciler = Reconciler(enforcer, memory, nodes, lambda: known, lambda: "")
        grant = EnforcedGrant("aa", "default/aa", self.granted, isolated=True)
        self.reconciler.offer(NodePlan(1, "enforce", (grant,)))
        instruments = Instruments(self.pods.tree, self.pods.layout, lambda: CpuSet(CPUS))

        def opened(asked: MeasurementRequest) -> Meter:
            meter = replace(instruments.open(asked), clock=self.clock)
            return meter if self.real_time else replace(meter, watch=None)

        self.profiler = Profiler(opened)

    def clock(self) -> float:
        return time.monotonic() if self.real_time else self.played_time

    def wait(self, until: float) -> None:
        """Wait until a time, by the played clock for some progress of the program instead."""
        if self.real_time:
            time.sleep(max(0.0, until - time.monotonic()))
        elif until > self.played_time:
            self.goes_on(times=3)  # the next text may be older than the last reading
            self.played_time = until

    def tells_other_than(self, told: str) -> bool:
        return (self.folder / "root" / "progress").read_text() != told

    def goes_on(self, times: int) -> None:
        """Wait until the program has told of progress some times."""
        file = self.folder / "root" / "progress"
        for _ in range(times):
            told = file.read_text()
            assert eventually(partial(self.tells_other_than, told))

    def start(self, workers: int, *, computes: bool) -> None:
        root = self.folder / "root"
        root.mkdir()
        does = "computes" if computes else "waits"
        argv = (sys.executable, "-c", PROGRAM, str(workers), str(root), does)
        self.process = self.pods.run("aa", *argv)
        assert self.process.stdout is not None
        port = int(self.process.stdout.readline())
        assert eventually((root / "progress").exists)
        self.page = HttpSource("127.0.0.1", port, "/metrics", "steps_total")

    @property
    def affinity(self) -> tuple[int, ...]:
        return tuple(sorted(os.sched_getaffinity(self.process.pid)))

    def turn(self, request: MeasurementRequest | None) -> float | None:
        """One turn of the loop; returns when the next is due."""
        now = self.clock()
        self.profiler.offer(request, now)
        status = self.reconciler.step(now, self.profiler.limits(now))
        self.profiler.update(status, self.clock())
        assert not status.failures, status.failures
        self.used.add(self.affinity)
        return self.profiler.next_wake(self.clock())

    def measure(self, request: MeasurementRequest) -> MeasurementReport:
        """Go round until nothing more is due."""
        while (wake := self.turn(request)) is not None:
            self.wait(wake)
        report = self.profiler.report
        assert report is not None
        return report


@contextmanager
def pod_of(
    workers: int,
    folder: Path,
    *,
    computes: bool = False,
    real_time: bool = False,
    granted: int = 2000,
) -> Iterator[Agent]:
    """Run a pod of some processes that compute or only wait, and yield an agent for it."""
    assert TREE is not None
    folder.mkdir()
    pods = MeasuredPods(TREE)
    try:
        agent = Agent(pods, folder, real_time, granted)
        agent.start(workers, computes=computes)
        yield agent
    finally:
        pods.close()


def measured(
    source: str, workers: int, folder: Path, *, computes: bool, real_time: bool = False
) -> MeasurementReport:
    """Measure a program with a number of workers by one source of progress."""
    with pod_of(workers, folder, computes=computes, real_time=real_time) as agent:
        progress = {"cpuTime": None, "file": FileSource("/progress"), "http": agent.page}[source]
        request = MeasurementRequest("r", "aa", sample_seconds=0.3, repeats=2, progress=progress)
        report = agent.measure(request)
        assert agent.affinity == tuple(CPUS)
    assert report.state == "Complete", report.reason
    assert [sample.cores for sample in report.samples] == [1, 2, 2, 1]
    assert agent.used == {tuple(CPUS), (CPUS[0],)}
    if source != "cpuTime":
        assert (report.source, report.memory_bandwidth) == (source, None)
    return report


@pytest.mark.parametrize(
    ("source", "computes"), [("cpuTime", True), ("file", False), ("http", False)]
)
def test_program_is_measured_on_one_core_and_on_all_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, computes: bool
) -> None:
    """Whatever the machine does beside it: how fast the program gets on is not judged."""
    for module in (counters, http_page):
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", PATIENCE)
    report = measured(source, 2, tmp_path / "node", computes=computes)
    assert report.fit is not None
    assert report.fit.by_cores.keys() == {2}


@pytest.mark.speed
@pytest.mark.parametrize("source", ["cpuTime", "file", "http"])
def test_program_with_two_workers_is_more_parallel_than_with_one(
    tmp_path: Path, source: str
) -> None:
    two = measured(source, 2, tmp_path / "two", computes=True, real_time=True)
    one = measured(source, 1, tmp_path / "one", computes=True, real_time=True)
    assert two.fit is not None
    assert one.fit is not None
    assert two.fit.mean > one.fit.mean


@contextmanager
def busy_on(cpu: int) -> Iterator[None]:
    """A process that computes on a CPU all the time."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        os.sched_setaffinity(process.pid, [cpu])
        try:
            yield
        finally:
            process.kill()


@pytest.mark.speed
@pytest.mark.parametrize("source", ["cpuTime", "file"])
def test_a_busy_process_on_a_pods_core_is_no_part_of_its_speedup(
    tmp_path: Path, source: str
) -> None:
    """Half of the first core is the other's: the pod seems three times as fast on two cores."""
    with (
        busy_on(CPUS[0]),
        pod_of(2, tmp_path / "node", computes=True, real_time=True) as agent,
    ):
        agent.pods.share_evenly()
        progress = FileSource("/progress") if source == "file" else None
        report = agent.measure(
            MeasurementRequest("r", "aa", sample_seconds=1.0, repeats=2, progress=progress)
        )
    assert report.state == "Complete", report.reason
    assert report.fit is not None
    assert max(sample.waited / sample.seconds for sample in report.samples) > 0.3
    assert report.fit.mean == pytest.approx(1.0, abs=0.15)


def start_measuring(agent: Agent) -> None:
    """Go round until the pod is down to one core."""
    for _ in range(3):  # to learn of its cores, to move, and to see that it has moved
        agent.turn(MeasurementRequest("r", "aa"))
    assert agent.affinity == (CPUS[0],)


def test_agent_that_forgot_its_measurement_gives_the_cores_back(tmp_path: Path) -> None:
    """The next agent knows the plan but no measurement, as after a crash."""
    with pod_of(1, tmp_path / "node") as agent:
        start_measuring(agent)
        agent.start_agent()
        agent.turn(None)
        assert agent.affinity == tuple(CPUS)


def test_program_with_one_core_is_measured_on_two(tmp_path: Path) -> None:
    with pod_of(2, tmp_path / "node", granted=1000) as agent:
        request = MeasurementRequest("r", "aa", sample_seconds=0.3, repeats=2)
        report = agent.measure(request)
        assert report.state == "Complete", report.reason
        assert [sample.cores for sample in report.samples] == [1, 2, 2, 1]
        assert agent.used == {tuple(CPUS), (CPUS[0],)}
        assert agent.affinity == (CPUS[0],)


def test_pod_that_ends_while_it_is_measured(tmp_path: Path) -> None:
    with pod_of(1, tmp_path / "node") as agent:
        start_measuring(agent)
    now = agent.clock()
    agent.profiler.update(agent.reconciler.step(now, agent.profiler.limits(now)), now)
    assert agent.profiler.report is not None
    assert agent.profiler.report.state == "Failed"
    assert "no container" in agent.profiler.report.reason
    assert agent.profiler.limits(now) == {}
