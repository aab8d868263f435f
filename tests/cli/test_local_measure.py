"""Measurements of a local run as values: which are used, and what is said and done about others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
import yaml

from walras.speedup.diagnosis import UNRELIABLE, FindingCode
from walras.speedup.sizes import DataSize
from walras_agent.waiting import Unwaited
from walras_api.job_inputs import ASSUMED_FRACTION
from walras_cli.local.documents import LocalJob, load
from walras_cli.local.measure import (
    LONGEST_HOLD_UP,
    REPEATS,
    HeldUpError,
    Measured,
    Patience,
    campaign,
    reliable_if_possible,
    saved,
)
from walras_cli.local.state import FractionSource, JobState
from walras_profiler.campaign import Measurement, Trial, plan_trials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DOCUMENTS = """
apiVersion: walras.dev/v1alpha1
kind: Entitlement
metadata: {name: ada}
spec: {shares: 1, namespaces: [default]}
---
apiVersion: walras.dev/v1alpha1
kind: MarketJob
metadata: {name: zip}
spec: {entitlement: ada, command: ["true", "{fraction}"]}
"""

AGAIN = "default/zip: its measurement is not used and is made again"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The documents of a job of unknown speedup."""
    file = tmp_path / "market.yaml"
    file.write_text(DOCUMENTS)
    return file


@pytest.fixture
def job(file: Path) -> LocalJob:
    """A job of unknown speedup."""
    (job,) = load([file]).jobs
    return job


def measured(
    job: LocalJob, *, fraction: float = 0.8, seconds: float = 100.0, others: float = 0.0
) -> Measured:
    """Return measurements that follow Amdahl's law, for a time on one core with all data."""
    return Measured.of(
        job,
        [
            Measurement(
                cores,
                DataSize(Decimal(size)),
                seconds * float(size) * (1 - fraction + fraction / cores),
                others=others,
            )
            for cores in (1, 2, 4)
            for size in ("0.02", "0.04", "0.07", "0.1")
            for _ in range(3)
        ],
    )


def settled(*takes: Measured) -> tuple[Measured, list[str]]:
    """Take measurements in turn; return the one that counts, and the messages about them."""
    told: list[str] = []
    left = iter(takes)
    result = reliable_if_possible(takes[0].job, lambda _sizes: next(left), told.append)
    assert not list(left)
    return result, told


def test_a_reliable_measurement_is_taken_once_and_nothing_is_told(job: LocalJob) -> None:
    good = measured(job)
    assert settled(good) == (good, [])


def test_a_measurement_on_a_busy_machine_is_told_and_not_taken_again(job: LocalJob) -> None:
    """The machine would most likely be as busy, and the job has to wait meanwhile."""
    bad = measured(job, others=0.23)
    result, (told,) = settled(bad)
    assert result is bad
    assert "because its measurement is unreliable: other programs took 23% of the CPUs" in told


def test_a_measurement_of_short_runs_is_told_and_taken_again(job: LocalJob) -> None:
    good = measured(job)
    result, told = settled(measured(job, seconds=10.0), good)
    assert result is good
    why = "because runs on 4 cores take only 0.080 s, mostly start-up"
    assert told == [f"{AGAIN} on larger parts of its data, {why}"]


@pytest.mark.parametrize(
    ("seconds", "data", "expected"),
    [
        (20.0, "{}", "2% 4% 7% 10%"),  # the shortest run takes 0.16 s, which is long enough
        (10.0, "{}", "6% 12% 21% 30%"),  # 0.08 s, so three times as much takes 0.24 s
        (0.1, "{}", "20% 40% 70% 100%"),  # there are no more data than this
        (0.1, "{samples: [30%, 40%]}", "60% 80%"),
        (0.1, "{samples: [60%]}", "60%"),
        (10.0, '{size: "5000"}', "300 600 1050 1500"),
        (0.1, '{size: "5000"}', "1000 2000 3500 5000"),
    ],
)
def test_runs_that_are_too_short_are_made_again_on_more_data(
    file: Path, seconds: float, data: str, expected: str
) -> None:
    file.write_text(DOCUMENTS.replace('"{fraction}"]', f'"{{fraction}}"], data: {data}'))
    (job,) = load([file]).jobs
    assert " ".join(map(str, measured(job, seconds=seconds).sizes_to_repeat)) == expected


def test_after_a_second_unreliable_measurement_the_fraction_is_assumed(job: LocalJob) -> None:
    busy = measured(job, fraction=0.217, others=0.6)
    result, told = settled(measured(job, seconds=1.0), busy)
    assert result is busy
    assert len(told) == 2
    assert told[1] == (
        "default/zip: a parallel fraction of 0.8 is assumed, because its measurement is "
        "unreliable: other programs took 60% of the CPUs during the runs; keep other "
        "programs off the machine while it is measured, or set spec.parallelFraction"
    )
    state = JobState.of(job)
    state.take_measured(result)
    assert (state.fraction, state.source) == (ASSUMED_FRACTION, FractionSource.ASSUMED)
    assert state.source_reason == busy.reason_to_assume
    assert state.seconds_alone is None
    assert [finding.code for finding in state.findings] == [FindingCode.BUSY_MACHINE]


@dataclass
class Busy:
    """A runner of programs with F = 0.8 beside others, which make each run take longer.

    Attributes:
        slowness: Times that a run takes as long as alone, in turn; the last one stays.
        known: Whether the scheduler told how long the run waited, or only what others took.
    """

    slowness: list[float]
    known: bool = True
    now: float = 0.0
    runs: int = 0
    description: str = "played"
    notes: tuple[str, ...] = ()

    def run(self, trial: Trial) -> Measurement:
        alone = 50 * float(trial.size.value) * (1 - 0.8 + 0.8 / trial.cores)
        slow = self.slowness[min(self.runs, len(self.slowness) - 1)]
        self.runs += 1
        self.now += alone * slow + 0.1
        return Measurement(
            trial.cores,
            trial.size,
            alone * slow,
            user_seconds=50 * float(trial.size.value),
            system_seconds=0.0,
            others=1 - 1 / slow,
            unwaited=Unwaited(alone, 0.0, 0.0) if self.known else None,
        )


def campaign_of(job: LocalJob, runner: Busy, patience: Patience | None = None) -> Measured:
    trials = plan_trials((1, 2), job.samples, REPEATS, 0)
    patience = patience or Patience(lambda: runner.now)
    return campaign(job, runner, trials, lambda _trial, _found: None, patience)


WHOLE_CAMPAIGN = 1 + 2 * 4 * REPEATS


@pytest.mark.parametrize("known", [True, False])
def test_a_quiet_machine_exhausts_no_patience_however_long_the_runs(
    job: LocalJob, known: bool
) -> None:
    runner = Busy([1.0], known=known)
    patience = Patience(lambda: runner.now)
    for _ in range(50):
        assert campaign_of(job, runner, patience).fit.fraction == pytest.approx(0.8)
    assert runner.now > 1000
    assert patience.left


@pytest.mark.parametrize("known", [True, False])
def test_a_busy_machine_holds_measurements_up_only_so_long(job: LocalJob, known: bool) -> None:
    runner = Busy([6.0], known=known)
    patience = Patience(lambda: runner.now)
    with pytest.raises(HeldUpError, match=r"programs held up measurements for [23]. s"):
        campaign_of(job, runner, patience)
    assert LONGEST_HOLD_UP < runner.now < 2 * LONGEST_HOLD_UP
    assert not patience.left, "the next job is not even tried"


def test_a_machine_that_is_less_busy_is_waited_for(job: LocalJob) -> None:
    runner = Busy([1.5])
    assert campaign_of(job, runner).fit.fraction == pytest.approx(0.8)
    assert runner.runs == WHOLE_CAMPAIGN


def test_two_repeats_are_enough_where_patience_ends_in_the_third(job: LocalJob) -> None:
    runner = Busy([1.0] * 20 + [60.0])
    found = campaign_of(job, runner)
    assert 20 < runner.runs < WHOLE_CAMPAIGN
    assert len(found.measurements) == 2 * 2 * 4
    assert found.fit.fraction == pytest.approx(0.8)


def test_each_fault_of_an_unreliable_measurement_has_a_way_out(job: LocalJob) -> None:
    runs = measured(job, seconds=1.0, others=0.5).measurements
    bad = Measured.of(job, [replace(run, error=0.5) for run in runs])
    assert {doubt.code for doubt in bad.doubts} == UNRELIABLE
    for way in ("keep other programs off", "spec.data", "set spec.parallelFraction"):
        assert way in bad.reason_to_assume


def test_a_reliable_measurement_is_used(job: LocalJob) -> None:
    state = JobState.of(job)
    assert (state.source, bool(state.source_reason)) == (FractionSource.ASSUMED, True)
    state.take_measured(measured(job, fraction=0.8))
    assert state.fraction == pytest.approx(0.8)
    assert (state.source, state.source_reason) == (FractionSource.MEASURED, "")
    assert state.seconds_alone == pytest.approx(100.0)


@pytest.mark.parametrize("others", [0.0, 0.5])
def test_what_the_documents_give_meanwhile_is_kept(job: LocalJob, others: float) -> None:
    state = JobState.of(job)
    state.take_given(0.3, None)
    state.take_measured(measured(job, others=others))
    state.take_failure("the command failed")
    assert (state.fraction, state.source) == (0.3, FractionSource.GIVEN)
    assert state.source_reason == ""


def test_a_failed_measurement_says_why_the_fraction_is_assumed(job: LocalJob) -> None:
    state = JobState.of(job)
    state.take_failure("2 cores: the command failed (exit code 3)")
    assert state.source is FractionSource.ASSUMED
    assert "the command failed (exit code 3)" in state.source_reason


@pytest.mark.parametrize(
    ("fractions", "expected"), [([0.8], pytest.approx(0.8)), ([], None)], ids=["reliable", "not"]
)
def test_only_a_reliable_profile_is_saved_for_the_next_run(
    job: LocalJob, file: Path, fractions: Sequence[float], expected: float | None
) -> None:
    """The next run measures again what is not saved, and reads the file in any case."""
    takes = [measured(job, fraction=fraction) for fraction in fractions]
    profiles = file.with_name("profiles.yaml")
    profiles.write_text(yaml.safe_dump_all(saved({}, [*takes, measured(job, others=0.5)])))
    (again,) = load([file, profiles]).jobs
    assert again.fraction == expected


def test_profiles_that_were_read_are_saved_again(job: LocalJob, file: Path) -> None:
    """The file of profiles may be read and written by the same run."""
    profiles = file.with_name("profiles.yaml")
    profiles.write_text(yaml.safe_dump_all(saved({}, [measured(job, fraction=0.8)])))
    known = load([file, profiles]).profiles
    profiles.write_text(yaml.safe_dump_all(saved(known, [])))
    (again,) = load([file, profiles]).jobs
    assert again.fraction == pytest.approx(0.8)
