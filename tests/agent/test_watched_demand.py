"""On how many CPUs real programs run at once, as an agent sees it on the real kernel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from real_jobs import ALLOWED, BURNER, SLEEPER, Programs, needs_cpuset, needs_root, needs_two_cpus
from waiting import eventually
from walras.market.demand import Demand, Seen, bound_of, learn
from walras_agent.cpu_use import CpuUseReader
from walras_agent.cpuset import CpuSet
from walras_agent.local.cgroups import kernel_groups
from walras_agent.local.placement import JobPlacer, run_id
from walras_agent.local.runs import Run
from walras_agent.observe import PodObserver
from walras_agent.quota import WEIGHT_FILES
from walras_agent.tree import CgroupFile
from walras_agent.watched_demand import ASLEEP, GLANCE, DemandWatch
from walras_agent.weights import RANGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_agent.cpu_demand import CpuDemand

pytestmark = [pytest.mark.system, needs_root, needs_cpuset, needs_two_cpus]

IDLE_THREADS = """
import threading, time
for _ in range(6):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""
SPINS = f"{IDLE_THREADS}\nwhile True: pass"
BURSTS = f"""{IDLE_THREADS}
while True:
    time.sleep(0.5 - time.time() % 0.5)
    while time.time() % 0.5 < 0.1: pass
"""
LOOK = 2.0
MINUTE = 60.0
UNTIL_SURE = 3 * MINUTE
"""Seconds after which all is known, on a machine that others use, too."""


class WatchedPrograms:
    """Programs on two CPUs, beside which others have little, and who watches them."""

    def __init__(self) -> None:
        self.run, self.programs = Run(run_id()), Programs()
        self.groups = next(iter(kernel_groups()))
        self.placer = JobPlacer(self.run, self.groups)
        self.observer = PodObserver(self.groups, self.run)
        self.watch = DemandWatch(CpuUseReader(self.groups, asleep=ASLEEP), pause=LOOK)
        self.seen: Mapping[str, CpuDemand] = {}

    def start(self, name: str, code: str, number: int = 1) -> None:
        job = self.placer.open(name)
        job.place(CpuSet(ALLOWED[:2]))
        self._weigh(self.run.pod(name).strip("/").partition("/")[0])
        for _ in range(number):
            self.programs.start(job, code)
        assert eventually(lambda: self.groups.cpu_seconds(self.run.pod(name)) > 0.02)

    def _weigh(self, group: str) -> None:
        version = self.groups.version
        file = CgroupFile("cpu", f"/{group}", WEIGHT_FILES[version])
        self.groups.write(file, str(RANGES[version].most))

    def look(self) -> Mapping[str, CpuDemand]:
        """Look once, after the glances that are due until then."""
        end = time.monotonic() + LOOK
        while (now := time.monotonic()) < end:
            time.sleep(max(min(self.watch.due, end) - now, 0.0))
            if self.watch.due < end:
                self.watch.begin_glance()
                time.sleep(GLANCE)
                self.watch.end_glance()
        self.seen = self.watch.look(self.observer.observe())
        return self.seen

    def bound(self, name: str) -> float:
        """Return the most CPUs that a program is taken to use at once, by all that was seen."""
        each = self.seen[name]
        seen = Seen(each.at_once, each.threads or float("inf"), each.free, each.wanted)
        return bound_of(learn(Demand(), [seen], 0.0), 0.0).cpus

    def knows(self, *names: str, seconds: float = 0.0) -> bool:
        """Look once, and return whether these programs were then seen for a while."""
        self.look()
        return all(name in self.seen and self.seen[name].free >= seconds for name in names)

    def close(self) -> None:
        self.programs.close()
        self.placer.close()


@pytest.fixture
def watched() -> Iterator[WatchedPrograms]:
    programs = WatchedPrograms()
    try:
        yield programs
    finally:
        programs.close()


def test_programs_that_compete_can_use_as_many_cpus_as_they_have_threads(
    watched: WatchedPrograms,
) -> None:
    watched.start("one", BURNER)
    watched.start("two", BURNER, 2)
    began = time.monotonic()
    assert eventually(lambda: watched.knows("one", "two"), UNTIL_SURE)
    assert time.monotonic() - began < MINUTE
    assert watched.bound("one") == 1
    assert watched.bound("two") == 2
    assert watched.seen["two"].held_back


@pytest.mark.speed
def test_threads_that_do_nothing_are_not_taken_for_what_a_program_can_use(
    watched: WatchedPrograms,
) -> None:
    watched.start("spins", SPINS)
    watched.start("sleeps", IDLE_THREADS + SLEEPER)
    assert eventually(lambda: watched.knows("spins", "sleeps", seconds=20), UNTIL_SURE)
    assert watched.seen["spins"].threads == 7
    assert watched.bound("spins") == pytest.approx(1, abs=0.1)
    assert watched.bound("sleeps") == 1


@pytest.mark.speed
def test_a_burst_is_seen_although_it_is_short(watched: WatchedPrograms) -> None:
    watched.start("bursts", BURSTS, 2)
    assert eventually(
        lambda: watched.knows("bursts", seconds=20) and watched.bound("bursts") == 2, UNTIL_SURE
    )
    assert watched.seen["bursts"].threads == 14


def test_a_quota_holds_a_program_back(watched: WatchedPrograms) -> None:
    watched.start("limited", BURNER, 2)
    version, group = watched.groups.version, watched.run.pod("limited")
    name, text = {1: ("cpu.cfs_quota_us", "50000"), 2: ("cpu.max", "50000 100000")}[version]
    watched.groups.write(CgroupFile("cpu", group, name), text)
    assert eventually(lambda: watched.knows("limited"), UNTIL_SURE)
    assert watched.seen["limited"].free < 20 <= watched.seen["limited"].held_back
    assert watched.bound("limited") == 2
