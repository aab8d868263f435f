"""Predictions of speedups, gains and penalties are kept once progress checks have tested them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pytest

from measured_worlds import measurement
from walras.speedup.amdahls_law import speedup
from walras_api.speedup_profile_status import MOST_SCORED, OnlineRequest
from walras_operator.decide.measuring.co_runners import ALONE, CoRunner
from walras_operator.decide.measuring.counted_progress import (
    CountedProgress,
    StoredMeasurement,
    samples_of,
)
from walras_operator.decide.measuring.measurement_record import (
    EMPTY,
    ProfileRecord,
    measured_status,
    with_check,
    with_measurement,
)
from whole_decisions import decide
from worlds import NOW, entitlement, job, market, node, pod, profile, status, world

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_operator.decide.world import Document

SERVE = CoRunner("web", "serve")


def exact() -> float:
    """Return the relative error of a sample."""
    return 0.0


def report(
    name: str, rates: dict[int, float], noise: Callable[[], float] = exact
) -> StoredMeasurement:
    """Return three samples at each number of cores, with relative errors drawn from the noise."""
    made = measurement(name, rates)
    for each in made["samples"]:
        each["progress"] = f"{float(each['progress']) * (1 + noise()):.9f}"
    return StoredMeasurement.read({**made, "source": "file"})


def measured(fraction: float, noise: Callable[[], float] = exact) -> ProfileRecord:
    rates = {cores: float(speedup(cores, fraction)) for cores in (1, 2, 4, 8)}
    return with_measurement(EMPTY, report("a-0", rates, noise), [])


def checked(
    record: ProfileRecord,
    cores: int,
    rate: float,
    company: CoRunner | None = ALONE,
    noise: Callable[[], float] = exact,
    time: str = NOW,
    name: str = "a-0",
) -> ProfileRecord:
    request = OnlineRequest(
        id="r",
        pod=name,
        pod_uid=f"u-lab-{name}",
        node="n1",
        purpose="Progress",
        since=NOW,
        until=NOW,
    )
    kept = report(name, {cores: rate}, noise)
    counted = CountedProgress(samples_of(kept), kept)
    return with_check(record, request, counted, Decimal(9), time, company)


def outcomes(record: ProfileRecord, of: str) -> list[tuple[float, float, float]]:
    return [
        (float(each.expected), float(each.error), float(each.came))
        for each in record.predictions
        if each.of == of
    ]


def test_progress_alone_is_compared_with_what_f_predicts() -> None:
    record = checked(measured(0.8), 4, 0.9 * float(speedup(4, 0.8)))
    ((expected, error, came),) = outcomes(record, "Speedup")
    assert expected == 1
    assert came == pytest.approx(0.9, abs=1e-4)
    assert error < 0.01, "the samples agree to the digit"
    assert outcomes(record, "Gain") == outcomes(record, "Penalty") == []
    again = with_measurement(record, report("a-1", {1: 1.0, 2: 1.5}), [])
    assert again.predictions == record.predictions


def test_a_gain_comes_true_only_where_cores_of_the_same_pod_were_moved() -> None:
    record = measured(0.9)
    first, second = (float(speedup(cores, 0.9)) for cores in (4, 8))
    record = checked(record, 4, first, time="2026-01-01T00:01:00Z")
    record = checked(record, 4, first, time="2026-01-01T00:02:00Z")
    assert outcomes(record, "Gain") == []
    elsewhere = checked(record, 8, second, time="2026-01-01T00:03:00Z", name="a-1")
    assert outcomes(elsewhere, "Gain") == []
    beside = checked(record, 8, second, SERVE, time="2026-01-01T00:03:00Z")
    assert outcomes(beside, "Gain") == []
    moved = checked(record, 8, 1.2 * first, time="2026-01-01T00:03:00Z")
    ((expected, _, came),) = outcomes(moved, "Gain")
    assert expected == pytest.approx(second / first, abs=1e-3)
    assert came == pytest.approx(1.2, abs=1e-3)


def test_a_known_penalty_is_compared_with_that_of_the_next_check() -> None:
    record = measured(0.8)
    rate = float(speedup(4, 0.8))
    record = checked(record, 4, 0.7 * rate, SERVE)
    assert outcomes(record, "Penalty") == [], "nothing was known before"
    record = checked(record, 4, 0.5 * rate, SERVE)
    ((expected, _, came),) = outcomes(record, "Penalty")
    assert expected == pytest.approx(0.3, abs=1e-3)
    assert came == pytest.approx(0.5, abs=1e-3)
    among = checked(record, 4, 0.5 * rate, None)
    assert among.predictions == record.predictions, "several co-runners test nothing"


def test_only_the_latest_of_each_kind_are_kept() -> None:
    record = measured(0.8)
    rate = float(speedup(4, 0.8))
    for number in range(40):
        company = SERVE if number % 2 else ALONE
        record = checked(record, 4, rate * (1 + number / 1000), company)
    assert len(record.predictions) <= MOST_SCORED
    assert len(outcomes(record, "Penalty")) == len(outcomes(record, "Speedup")) == MOST_SCORED // 3
    assert outcomes(record, "Speedup")[-1][2] == pytest.approx(1.038, abs=1e-3)


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_stated_errors_of_programs_that_follow_the_law_are_right(noise: float) -> None:
    """Three samples show their own error only roughly, so 0.68 is not to be had."""
    random = np.random.default_rng(1)
    deviations: dict[str, list[float]] = {"Speedup": [], "Gain": [], "Penalty": []}
    for _ in range(40):
        record = measured(0.9, lambda: noise * random.normal())
        for cores, company, loss in ((4, ALONE, 1.0), (8, ALONE, 1.0), *[(8, SERVE, 0.7)] * 2):
            rate = loss * float(speedup(cores, 0.9))
            time = f"2026-01-01T00:0{cores}:00Z"
            record = checked(record, cores, rate, company, lambda: noise * random.normal(), time)
        for of, found in deviations.items():
            found += [(came - expected) / error for expected, error, came in outcomes(record, of)]
    for of, found in deviations.items():
        assert len(found) >= 40, of
        assert 0.5 <= np.mean(np.abs(found) <= 1) <= 0.9, of


def test_the_market_scores_all_kinds_of_all_profiles_and_what_is_spoilt_harms_nobody() -> None:
    known = measured_status(checked(measured(0.8), 4, 0.9 * float(speedup(4, 0.8))))
    spoilt: list[Document | str] = [{"of": "Speedup", "expected": "1"}, "nonsense"]
    made = [profile("a"), profile("b"), profile("c")]
    made[0]["status"] = made[1]["status"] = known
    made[2]["status"] = {"online": {"predictions": spoilt}}
    present = world(
        market(), entitlement("ada"), node("n1", "8"), job("a", "ada"), pod("a-0", "a"), *made
    )
    first = decide(present)
    (found,) = status(first, "Market", "default")["predictions"]
    assert (found["of"], found["number"], found["coverage"]) == ("Speedup", 2, "0")
    assert float(found["crps"]) == pytest.approx(0.1, abs=0.01)
    assert float(found["widening"]) > 5
    none = replace(present, objects=replace(present.objects, profiles=[]))
    assert status(decide(none), "Market", "default")["predictions"] == []


def test_a_check_that_hardly_moves_the_scores_costs_no_write_of_the_market() -> None:
    def scored(*came: str) -> Document:
        tests = [{"of": "Speedup", "expected": "1", "error": "0.1", "came": each} for each in came]
        return {**profile("a"), "status": {"online": {"predictions": tests}}}

    def statuses(last: str, before: Document) -> list[Document]:
        asked = {**market(), "status": before}
        found = decide(world(asked, scored("0.9", last))).statuses
        return [each.status for each in found if each.object.kind == "Market"]

    (first,) = statuses("1.2", {})
    assert statuses("1.2003", first) == []
    (moved,) = statuses("1.3", first)
    assert moved["predictions"] != first["predictions"]
