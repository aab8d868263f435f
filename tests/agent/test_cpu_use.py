"""How much CPU time pods use and wait for, as real programs and the real kernel have it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from real_jobs import BURNER, SLEEPER, Programs, needs_cpuset, needs_root, needs_two_cpus
from waiting import eventually
from walras_agent.cpu_use import CpuUseReader
from walras_agent.cpuset import CpuSet
from walras_agent.local.cgroups import kernel_groups
from walras_agent.local.placement import JobPlacer, run_id
from walras_agent.local.runs import Run
from walras_agent.observe import PodObserver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walras_agent.correction import CpuRate
    from walras_agent.local.cgroups import KernelGroups

pytestmark = [pytest.mark.system, needs_root, needs_cpuset, needs_two_cpus]

ONE = CpuSet([min(os.sched_getaffinity(0))])


@pytest.fixture
def rates() -> Iterator[dict[str, CpuRate]]:
    """What three jobs on one CPU use and wait for: two programs that spin, one, and a sleeper."""
    run, programs = Run(run_id()), Programs()
    groups = next(iter(kernel_groups()))
    placer = JobPlacer(run, groups)
    try:
        for name, code, number in (("two", BURNER, 2), ("one", BURNER, 1), ("none", SLEEPER, 1)):
            job = placer.open(name)
            job.place(ONE)
            for _ in range(number):
                programs.start(job, code)
        observer = PodObserver(groups, run)
        reader = CpuUseReader(groups)
        assert eventually(lambda: groups.cpu_seconds(run.pod("one")) > 0.2)
        # An interpreter takes seconds to start where the machine is emulated.
        assert eventually(lambda: _stands_still(groups, run.pod("none")))
        assert reader.rates(observer.observe()) == {}
        time.sleep(2.0)
        yield reader.rates(observer.observe())
    finally:
        programs.close()
        placer.close()


def _stands_still(groups: KernelGroups, group: str) -> bool:
    before = groups.cpu_seconds(group)
    time.sleep(0.5)
    return 0 < before == groups.cpu_seconds(group)


def test_who_wants_more_waits_and_who_sleeps_does_not(rates: dict[str, CpuRate]) -> None:
    two, one, none = rates["two"], rates["one"], rates["none"]
    assert one.waited is not None
    assert two.waited is not None
    assert one.used > 0
    assert 0.8 < one.used + one.waited < 1.2
    assert 0.8 < two.used + two.waited < 2.4
    assert (two.threads, one.threads) == (2, 1)
    assert none.used < 0.01
    assert (none.waited or 0.0) < 0.05
