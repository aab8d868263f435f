"""Jobs of a run are held to grants by a real kernel, by cgroup and by CPU affinity alike.

Nothing is faked: the programs are real, and where they may run is asked of /proc. Runs as root and
as an ordinary user, and inside emulated machines with more CPUs (test_guest.py).
"""

from __future__ import annotations

import os
import threading
import time
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest

from cgroup_folders import cgroups_named
from real_jobs import (
    BOTH_WAYS,
    BURNER,
    SLEEPER,
    THREADS_AND_A_CHILD,
    Programs,
    cpus_of,
    cpus_of_threads,
    needs_cpuset,
    needs_root,
    needs_two_cpus,
    pids_of,
    threads_of,
)
from waiting import eventually
from walras_agent.cpuset import CpuSet
from walras_agent.local.affinity import AffinityGroups
from walras_agent.local.cgroups import KernelGroups
from walras_agent.local.placement import JobPlacer, PlacedJob, open_placer, run_id
from walras_agent.moves import CPUS
from walras_agent.node_plan import EnforcedGrant, Mode, NodePlan
from walras_agent.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from walras_agent.status import NodeStatus
    from walras_agent.tree import CgroupFile

    Write = Callable[[Any, CgroupFile, str], None]

pytestmark = [pytest.mark.system, needs_two_cpus]

TOPOLOGY = Topology.read()
CORES = len(TOPOLOGY.cores("thread"))
PLANS = int(os.environ.get("WALRAS_TEST_PLANS", "15"))  # an emulated machine takes its time
TWO_PROCESSES = "import os, time; os.fork(); time.sleep(600)"
NOTHING = CpuSet()


class Machine:
    """A run whose jobs are granted CPUs of their own or, if granted 0, half of a shared one."""

    def __init__(self, placer: JobPlacer) -> None:
        self.placer = placer
        self.programs = Programs()
        self.jobs: dict[str, PlacedJob] = {}
        self.reconciler = placer.reconciler(lambda: TOPOLOGY)
        self.now = 0.0
        self.epoch = 0

    def start(self, name: str, code: str = SLEEPER) -> PlacedJob:
        self.jobs[name] = self.placer.open(name)
        self.programs.start(self.jobs[name], code)
        return self.jobs[name]

    def grant(
        self,
        cpus: Mapping[str, float],
        mode: Mode = "enforce",
        fixed: Collection[PlacedJob] = (),
    ) -> NodeStatus:
        grants = [
            EnforcedGrant(name, name, round(1000 * (count or 0.5)), isolated=True)
            for name, count in cpus.items()
        ]
        self.epoch += 1
        self.reconciler.offer(NodePlan(self.epoch, mode, tuple(grants), "thread"))
        return self.step(fixed)

    def step(self, fixed: Collection[PlacedJob] = ()) -> NodeStatus:
        self.now += 1.0
        self.placer.keep()
        return self.reconciler.step(self.now, fixed=[job.container for job in fixed])

    def close(self) -> None:
        self.programs.close()
        self.placer.close()


@pytest.fixture(params=BOTH_WAYS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    machine = Machine(open_placer(run_id(), request.param))
    yield machine
    machine.close()


def test_own_cpus_are_nobody_elses_and_the_rest_is_shared(machine: Machine) -> None:
    owner, *sharers = (machine.start(name, THREADS_AND_A_CHILD) for name in "abc")
    assert eventually(lambda: all(len(threads_of(job)) == 6 for job in machine.jobs.values()))

    status = machine.grant({"a": 1, "b": 0, "c": 0})

    assert status.is_enforced
    (own,) = cpus_of(owner)
    assert len(own) == 1
    free = TOPOLOGY.cpuset - own
    first, last = min(free), sorted(free)[min(1, len(free) - 1)]
    pinned = [CpuSet([first]), CpuSet([last])]
    shared = pinned if machine.placer.weighs_threads else [free, free]
    assert [cpus_of(job) for job in sharers] == [{shared[0]}, {shared[1]}]
    assert {pod.pod: pod.exclusive for pod in status.pods} == {
        "a": own,
        "b": CpuSet(),
        "c": CpuSet(),
    }


@needs_root
@needs_cpuset
def test_by_cgroup_jobs_share_all_cpus_unless_they_are_isolated() -> None:
    machine = Machine(open_placer(run_id(), "cgroup"))
    try:
        jobs = [machine.start(name) for name in "ab"]
        grants = (EnforcedGrant("a", "a", 1000), EnforcedGrant("b", "b", 500))
        machine.reconciler.offer(NodePlan(1, "enforce", grants, "thread"))
        assert machine.step().is_enforced
        assert [cpus_of(job) for job in jobs] == [{TOPOLOGY.cpuset}] * 2
    finally:
        machine.close()


def test_all_cpus_may_be_owned(machine: Machine) -> None:
    first, second = machine.start("a"), machine.start("b")
    assert machine.grant({"a": 1, "b": CORES - 1}).is_enforced
    (one,), (rest,) = cpus_of(first), cpus_of(second)
    assert len(one) == 1
    assert rest == TOPOLOGY.cpuset - one


def test_job_is_on_its_cpus_before_its_first_instruction(machine: Machine) -> None:
    machine.start("a")
    machine.grant({"a": CORES})
    newcomer = machine.jobs["b"] = machine.placer.open("b")
    status = machine.grant({"a": CORES - 1, "b": 1})
    assert status.is_enforced

    tell = "import os; print(*os.sched_getaffinity(0), flush=True); input()"
    process = machine.programs.start(newcomer, tell)

    assert process.stdout is not None
    assert CpuSet(map(int, process.stdout.readline().split())) == status.pods[1].exclusive
    assert len(status.pods[1].exclusive) == 1


def weighted(machine: Machine) -> tuple[PlacedJob, PlacedJob]:
    """Two jobs that share the CPUs that a third leaves, the first with four times the weight."""
    heavy, light = machine.start("heavy", BURNER), machine.start("light", BURNER)
    machine.start("owner")
    machine.grant({"owner": CORES - 1, "heavy": 0.8, "light": 0.2})
    # Ordinary users' session weights are taken by the kernel only every 0.1 s.
    assert eventually(lambda: (again := machine.step()).is_enforced and not again.writes, pause=0.1)
    return heavy, light


def test_jobs_that_share_are_weighted_and_use_what_others_leave(machine: Machine) -> None:
    heavy, light = weighted(machine)
    assert cpus_of(heavy) == cpus_of(light)
    heavy.close()
    left = light.cpu_seconds()
    assert eventually(lambda: light.cpu_seconds() - left > 0.5)


@pytest.mark.speed
def test_weights_divide_shared_cpus(machine: Machine) -> None:
    heavy, light = weighted(machine)
    before = heavy.cpu_seconds(), light.cpu_seconds()

    def used() -> tuple[float, float]:
        return heavy.cpu_seconds() - before[0], light.cpu_seconds() - before[1]

    assert eventually(lambda: sum(used()) > 2)
    by_heavy, by_light = used()
    assert 2.5 < by_heavy / by_light < 6.5


def test_when_nothing_changes_nothing_is_written(machine: Machine) -> None:
    for name in "abc":
        machine.start(name)
    machine.grant({"a": 1, "b": 0, "c": 0})
    assert machine.step().writes == ()
    assert machine.step().repaired == ()


def test_observing_moves_nobody_and_tells_who_would_be(machine: Machine) -> None:
    job = machine.start("a")
    status = machine.grant({"a": 1}, mode="observe")
    assert cpus_of(job) == {TOPOLOGY.cpuset}
    assert len(status.pods[0].exclusive) == 1
    machine.grant({"a": 1})
    assert cpus_of(job) == {status.pods[0].exclusive}
    machine.grant({"a": 1}, mode="observe")
    assert cpus_of(job) == {TOPOLOGY.cpuset}


def test_job_that_is_fixed_keeps_its_cpus_and_nobody_gets_them(machine: Machine) -> None:
    measured, other = machine.start("a"), machine.start("b")
    machine.grant({"a": CORES - 1, "b": 1})
    before = cpus_of(measured), cpus_of(other)
    for _ in range(2):
        status = machine.grant({"a": 1, "b": CORES - 1}, fixed=[measured])
        assert (cpus_of(measured), cpus_of(other)) == before
    if CORES > 2:
        assert [pod.state for pod in status.pods] == ["Pending", "Pending"]
    assert machine.step().is_enforced
    assert len(*cpus_of(measured)) == 1
    assert len(*cpus_of(other)) == CORES - 1


@pytest.mark.parametrize("way", BOTH_WAYS)
def test_runs_at_once_leave_each_other_alone(
    machine: Machine, way: Literal["cgroup", "affinity"]
) -> None:
    other = Machine(open_placer(run_id(), way))
    try:
        mine, theirs = machine.start("a"), other.start("a")
        assert machine.grant({"a": 1}).is_enforced
        assert cpus_of(theirs) == {TOPOLOGY.cpuset}
        assert other.grant({"a": CORES}).is_enforced
        assert len(*cpus_of(mine)) == 1
    finally:
        other.close()
    assert len(pids_of(mine)) == 1
    assert machine.step().writes == ()


@needs_root
@needs_cpuset
def test_cpus_changed_by_others_are_put_right() -> None:
    machine = Machine(open_placer(run_id(), "cgroup"))
    try:
        job = machine.start("a")
        machine.grant({"a": 1})
        (own,) = cpus_of(job)
        (group,) = (
            group / "job-a/main"
            for group in cgroups_named(Path(job.pod).parent.name)
            if (group / "job-a/main/cpuset.cpus").exists()
        )
        (group / "cpuset.cpus").write_text(str(TOPOLOGY.cpuset))
        assert machine.step().repaired == (job.container,)
        assert cpus_of(job) == {own}
    finally:
        machine.close()


def test_by_affinity_nice_values_of_all_threads_only_ever_rise() -> None:
    machine = Machine(open_placer(run_id(), "affinity"))
    try:
        job = machine.start("a", THREADS_AND_A_CHILD)
        assert eventually(lambda: len(threads_of(job)) == 6)
        base = os.getpriority(os.PRIO_PROCESS, 0)
        for cores, nice in ((0.999, 0), (0.5, 3), (0.999, 3), (0.1, 10)):
            machine.grant({"a": cores})
            nices = {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads_of(job)}
            assert nices == {min(19, base + nice)}
    finally:
        machine.close()


class Watcher(threading.Thread):
    """Looks at which CPUs all jobs may use, over and over."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.pids: Mapping[str, tuple[int, ...]] = {}
        self.looks: list[Mapping[str, CpuSet]] = []
        self.rounds = 0
        self.ended = False

    def run(self) -> None:
        while not self.ended:
            looks, pids = self.looks, self.pids
            first, second = _look(pids), _look(pids)
            # What both looks show was so at a moment between them, for all jobs at once.
            if first == second and first not in looks[-1:]:
                looks.append(first)
            self.rounds += 1
            time.sleep(0.0005)  # lets the other thread go on

    def after(self, write: Write) -> Write:
        """Check every state that exists between two writes."""

        def slow(groups: Any, setting: CgroupFile, value: str) -> None:
            write(groups, setting, value)
            seen = self.rounds
            while setting.file == CPUS and self.rounds < seen + 2:
                assert self.is_alive()
                time.sleep(0.0002)

        return slow

    def taken(self) -> list[Mapping[str, CpuSet]]:
        """Return the looks since the last call."""
        taken, self.looks = self.looks, []
        return taken


def _look(pids: Mapping[str, tuple[int, ...]]) -> Mapping[str, CpuSet]:
    return {
        name: CpuSet(cpu for pid in all_of for cpus in cpus_of_threads(pid) for cpu in cpus)
        for name, all_of in pids.items()
    }


def test_no_cpu_ever_has_two_owners_while_grants_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs are on one CPU only where both share it, before a change or after it."""
    random = Random(20260)
    watcher = Watcher()
    for kind in (KernelGroups, AffinityGroups):
        monkeypatch.setattr(kind, "write", watcher.after(kind.write))
    watcher.start()
    sharing: dict[str, CpuSet] = {}
    for _ in range(PLANS):
        plan = some_grants(random)
        watcher.pids = {name: pids for name, pids in watcher.pids.items() if name in plan}
        for name in machine.jobs.keys() - plan.keys():
            machine.jobs.pop(name).close()
        new = plan.keys() - machine.jobs.keys()
        machine.jobs |= {name: machine.placer.open(name) for name in new}

        status = machine.grant(plan)

        assert status.is_enforced
        shares = {name: status.shared for name, count in plan.items() if count % 1 or not count}
        for look, (one, other) in product(watcher.taken(), combinations(plan, 2)):
            both = look.get(one, NOTHING) & look.get(other, NOTHING)
            for job in (one, other):
                assert both <= sharing.get(job, NOTHING) | shares.get(job, NOTHING), (look, job)
        sharing = shares
        for name in new:
            machine.programs.start(machine.jobs[name], TWO_PROCESSES)
        assert eventually(lambda: all(len(pids_of(job)) == 2 for job in machine.jobs.values()))
        for pod in status.pods:
            assert pod.cpus is not None
            assert cpus_of(machine.jobs[pod.pod]) == {pod.cpus}
            assert pod.cpus - pod.exclusive <= shares.get(pod.pod, NOTHING)
            assert bool(pod.cpus - pod.exclusive) == (pod.pod in shares)
            assert len(pod.exclusive) == int(plan[pod.pod])
        watcher.pids = {name: pids_of(job) for name, job in machine.jobs.items()}
    watcher.ended = True
    watcher.join()


def some_grants(random: Random) -> dict[str, float]:
    """Some jobs with CPUs of their own and, if one is left, some that share, owners among them."""
    plan: dict[str, float] = {}
    left = CORES
    for name in random.sample("abcd", random.randint(1, 4)):
        plan[name] = count = random.randint(0, max(left - 1, 0))
        left -= count
    owners = [name for name, count in plan.items() if count]
    if len(owners) == len(plan):
        plan[owners[-1]] += random.randint(0, left)
    elif owners and random.random() < 0.5:
        plan[owners[0]] += 0.25
    return plan
