"""Measurements of a local run as values: which are used, and what is said and done about others."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
import yaml

from walras.speedup.diagnosis import UNRELIABLE, FindingCode
from walras.speedup.sizes import DataSize
from walras_api.job_inputs import ASSUMED_FRACTION
from walras_cli.local.documents import LocalJob, load
from walras_cli.local.measure import Measured, reliable_if_possible, saved
from walras_cli.local.state import FractionSource, JobState
from walras_profiler.campaign import Measurement

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
        "default/zip: a parallel fraction of 0.9 is assumed, because its measurement is "
        "unreliable: other programs took 60% of the CPUs during the runs; keep other "
        "programs off the machine while it is measured, or set spec.parallelFraction"
    )
    state = JobState.of(job)
    state.take_measured(result)
    assert (state.fraction, state.source) == (ASSUMED_FRACTION, FractionSource.ASSUMED)
    assert state.source_reason == busy.reason_to_assume
    assert state.seconds_alone is None
    assert [finding.code for finding in state.findings] == [FindingCode.BUSY_MACHINE]


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
