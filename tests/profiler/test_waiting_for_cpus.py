"""What waiting for CPUs adds to the times of runs is taken out, by a scheduler that is played."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING

import pytest

from walras.speedup.diagnosis import FindingCode, diagnose
from walras.speedup.profile import fit_profile
from walras.speedup.sizes import WHOLE, DataSize
from walras_agent.waiting import Thread, Unwaited, WaitingTimes
from walras_api.kinds import SpeedupProfile
from walras_api.parse import parse_resource
from walras_profiler.campaign import Measurement, disturbance_of, samples_of
from walras_profiler.correction import without_waiting
from walras_profiler.document import profile_document
from walras_profiler.profile_tables import ProfileReport, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SLICE = 0.004
"""Seconds that the played scheduler lets a task run."""


@dataclass
class Played:
    """A program on two CPUs beside others that compute all the time, and its times so far."""

    random: Random
    others: int
    times: WaitingTimes
    ran: dict[int, float] = field(default_factory=dict)
    waited: dict[int, float] = field(default_factory=dict)
    now: float = 0.0
    cpus: int = 2

    def step(self, runnable: Sequence[int]) -> list[int]:
        """Let a slice pass in which some threads can run; return those that ran."""
        if int(self.now / 0.01) != int((self.now - SLICE) / 0.01):
            self.look(runnable)
        tasks = [*runnable, *range(-self.others, 0)]
        chosen = self.random.sample(tasks, min(self.cpus, len(tasks)))
        for each in runnable:
            spent = self.ran if each in chosen else self.waited
            spent[each] = spent.get(each, 0.0) + SLICE
        self.now += SLICE
        return [each for each in chosen if each >= 0]

    def look(self, runnable: Sequence[int]) -> None:
        self.times.look(
            self.now,
            {
                each: Thread(self.ran.get(each, 0.0), self.waited.get(each, 0.0), each in runnable)
                for each in {0, *runnable}
            },
        )

    def compute(self, thread: int, seconds: float) -> None:
        """Let one thread compute."""
        until = self.ran.get(thread, 0.0) + seconds
        while self.ran.get(thread, 0.0) < until:
            self.step([thread])

    def divided(self, parts: Sequence[float]) -> None:
        """Let threads compute their parts, each to its own end."""
        left = {number + 1: seconds for number, seconds in enumerate(parts)}
        while left:
            for each in self.step(sorted(left)):
                left[each] -= SLICE
            left = {each: seconds for each, seconds in left.items() if seconds > 0}

    def pool(self, seconds: float) -> None:
        """Let two threads take pieces of work until nothing is left."""
        while seconds > 0:
            seconds -= SLICE * len(self.step([1, 2]))

    def unwaited(self) -> Unwaited:
        found = self.times.unwaited(self.now, sum(self.ran.values()))
        assert found is not None
        return found


def halves(run: Played) -> None:
    run.compute(0, 0.3)
    run.divided([0.7, 0.7])


def pool(run: Played) -> None:
    run.compute(0, 0.2)
    run.pool(1.6)


PROGRAMS: dict[str, Callable[[Played], None]] = {
    "serial": lambda run: run.compute(0, 1.0),
    "divided in halves": halves,
    "divided unevenly": lambda run: run.divided([1.0, 0.4]),
    "pool": pool,
    "four threads on two CPUs": lambda run: run.divided([0.5] * 4),
}
"""Programs that take a second on two CPUs of their own."""


@pytest.mark.parametrize("others", [0, 1, 2, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_takes_what_it_would_take_on_cpus_of_its_own(name: str, others: int) -> None:
    alone = 1.0
    found = []
    for seed in range(5):
        run = Played(Random(seed), others, WaitingTimes(2, 0.0))
        PROGRAMS[name](run)
        busy, idle, error = run.unwaited()
        assert idle <= 0.01
        assert busy == pytest.approx(alone, abs=0.08 + error)
        assert error < 0.15
        found.append(busy)
    assert sum(found) / 5 == pytest.approx(alone, abs=0.07)


def test_time_in_which_no_thread_could_run_counts_as_it_is() -> None:
    run = Played(Random(0), 2, WaitingTimes(2, 0.0))
    run.compute(0, 0.5)
    run.look([])
    run.now += 0.5
    run.look([])
    run.compute(0, 0.5)
    busy, idle, _ = run.unwaited()
    assert idle == pytest.approx(0.5, abs=0.01)
    assert busy == pytest.approx(1.0, abs=0.05)


def test_a_program_that_sleeps_takes_as_long_as_it_sleeps_however_rarely_it_is_looked_at() -> None:
    """It runs 20 ms and sleeps 180 ms, twice, and waits 30 ms before it runs again."""
    times = WaitingTimes(1, 10.0)
    times.look(10.15, {1: Thread(0.02, 0.0, could_run=False)})
    times.look(10.35, {1: Thread(0.04, 0.03, could_run=False)})
    found = times.unwaited(0.43, 0.04)
    assert found is not None
    assert found.busy == pytest.approx(0.04)
    assert found.idle == pytest.approx(0.36)


def test_a_program_that_could_run_at_every_look_may_have_slept_in_between() -> None:
    """It runs 40 ms and sleeps 150 ms, waits 10 ms before it runs again, and is seen rarely."""
    times = WaitingTimes(1, None)
    for turn in range(51):
        times.look(0.2 * turn, {1: Thread(0.04 * turn, 0.01 * turn, could_run=True)})
    found = times.unwaited(10.0, 2.0)
    assert found is not None
    assert found.busy == pytest.approx(2.0)
    assert found.idle == pytest.approx(7.5, rel=0.1)


def test_a_thread_that_waits_over_many_looks_was_never_idle() -> None:
    """The scheduler counts its second of waiting when it has a CPU again."""
    times = WaitingTimes(1, 0.0)
    for turn in range(10):
        times.look(0.1 * turn, {1: Thread(0.05, 0.0, could_run=True)})
    times.look(1.05, {1: Thread(0.1, 0.95, could_run=True)})
    times.look(1.1, {1: Thread(0.15, 0.95, could_run=True)})
    found = times.unwaited(1.1, 0.15)
    assert found is not None
    assert found.idle == pytest.approx(0.0, abs=0.01)


def test_nothing_is_said_of_threads_that_were_not_seen() -> None:
    run = Played(Random(0), 0, WaitingTimes(2, 0.0))
    run.compute(0, 1.0)
    assert run.times.unwaited(1.0, 3.0) is None
    assert WaitingTimes(2, 0.0).unwaited(1.0, 0.0) is None


def test_time_after_the_end_is_none_of_the_programs() -> None:
    """A container's end is heard of late, and looks at nothing go on until then."""
    times = WaitingTimes(2, 10.0)
    times.look(10.2, {1: Thread(0.1, 0.1, could_run=True)})
    times.look(10.4, {1: Thread(0.2, 0.2, could_run=True)})
    times.look(10.8, {})
    times.look(11.9, {})
    found = times.unwaited(0.41, 0.205)
    assert found is not None
    assert found.busy == pytest.approx(0.205)
    assert found.idle == pytest.approx(0.0, abs=1e-9)


def test_a_program_that_runs_already_counts_from_the_first_look_on() -> None:
    times = WaitingTimes(1, None)
    times.look(10.0, {1: Thread(7.0, 9.0, could_run=True)})
    times.look(11.0, {1: Thread(7.4, 9.6, could_run=True)})
    assert times.ran == pytest.approx(0.4)
    found = times.unwaited(1.0, times.ran)
    assert found is not None
    assert found.busy + found.idle == pytest.approx(0.4)


def campaign(slower: Sequence[float], waited: float, error: float = 0.0) -> list[Measurement]:
    """Runs of a program with F = 0.8 whose CPU time is a multiple of 1 s, in turn."""
    multiples = iter(slower)
    found = []
    for _ in range(len(slower) // 2):
        for cores in (1, 2):
            work = next(multiples)
            alone = work * (1 if cores == 1 else 0.6)
            found.append(
                Measurement(
                    cores,
                    WHOLE,
                    alone * (1 + waited),
                    user_seconds=work,
                    system_seconds=0.0,
                    others=waited,
                    unwaited=Unwaited(alone, 0.0, error),
                )
            )
    return found


def test_times_of_a_quiet_machine_are_left_as_they_are() -> None:
    runs = campaign([1.0, 1.1, 1.0, 1.0], waited=0.01)
    assert without_waiting(runs) == tuple(runs)


def test_what_a_busy_machine_adds_is_no_part_of_the_fraction() -> None:
    """CPUs that others slow down, too, take more CPU time for the same work."""
    runs = without_waiting(campaign([1.3, 1.0, 1.05, 1.2, 1.1, 1.02], waited=1.5))
    assert {round(each.seconds, 9) for each in runs} == {1.0, 0.6}
    samples = samples_of(runs)
    fit = fit_profile(samples)
    assert fit.fraction == pytest.approx(0.8)
    codes = {each.code for each in diagnose(samples, fit, disturbance_of(runs))}
    assert FindingCode.BUSY_MACHINE not in codes


def test_more_cpu_time_on_more_cores_than_in_any_run_on_one_is_the_programs_own() -> None:
    runs = without_waiting(campaign([1.0, 1.5, 1.1, 1.6, 1.05, 1.55], waited=1.0))
    assert {round(each.seconds, 9) for each in runs} == {1.0, 0.9}


@pytest.mark.parametrize(
    ("slower", "error"),
    [([1.0, 3.0, 2.0, 1.0, 1.5, 2.5], 0.0), ([1.0] * 6, 0.2)],
    ids=["work that varies", "threads that waited unequally"],
)
def test_a_fraction_whose_error_is_too_large_is_not_measured(
    slower: Sequence[float], error: float
) -> None:
    samples = samples_of(without_waiting(campaign(slower, waited=1.0, error=error)))
    findings = diagnose(samples, fit_profile(samples))
    assert FindingCode.TOO_NOISY in {each.code for each in findings}


def test_nothing_is_corrected_where_not_all_runs_say_how_long_they_waited() -> None:
    """Their times go into a profile with what others took as their error, so that F is not used."""
    runs = campaign([1.0] * 4, waited=0.5)
    unknown = Measurement(1, DataSize(Decimal(1)), 1.0, others=0.5)
    found = without_waiting([*runs, unknown])
    assert found == (*runs, replace(unknown, error=0.5))
    unseen = without_waiting([replace(each, unwaited=None) for each in runs])
    fit = fit_profile(samples_of(unseen))
    read = parse_resource(profile_document("p", "lab", unseen, fit, ()))
    assert isinstance(read, SpeedupProfile)
    assert "is uncertain by ±" in read.refused
    quiet = replace(unknown, others=0.01)
    assert without_waiting([*runs, quiet]) == (*runs, quiet)


def test_what_is_not_measured_is_not_printed() -> None:
    runs = without_waiting(campaign([1.0, 3.0, 2.0, 1.0, 1.5, 2.5], waited=1.0))
    samples = samples_of(runs)
    report = ProfileReport(runs, fit_profile(samples), diagnose(samples, fit_profile(samples)))
    assert summary(report).plain.startswith("Parallel fraction: not measured, since its times")
    document = profile_document("p", "lab", runs, report.fit, report.findings)
    assert "parallelFraction" not in document["status"]
    again = parse_resource(document)
    assert isinstance(again, SpeedupProfile)
    assert FindingCode.TOO_NOISY in {each.code for each in again.findings}


def test_start_up_is_no_part_of_the_fraction_that_the_market_goes_by() -> None:
    """1 s of start-up, then 10 s of work on all data with F = 0.92: 0.837 on all of them."""

    def seconds(cores: int, size: float) -> float:
        return 1.0 + 10.0 * size * (1 - 0.92 + 0.92 / cores)

    sizes = [Decimal(text) for text in ("0.1", "0.2", "0.3", "0.5")]
    runs = [
        Measurement(cores, DataSize(size), seconds(cores, float(size)))
        for cores in (1, 2, 4)
        for size in sizes
        for _ in range(3)
    ]
    samples = samples_of(runs)
    fit = fit_profile(samples)
    assert fit.fraction_at(1.0) == pytest.approx(0.8364, abs=1e-3)
    assert fit.fraction < 0.7
    assert fit.predict_seconds(8, 1.0) == pytest.approx(seconds(8, 1.0), rel=1e-6)
    words = summary(ProfileReport(runs, fit, ())).plain
    assert words.startswith("Parallel fraction: 0.836 on all data, by which the market goes; 0.6")
    assert "start-up that does not grow with the data weighs more" in words
