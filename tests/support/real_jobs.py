"""Jobs of a real kernel: Python programs in the groups of a run, and where /proc says they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from walras_agent import procfs
from walras_agent.cpuset import CpuSet
from walras_agent.local.hierarchies import read_hierarchies

if TYPE_CHECKING:
    from walras_agent.local.placement import PlacedJob

HAS_CPUSET = any(
    "cpuset" in h.controllers or (h.mount / "cpuset.cpus.effective").exists()
    for h in read_hierarchies()
)
ALLOWED = sorted(os.sched_getaffinity(0))
SINCE = int(time.clock_gettime(time.CLOCK_BOOTTIME) * procfs.TICKS_PER_SECOND)

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, to make cgroups or change user"
)
needs_cpuset = pytest.mark.skipif(not HAS_CPUSET, reason="no cpuset controller is mounted")
needs_two_cpus = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs, to move between them")
BOTH_WAYS = [pytest.param("cgroup", marks=[needs_root, needs_cpuset]), "affinity"]
"""How jobs can be held to CPUs."""

SLEEPER = "import time; time.sleep(60)"
BURNER = "while True: pass"
THREADS_AND_A_CHILD = """
import os, threading, time
if os.fork() == 0:
    time.sleep(60)
for _ in range(4):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
"""


class Programs:
    """The programs that a test has started; closing ends all of them."""

    def __init__(self) -> None:
        self._started: list[tuple[PlacedJob, subprocess.Popen[str]]] = []

    def start(self, job: PlacedJob, code: str, cpus: CpuSet | None = None) -> subprocess.Popen[str]:
        """Start a Python program in a job; it begins once it has been admitted and placed."""
        process = subprocess.Popen(
            [sys.executable, "-c", f"input()\n{code}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | job.environment,
            start_new_session=True,
        )
        self._started.append((job, process))
        job.admit(process.pid)
        if cpus is not None:
            job.place(cpus)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return process

    def close(self) -> None:
        for job, process in self._started:
            job.close()
            with process:
                process.kill()


def cpus_of_threads(pid: int) -> set[CpuSet]:
    """Return the CPUs that a process's threads may run on, by /proc; nothing if it has ended."""
    found = set()
    for thread in procfs.threads(pid):
        try:
            status = Path(f"/proc/{pid}/task/{thread}/status").read_text()
        except OSError:
            continue
        match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
        assert match is not None
        found.add(CpuSet.parse(match[1]))
    return found


def pids_of(job: PlacedJob) -> tuple[int, ...]:
    """Return the PIDs of a job's live processes, by the environment variable that they inherit."""
    (mark,) = (f"{name}={value}".encode() for name, value in job.environment.items())
    return tuple(
        process.pid
        for process in procfs.processes()
        if process.start >= SINCE and process.alive and procfs.has_variable(process.pid, mark)
    )


def cpus_of(job: PlacedJob) -> set[CpuSet]:
    return {cpus for pid in pids_of(job) for cpus in cpus_of_threads(pid)}


def threads_of(job: PlacedJob) -> list[int]:
    return [thread for pid in pids_of(job) for thread in procfs.threads(pid)]
