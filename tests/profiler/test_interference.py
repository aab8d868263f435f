"""Part of the CPUs' time that other programs took, by the kernel's own accounts."""

import os
import time
from pathlib import Path

import pytest

from walras_agent.cpuset import CpuSet
from walras_profiler.command_runner import busy_seconds, share_of_others

STAT = """\
cpu  999 999 999 999 999 999 999 999 0 0
cpu0 100 10 20 5000 300 1 2 7 50 5
cpu1 200 0 0 5000 0 0 0 0 0 0
cpu10 4000 0 0 0 0 0 0 0 0 0
intr 1 2 3
"""


def test_work_and_stolen_time_count_and_waiting_does_not(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    tick = os.sysconf("SC_CLK_TCK")
    assert busy_seconds(CpuSet([0]), stat) == 140 / tick
    assert busy_seconds(CpuSet([0, 1]), stat) == 340 / tick


@pytest.mark.parametrize(
    ("busy", "own", "share"), [(2.0, 1.0, 0.25), (1.0, 1.0, 0.0), (0.9, 1.0, 0.0), (9.0, 0.0, 1.0)]
)
def test_share_is_what_the_run_itself_did_not_use(busy: float, own: float, share: float) -> None:
    assert share_of_others(busy, own, seconds=2.0, cpus=CpuSet([0, 1])) == pytest.approx(share)


def test_real_work_shows_up() -> None:
    cpu = min(os.sched_getaffinity(0))
    held = os.sched_getaffinity(0)
    before = busy_seconds(CpuSet([cpu]))
    os.sched_setaffinity(0, {cpu})
    try:
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
    finally:
        os.sched_setaffinity(0, held)
    assert busy_seconds(CpuSet([cpu])) - before > 0.2
