"""The work that jobs have left: by their own counters, by profiles, and how sure that is."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.speedup.work_left import (
    UNKNOWN_ERROR,
    RunPart,
    WorkLeft,
    deadline_time,
    left_by_counter,
    left_by_profile,
    merged,
    rate_of,
)
from walras_api.fields import TIME

NOON = datetime(2026, 11, 25, 12, 0, 0, tzinfo=UTC)


def test_a_rate_is_that_of_the_whole_run() -> None:
    rate = rate_of([RunPart(100, 50), RunPart(300, 150)])
    assert rate is not None
    assert rate.value == pytest.approx(0.5)
    assert rate.error == pytest.approx(UNKNOWN_ERROR / math.sqrt(2))


def test_the_error_covers_the_truth_about_as_often_as_it_says() -> None:
    """Some two thirds of rates from 16 noisy parts are within one standard error."""
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(500):
        parts = [
            RunPart(60.0, max(60 * (1 + 0.4 * random.standard_normal()), 0)) for _ in range(16)
        ]
        rate = rate_of(parts)
        assert rate is not None
        hits += abs(rate.value - 1) <= rate.error
    assert 0.6 < hits / 500 < 0.85


@given(st.lists(st.builds(RunPart, st.floats(1, 1e6), st.floats(0, 1e9)), min_size=1, max_size=16))
def test_merging_parts_keeps_the_rate(parts: list[RunPart]) -> None:
    fewer = merged(parts)
    assert len(fewer) == (len(parts) + 1) // 2
    before, after = rate_of(parts), rate_of(fewer)
    assert (before is None) == (after is None)
    if before and after:
        assert after.value == pytest.approx(before.value)


def test_a_counter_that_has_not_moved_tells_nothing() -> None:
    assert rate_of([RunPart(100, 0)]) is None
    assert rate_of([]) is None


def test_the_work_left_falls_between_readings_but_not_to_nothing() -> None:
    rate = rate_of([RunPart(100, 10)] * 16)
    assert rate is not None
    left = left_by_counter(100.0, 60.0, rate, 100.0)
    assert left == WorkLeft(pytest.approx(300), pytest.approx(400 * rate.error))  # type: ignore[arg-type]
    assert left_by_counter(100.0, 60.0, rate, 1e9).seconds == pytest.approx(200)
    assert left_by_counter(100.0, 130.0, rate, 0.0).seconds == 0


def test_a_run_that_takes_longer_than_predicted_is_nearly_done() -> None:
    assert left_by_profile(WorkLeft(1000, 50), 300) == WorkLeft(700, 50)
    assert left_by_profile(WorkLeft(1000, 50), 5000) == WorkLeft(50, 50)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("90m", "2026-11-25T13:30:00+00:00"),
        ("36h", "2026-11-27T00:00:00+00:00"),
        ("2d", "2026-11-27T12:00:00+00:00"),
        ("999999d", "2999-12-31T23:59:59+00:00"),
        ("2026-12-01T18:00Z", "2026-12-01T18:00:00+00:00"),
        ("2026-12-01T18:00:30+01:00", "2026-12-01T17:00:30+00:00"),
        ("2027-02-29T00:00Z", "2027-03-01T00:00:00+00:00"),
        ("2028-02-29T00:00Z", "2028-02-29T00:00:00+00:00"),
    ],
)
def test_deadlines_are_times_or_spans_of_time(text: str, time: str) -> None:
    assert deadline_time(text, NOON).isoformat() == time


@given(st.from_regex(f"^(?:{TIME})\\Z") | st.from_regex(r"^[1-9][0-9]{0,5}[mhd]\Z"))
def test_what_the_schema_accepts_is_a_time(text: str) -> None:
    assert deadline_time(text, NOON).tzinfo is UTC
