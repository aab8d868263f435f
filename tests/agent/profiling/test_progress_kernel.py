"""Counters of a real kernel for real programs: cgroup v1 or v2, whichever is mounted.

Runs on the test machine as root, and inside emulated machines by test_guest.py. None of them has
counters of the processor, so the code that opens and reads those is given the kernel's own clock
instead (``PERF_COUNT_SW_CPU_CLOCK``), which counts nanoseconds in which the group runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from measured_pods import MeasuredPods
from real_pods import TREE
from waiting import eventually
from walras_agent.cpuset import CpuSet
from walras_agent.profiling import counters
from walras_agent.profiling.counters import CounterError, CpuTime
from walras_agent.profiling.instructions import MAX_CPUS, Instructions, PerfEvent
from walras_agent.profiling.instruments import Instruments
from walras_agent.profiling.request import FileSource, MeasurementRequest
from walras_agent.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU_CLOCK = PerfEvent(type=1, config=0)
UNKNOWN = PerfEvent(type=0, config=1 << 20)

BUSY = "while True: pass"
FORKING = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
COUNTING = """
import os, sys, time
os.chroot(sys.argv[1])
for step in range(1 << 30):
    with open("/new", "w") as file:
        file.write(f"{step} steps\\n")
    os.rename("/new", "/progress")
    time.sleep(0.01)
"""

pytestmark = [pytest.mark.system, pytest.mark.skipif(TREE is None, reason="needs root and cgroups")]


@pytest.fixture(scope="module")
def perf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The groups that perf_event_open(2) takes; in v1 a hierarchy that must be mounted."""
    assert TREE is not None
    if TREE.version == 2:
        yield Path(TREE.mounts["cpuset"])
        return
    folder = tmp_path_factory.mktemp("perf_event")
    mount = ("mount", "-t", "cgroup", "-o", "perf_event", "perf_event", str(folder))
    subprocess.run(mount, check=True)
    yield folder

    def removed() -> bool:
        """Return whether the kernel has removed the hierarchy.

        If a group was just being removed when its hierarchy was unmounted, the kernel keeps the
        hierarchy until it is mounted and unmounted again; and containerd reports no metrics while
        there is a hierarchy without a mount.
        """
        if subprocess.run(("umount", str(folder)), check=False).returncode != 0:
            return False
        groups = Path("/proc/self/cgroup")
        if eventually(lambda: ":perf_event:" not in groups.read_text(), seconds=3):
            return True
        subprocess.run(mount, check=True)
        return False

    assert eventually(removed)


@pytest.fixture
def pods(perf: Path) -> Iterator[MeasuredPods]:
    assert TREE is not None
    made = MeasuredPods(TREE, *(() if TREE.version == 2 else (perf,)))
    yield made
    made.close()


def cpus() -> CpuSet:
    return Topology.read().cpuset


def instruments(pods: MeasuredPods, perf: Path, event: PerfEvent = CPU_CLOCK) -> Instruments:
    return Instruments(pods.tree, pods.layout, cpus, event, perf)


@pytest.mark.parametrize("program", [BUSY, FORKING], ids=["one process", "eight processes"])
def test_counters_on_all_cpus_see_what_the_group_runs(
    pods: MeasuredPods, perf: Path, program: str
) -> None:
    """The counters agree with the file of CPU time, which is read before and after."""
    pods.run("aa", sys.executable, "-c", program)
    time_used = CpuTime(pods.tree, pods.pod("aa"))
    assert eventually(lambda: time_used.read() > 0.1)
    counter = Instructions.open(f"{perf}{pods.pod('aa')}", cpus(), CPU_CLOCK)

    def read() -> tuple[float, float, float]:
        return time_used.read(), counter.read() / 1e9, time_used.read()

    least, start, most = read()
    assert eventually(lambda: time_used.read() > most + 1)
    least_after, end, most_after = read()
    assert 0.8 * (least_after - most) < end - start < 1.2 * (most_after - least)
    counter.close()


def test_other_groups_are_not_counted(pods: MeasuredPods, perf: Path) -> None:
    pods.run("aa", "sleep", "600")
    pods.run("bb", sys.executable, "-c", BUSY)
    counter = Instructions.open(f"{perf}{pods.pod('aa')}", cpus(), CPU_CLOCK)
    busy = CpuTime(pods.tree, pods.pod("bb"))
    assert eventually(lambda: busy.read() > 0.5)
    assert counter.read() / 1e9 < 0.1
    counter.close()


def test_closed_counter_holds_no_descriptor(pods: MeasuredPods, perf: Path) -> None:
    def held() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    pods.run("aa", "sleep", "600")
    before = held()
    counter = Instructions.open(f"{perf}{pods.pod('aa')}", cpus(), CPU_CLOCK)
    assert held() == before + len(cpus())
    counter.close()
    for wrong in (UNKNOWN, CPU_CLOCK):
        with pytest.raises(CounterError):
            Instructions.open(f"{perf}{pods.pod('aa')}", CpuSet([*cpus(), 4000]), wrong)
    assert held() == before


def test_machine_of_many_cpus_would_need_too_many_descriptors(perf: Path) -> None:
    with pytest.raises(CounterError, match="name the job's own counter"):
        Instructions.open(str(perf), CpuSet(range(MAX_CPUS + 1)))


def test_group_that_is_not_there_is_named(perf: Path) -> None:
    with pytest.raises(CounterError, match="/nowhere is not there"):
        Instructions.open(f"{perf}/nowhere", cpus(), CPU_CLOCK)


def test_cpu_time_stands_in_for_instructions(pods: MeasuredPods, perf: Path) -> None:
    pods.run("aa", sys.executable, "-c", BUSY)
    request = MeasurementRequest("r", "aa")
    counted = instruments(pods, perf).open(request)
    assert (counted.counter.source, counted.warnings) == ("instructions", ())
    counted.close()
    instead = instruments(pods, perf, UNKNOWN).open(request)
    assert instead.counter.source == "cpuTime"
    assert "cannot see waiting" in instead.warnings[0]
    start = instead.read()
    assert eventually(lambda: instead.read().progress > start.progress)
    instead.close()


def test_cpu_time_is_that_of_the_clock_for_a_program_that_never_waits(pods: MeasuredPods) -> None:
    process = pods.run("aa", sys.executable, "-c", BUSY)
    counter = CpuTime(pods.tree, pods.pod("aa"))
    assert eventually(lambda: counter.read() > 0.5)
    before = counter.read()
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[14 - 3]) + int(fields[15 - 3])) / os.sysconf("SC_CLK_TCK")
    assert before - 0.3 <= seconds <= counter.read() + 0.3  # what the shell took before, and ticks


def test_file_is_read_from_the_root_of_the_container(
    pods: MeasuredPods, perf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program sees another root than the agent, as those in containers do."""
    monkeypatch.setattr(counters, "TIMEOUT_SECONDS", 60.0)  # emulated machines have time
    pods.run("aa", sys.executable, "-c", COUNTING, str(tmp_path))
    assert eventually((tmp_path / "progress").exists)
    meter = instruments(pods, perf).open(
        MeasurementRequest("r", "aa", progress=FileSource("/progress"))
    )
    start = meter.read()
    assert eventually(lambda: meter.read().progress > start.progress + 5)
    meter.close()


def test_file_that_no_container_has_is_named(pods: MeasuredPods, perf: Path) -> None:
    pods.run("aa", "sleep", "600")
    request = MeasurementRequest("r", "aa", progress=FileSource("/nowhere/progress"))
    with pytest.raises(CounterError, match="/nowhere/progress in the pod's containers: No such"):
        instruments(pods, perf).open(request)


def test_file_of_a_pod_whose_processes_have_ended(pods: MeasuredPods, perf: Path) -> None:
    process = pods.run("aa", "true")
    process.wait()
    with pytest.raises(CounterError, match="no process is visible"):
        instruments(pods, perf).open(
            MeasurementRequest("r", "aa", progress=FileSource("/progress"))
        )


def test_pod_that_is_gone_is_named(pods: MeasuredPods, perf: Path) -> None:
    with pytest.raises(CounterError, match="pod aa has no cgroup"):
        instruments(pods, perf).open(MeasurementRequest("r", "aa"))
    pods.run("aa", "sleep", "600")
    meter = instruments(pods, perf, UNKNOWN).open(MeasurementRequest("r", "aa"))
    pods.close()
    with pytest.raises(CounterError, match="CPU time"):
        meter.read()


def test_time_of_a_reading_is_when_it_was_made(pods: MeasuredPods, perf: Path) -> None:
    pods.run("aa", "sleep", "600")
    meter = instruments(pods, perf, UNKNOWN).open(MeasurementRequest("r", "aa"))
    before = time.monotonic()
    assert before <= meter.read().at <= time.monotonic()
