"""The example of a program that follows its cores, while its affinity changes as by an agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "threads" / "follow_cores.py"

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]


def test_it_has_as_many_processes_as_cpus_also_when_these_change() -> None:
    one, two = sorted(os.sched_getaffinity(0))[:2]
    command = [sys.executable, str(EXAMPLE)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == f"{len(os.sched_getaffinity(0))} processes\n"
            for cpus in ([one], [one, two], [two]):
                psutil.Process(program.pid).cpu_affinity(cpus)
                assert program.stdout.readline() == f"{len(cpus)} processes\n"
        finally:
            os.killpg(program.pid, signal.SIGKILL)


def test_it_ends_with_its_tasks() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE), "6"], check=True, capture_output=True)
    assert done.stdout.decode() == f"{len(os.sched_getaffinity(0))} processes\n"
