"""The steps from what a pod is held to towards its grant, on a simulated kernel and programs.

The simulation knows what the choice depends on: reclaim takes inactive cache, then active cache,
and no memory without a file; at the hard limit the kernel kills; in v2 the soft limit slows a
program down, which shows as pressure; a program reads back hot files that were taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from walras_agent.memory.limit_steps import (
    LimitHistory,
    LimitProgress,
    MemoryWrite,
    PodMemory,
    Reclaim,
    ReclaimPace,
    SetLimit,
    next_step,
    progress,
)
from walras_agent.memory.stats import UNLIMITED, MemoryLimits, MemorySample, MemoryStall

MIB = 1 << 20
POD, CONTAINER = "/pod", "/pod/main"
SECONDS = 2.0
PACE = ReclaimPace()


@dataclass
class Kernel:
    """A pod of one container, where both groups contain only the memory of one program."""

    version: int = 2
    limits: dict[str, MemoryLimits] = field(default_factory=dict)
    anon: int = 0
    active: int = 0
    inactive: int = 0
    hot: int = 0  # of files, what the program reads all the time
    ages: bool = True  # whether idle cache is found to be so without reclaim
    stall: float = 0.0
    stalled: float = 0.0
    refaulted: int = 0
    refused: int = 0
    kills: list[tuple[str, int]] = field(default_factory=list)  # by whose limit, and which

    @property
    def usage(self) -> int:
        return self.anon + self.active + self.inactive

    def reclaim(self, usage: int) -> bool:
        for cache in ("inactive", "active"):
            taken = max(0, min(getattr(self, cache), self.usage - usage))
            setattr(self, cache, getattr(self, cache) - taken)
        return self.usage <= usage

    def charge(self, kind: str, amount: int) -> None:
        """Give the program memory, until it is killed or, above its soft limit, slowed down."""
        for group, limit in self.limits.items():
            if self.usage + amount > limit.hard:
                self.refused += 1
                self.reclaim(limit.hard - amount)
                if self.usage + amount > limit.hard:
                    if kind == "anon":
                        self.kills.append((group, limit.hard))
                        self.anon = self.active = self.inactive = self.hot = 0
                    return
        setattr(self, kind, getattr(self, kind) + amount)
        if self.version == 2:
            self.reclaim(min(limit.soft for limit in self.limits.values()))

    def grow(self, amount: int) -> None:
        """Allocate in pieces of a MiB, fewer of them where the kernel slows the program down."""
        before = len(self.kills)
        for piece in range(amount // MIB):
            self.charge("anon", MIB)
            if len(self.kills) > before:
                return
            if self.is_slowed() and piece >= 8:
                return

    def is_slowed(self) -> bool:
        softest = min(limit.soft for limit in self.limits.values())
        return self.version == 2 and self.usage > softest

    def run(self, seconds: float) -> None:
        """Let time pass: the program reads its hot files, pressure builds up and fades."""
        missing = min(self.hot, 1 << 40) - self.active
        if missing > 0:
            moved = min(self.inactive, missing)
            self.inactive -= moved
            self.active += moved
            self.refaulted += missing - moved
            for _ in range((missing - moved) // MIB):
                self.charge("active", MIB)
        cooling = 0.5 ** (seconds / 5)
        self.stall = self.stall * cooling + (80 * (1 - cooling) if self.is_slowed() else 0)
        self.stalled += 0.8 * seconds if self.is_slowed() else 0
        idle = max(0, self.active - self.hot) // 8 if self.ages else 0
        self.active -= idle
        self.inactive += idle

    def sample(self) -> dict[str, MemorySample]:
        return {
            group: MemorySample(
                limits,
                self.usage,
                self.inactive,
                self.active,
                MemoryStall(self.stall, self.stall, self.stalled, self.stalled)
                if self.version == 2
                else None,
                self.refaulted,
                self.refused,
                len(self.kills),
            )
            for group, limits in self.limits.items()
        }

    def write(self, write: MemoryWrite) -> None:
        if isinstance(write, Reclaim):
            self.reclaim(write.usage)
            return
        limits = self.limits[write.group]
        if write.knob == "hard":
            assert write.value <= limits.swap
            fits = self.reclaim(write.value)
            if self.version == 1 and not fits:
                return  # EBUSY
            assert fits, f"{write} kills"
        if write.knob == "swap":
            assert write.value >= limits.hard
        value = bool(write.value) if write.knob == "kills" else write.value
        self.limits[write.group] = replace(limits, **{write.knob: value})  # type: ignore[arg-type]


@dataclass
class World:
    """A kernel, and an agent that looks every two seconds.

    Attributes:
        meanwhile: Bytes that the program holds for a moment between the look and the writes.
    """

    kernel: Kernel
    originals: dict[str, MemoryLimits]
    grant: int | None = None
    meanwhile: int = 0
    can_slow: bool = True
    histories: dict[str, LimitHistory] = field(default_factory=dict)
    now: float = 1000.0
    written: list[MemoryWrite] = field(default_factory=list)

    def pod(self) -> PodMemory:
        return PodMemory(POD, self.kernel.sample(), self.originals, self.can_slow)

    def step(self, grant: int | None, cut: int | None = None) -> LimitProgress:
        """One step; cut short after some writes, the agent has died and starts afresh."""
        step = next_step(self.pod(), grant, self.histories, self.now, PACE)
        self.kernel.charge("anon", self.meanwhile)
        for write in step.writes[:cut]:
            self.kernel.write(write)
            self.written.append(write)
        self.kernel.anon = max(0, self.kernel.anon - self.meanwhile)
        report = progress(self.pod(), grant, step.histories, self.now, PACE)
        self.histories = dict(step.histories) if cut is None else {}
        self.kernel.run(SECONDS)
        self.now += SECONDS
        return report

    def until_held(self, grant: int | None, steps: int = 300) -> LimitProgress:
        for _ in range(steps):
            report = self.step(grant)
            if report.state == "Held":
                break
        return report

    def live(self, what: str, value: int | None) -> None:
        """Let the program or the agent do something; sizes are in MiB."""
        number = value or 0
        match what:
            case "grow":
                self.kernel.grow(number * MIB)
            case "shrink":
                self.kernel.anon = max(0, self.kernel.anon - number * MIB)
            case "read":
                for _ in range(number):
                    self.kernel.charge("inactive", MIB)
            case "hot":
                self.kernel.hot = number * MIB
            case "grant":
                self.grant = None if value is None else value * MIB
            case "steps":
                for _ in range(number):
                    self.step(self.grant)
            case "crash":
                self.step(self.grant, cut=number)


def world(
    pod: MemoryLimits | None = None,
    container: MemoryLimits | None = None,
    version: int = 2,
    **memory: int,
) -> World:
    """A world with limits of a GiB unless told, and a program with so many MiB."""
    originals = {
        POD: pod or MemoryLimits(1024 * MIB),
        CONTAINER: container or pod or MemoryLimits(1024 * MIB),
    }
    kernel = Kernel(version, dict(originals))
    for kind, amount in memory.items():
        setattr(kernel, kind, amount * MIB)
    return World(kernel, originals)


both_versions = pytest.mark.parametrize("version", [1, 2])


def test_a_raise_takes_effect_at_once_the_pod_before_its_containers() -> None:
    here = world(anon=900)
    step = next_step(here.pod(), 2048 * MIB, {}, 0.0)
    assert step.writes == (
        SetLimit(POD, "hard", 2048 * MIB),
        SetLimit(CONTAINER, "hard", 2048 * MIB),
    )
    report = progress(here.pod(), 2048 * MIB, {}, 0.0)
    assert (report.state, report.limit) == ("Pending", 1024 * MIB)
    assert report.reason == (
        "raising the limit of the pod to 2Gi; raising the limit of container main to 2Gi"
    )
    assert here.step(2048 * MIB) == LimitProgress("Held", "", 2048 * MIB)


def test_swap_limit_is_raised_before_and_put_back_after_the_hard_limit() -> None:
    limits = MemoryLimits(1024 * MIB, swap=1536 * MIB)
    here = world(limits, version=1, anon=100)
    here.step(2048 * MIB)
    assert here.written[:2] == [
        SetLimit(POD, "swap", 2560 * MIB),
        SetLimit(POD, "hard", 2048 * MIB),
    ]
    here.until_held(None)
    assert here.kernel.limits == here.originals


def test_limits_that_the_user_never_set_are_not_set_by_a_raise() -> None:
    here = world(MemoryLimits(), MemoryLimits(512 * MIB), anon=100)
    assert here.until_held(768 * MIB).state == "Held"
    assert here.kernel.limits == {
        POD: MemoryLimits(soft=768 * MIB),
        CONTAINER: MemoryLimits(768 * MIB),
    }


def test_a_soft_limit_of_the_user_yields_to_a_grant_and_comes_back() -> None:
    here = world(container=MemoryLimits(1024 * MIB, soft=800 * MIB), anon=100)
    assert here.until_held(2048 * MIB).state == "Held"
    assert here.kernel.limits[CONTAINER] == MemoryLimits(2048 * MIB, soft=2048 * MIB)
    assert here.until_held(None).state == "Held"
    assert here.kernel.limits == here.originals


@both_versions
def test_idle_cache_is_taken_in_steps_and_the_hard_limit_stays(version: int) -> None:
    here = world(version=version, anon=100, inactive=800)
    assert here.until_held(256 * MIB).state == "Held"
    softs = [w.value for w in here.written if isinstance(w, SetLimit)]
    assert len(softs) > 4
    assert softs == sorted(softs, reverse=True)
    assert here.kernel.usage <= 256 * MIB
    assert here.kernel.limits[POD] == MemoryLimits(1024 * MIB, soft=256 * MIB)
    assert here.kernel.limits[CONTAINER] == MemoryLimits(1024 * MIB)


@both_versions
def test_what_the_program_needs_is_never_taken(version: int) -> None:
    here = world(version=version, anon=500, inactive=300)
    report = here.until_held(256 * MIB)
    assert report == LimitProgress(
        "Pending",
        "lowering the limit of the pod to 256Mi: it uses 550Mi and needs 500Mi, "
        "with headroom 550Mi; waits until it frees 294Mi",
        550 * MIB,
    )
    here.kernel.anon = 100 * MIB
    assert here.until_held(256 * MIB).state == "Held"


def test_cache_that_was_used_twice_but_idles_is_probed_and_taken() -> None:
    here = world(anon=50, active=600, inactive=20)
    here.kernel.ages = False
    assert here.until_held(128 * MIB).state == "Held"
    reclaims = [w.usage for w in here.written if isinstance(w, Reclaim)]
    assert len(reclaims) > 20


@both_versions
def test_a_refault_storm_stops_and_steps_back_and_waits_ever_longer(version: int) -> None:
    here = world(version=version, anon=50, hot=500, active=500)
    reports = [here.step(200 * MIB) for _ in range(600)]
    assert any(
        "it reads back" in each.reason and "tries again in" in each.reason for each in reports
    )
    backs = [
        at for at, (before, after) in enumerate(pairwise(reports)) if after.limit > before.limit
    ]
    assert len(backs) > 2
    waits = [after - before for before, after in pairwise(backs)]
    assert waits[-1] > 3 * waits[0]
    # Mostly, the program is left alone.
    assert sum("tries again" in each.reason for each in reports) > 400


def test_a_program_that_outgrows_its_grant_is_slowed_and_let_go_not_killed() -> None:
    here = world(anon=100)
    here.until_held(256 * MIB)
    reports = []
    for _ in range(300):
        here.kernel.grow(100 * MIB)
        if here.kernel.anon > 700 * MIB:
            break
        reports.append(here.step(256 * MIB))
    assert here.kernel.kills == []
    assert here.kernel.anon > 700 * MIB
    assert any("its tasks wait for memory" in each.reason for each in reports)
    assert here.kernel.limits[POD].hard == 1024 * MIB


def test_in_v1_a_program_that_outgrows_its_grant_gets_it_back() -> None:
    here = world(version=1, anon=100)
    here.until_held(256 * MIB)
    here.kernel.grow(300 * MIB)
    reports = [here.step(256 * MIB) for _ in range(20)]
    assert here.kernel.kills == []
    assert here.kernel.limits[POD].soft == 440 * MIB
    said = "it needs 400Mi, more than the 256Mi it was held to; tries again in"
    assert any(said in each.reason for each in reports)


@both_versions
def test_raised_limits_are_put_back_once_there_has_been_room_for_a_while(version: int) -> None:
    here = world(version=version, anon=100)
    here.until_held(2048 * MIB)
    here.kernel.grow(1100 * MIB)
    report = here.until_held(None, 60)
    assert report.state == "Pending"
    assert "waits until it frees" in report.reason
    here.kernel.anon = 900 * MIB
    for _ in range(3):
        report = here.step(None)
    assert here.kernel.limits[POD].hard == 2048 * MIB
    assert here.until_held(None).state == "Held"
    assert here.kernel.limits == here.originals
    assert here.kernel.kills == []


@both_versions
def test_a_program_that_nearly_filled_its_own_limit_gets_that_limit_back(version: int) -> None:
    here = world(version=version, anon=990)
    here.until_held(2048 * MIB)
    assert here.until_held(None).state == "Held"
    assert here.kernel.limits == here.originals


def test_where_the_kernel_cannot_slow_tasks_down_nothing_is_lowered() -> None:
    here = world(anon=100, inactive=800)
    here.can_slow = False
    report = here.until_held(256 * MIB, 20)
    assert here.written == []
    expected = "the limit of the pod stays at 1Gi: lowering it is not safe before Linux 5.9"
    assert report.reason == expected


def test_a_crash_while_kills_were_off_is_put_right_first() -> None:
    here = world(version=1, anon=100)
    here.kernel.limits[POD] = MemoryLimits(150 * MIB, kills=False)
    here.step(256 * MIB)
    assert here.written[:2] == [SetLimit(POD, "hard", 1024 * MIB), SetLimit(POD, "kills", 1)]


def test_groups_without_known_originals_are_left_alone() -> None:
    here = world(anon=100)
    del here.originals[CONTAINER]
    here.until_held(2048 * MIB)
    assert here.kernel.limits[CONTAINER] == MemoryLimits(1024 * MIB)


@pytest.mark.parametrize("grant", [1, 4096, 65535])
def test_the_smallest_grant_is_64_kib(grant: int) -> None:
    assert next_step(world().pod(), grant, {}, 0.0) == next_step(world().pod(), 65536, {}, 0.0)


events = st.one_of(
    st.tuples(st.just("grow"), st.integers(1, 600)),
    st.tuples(st.just("shrink"), st.integers(1, 600)),
    st.tuples(st.just("read"), st.integers(1, 600)),
    st.tuples(st.just("hot"), st.integers(0, 300)),
    st.tuples(st.just("grant"), st.one_of(st.none(), st.integers(64, 3000))),
    st.tuples(st.just("steps"), st.integers(1, 60)),
    st.tuples(st.just("crash"), st.integers(0, 3)),
)
limits = st.builds(
    lambda hard, soft: MemoryLimits(
        hard * MIB if hard else UNLIMITED, min(soft, hard or soft) * MIB if soft else UNLIMITED
    ),
    st.sampled_from([0, 300, 1000, 2000]),
    st.sampled_from([0, 0, 250, 900]),
)


@pytest.mark.long
@examples(300)
@given(st.sampled_from([1, 2]), limits, limits, st.lists(events, max_size=25))
def test_no_program_is_killed_by_a_limit_that_was_lowered(
    version: int, pod: MemoryLimits, container: MemoryLimits, story: list[tuple[str, int | None]]
) -> None:
    """Whatever it does; and once it needs less than its grant for long enough, that is held."""
    here = world(pod, container, version, anon=50)
    here.meanwhile = 4 * MIB
    kernel = here.kernel
    for event in story:
        here.live(*event)
        assert all(limit >= here.originals[group].hard for group, limit in kernel.kills)
        for write in here.written:
            if isinstance(write, SetLimit) and write.knob == "hard":
                assert write.value >= here.originals[write.group].hard

    kernel.hot = 0
    kernel.anon = 20 * MIB
    report = here.until_held(here.grant, 1200)
    assert report.state == "Held", report.reason
    if here.grant is None:
        assert kernel.limits == here.originals
    else:
        assert kernel.usage <= here.grant + MIB
        assert report.limit == here.grant
