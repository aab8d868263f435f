"""How `benchmarks/held.py` judges what it measured, by worked examples, and what its pods buy."""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holding.measure import Found
    from holding.rows import Row
    from holding.verdict import Outcome

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
rows = import_module("holding.rows")
verdict = import_module("holding.verdict")
sys.path.pop(0)


def busy(cpus: int = 2, **pods: tuple[float, int]) -> Row:
    computing = {name: rows.compute(*pod) for name, pod in pods.items()}
    row: Row = rows.Row("a row", "always busy", cpus, computing)
    return row


def found(
    used: dict[str, float], idle: float = 0.0, took: dict[str, tuple[float, float]] | None = None
) -> Found:
    measured: Found = {
        "used": used,
        "slices": [used],
        "idle": idle,
        "blocks": dict.fromkeys(used, 1.0),
        "took": took or {},
        "writes": 0.0,
        "fsyncs": 0.0,
        "agent": 0.0,
    }
    return measured


def of(row: Row, *measured: Found) -> Outcome:
    outcome: Outcome = verdict.outcome(row, measured)
    return outcome


@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: f"{row.name}, {row.cpus}")
def test_the_pods_of_a_row_buy_all_cpus_of_its_machine(row: Row) -> None:
    assert sum(pod.cpus for pod in row.pods.values()) == pytest.approx(row.cpus)


def test_rows_of_one_machine_have_different_names() -> None:
    names = Counter((row.cpus, row.name) for row in rows.ROWS)
    assert set(names.values()) == {1}


def test_what_a_pod_cannot_use_for_want_of_threads_is_due_to_others_by_what_they_bought() -> None:
    row = busy(8, a=(2, 1), b=(2, 8), c=(4, 8))
    due = verdict.due(row, {"a": 1, "b": 3, "c": 4}, idle=0.0)
    assert due == pytest.approx({"a": 1, "b": 7 / 3, "c": 14 / 3})


def test_what_programs_outside_take_all_pods_lose_alike() -> None:
    row = busy(a=(1.5, 2), b=(0.5, 1))
    assert of(row, found({"a": 1.2, "b": 0.4})).error == pytest.approx(0)


def test_a_cpu_left_idle_is_an_error_of_those_who_could_have_used_it() -> None:
    row = busy(a=(1, 2), b=(1, 2))
    assert of(row, found({"a": 0.5, "b": 1.0}, idle=0.5)).error == pytest.approx(50)


def test_medians_of_the_runs_count() -> None:
    row = busy(a=(1, 2), b=(1, 2))
    runs = [found({"a": 1 - off, "b": 1 + off}) for off in (0.01, 0.5, 0.02)]
    assert of(row, *runs).error == pytest.approx(2)


def test_a_measurement_that_other_programs_disturbed_is_named() -> None:
    row = busy(a=(1, 2), b=(1, 2))
    ways = {
        "undisturbed": of(row, found({"a": 0.95, "b": 0.95})),
        "disturbed": of(row, found({"a": 0.8, "b": 0.8})),
        "half idle": of(row, found({"a": 0.5, "b": 0.5}, idle=1.0)),
    }
    (told,) = verdict.disturbed(row, ways)
    assert told.startswith("a row, disturbed: other programs took 0.40 CPUs")


def test_steady_pods_are_those_that_always_compute() -> None:
    pods = {"a": rows.phases(1, 2, 5, 5), "b": rows.compute(1, 2)}
    row = rows.Row("a row", "phases", 2, pods)
    outcome = of(row, found({"a": 0.5, "b": 0.9}, idle=0.6))
    assert outcome.error is None
    assert outcome.steady == pytest.approx(0.9)


def test_two_cpus_may_be_three_percent_off_and_eight_no_more_than_before() -> None:
    def missed(cpus: int, error: float, before: float, kernel: str = "6.12") -> bool:
        row = busy(cpus, a=(cpus / 2, cpus), b=(cpus / 2, cpus))
        ways = {
            way: of(row, found({"a": cpus / 2 * (1 - off / 100), "b": cpus / 2 * (1 + off / 100)}))
            for way, off in ((verdict.THIS, error), (verdict.BEFORE, before))
        }
        return bool(list(verdict.missed(row, ways, kernel)))

    assert not missed(2, error=2.9, before=0.1)
    assert missed(2, error=3.1, before=9.0)
    assert not missed(8, error=4.9, before=9.0)
    assert missed(8, error=4.9, before=4.0)
    assert not missed(8, error=14.9, before=4.0, kernel="newest")


def test_a_service_on_a_fraction_must_be_faster_than_under_every_rival() -> None:
    def missed(cpus: float, ours: float, plain: float, before: float) -> bool:
        pods = {"s": rows.service(cpus, 0.8 * cpus), "b": rows.compute(2 - cpus, 2)}
        row = rows.Row("a row", "service", 2, pods)
        ways = {
            way: of(row, found({"s": 0.4, "b": 1.6}, took={"s": (1.0, p99)}))
            for way, p99 in zip(
                (verdict.THIS, verdict.PLAIN, verdict.BEFORE), (ours, plain, before), strict=True
            )
        }
        return bool(list(verdict.missed(row, ways, "6.12")))

    assert not missed(0.5, ours=9, plain=10, before=10)
    assert missed(0.5, ours=11, plain=10, before=20)
    assert missed(0.5, ours=11, plain=20, before=10)
    assert not missed(1, ours=14, plain=9, before=10), "whole CPUs may take half as long again"
    assert missed(1, ours=16, plain=20, before=10)
