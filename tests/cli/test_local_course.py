"""The course of a local run: samples of what everybody holds and uses, and what happened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dashboards import decided
from walras_cli.local.course import MOST_SAMPLES, Course, LocalRun, sample_of

if TYPE_CHECKING:
    from walras_cli.local.state import JobState


def job(title: str, seconds: float, *, running: bool = True) -> JobState:
    """Return what the course reads of a job: its title, CPU time, and whether it runs."""
    state: Any = SimpleNamespace(
        job=SimpleNamespace(title=title),
        cpu_seconds=seconds,
        place=None,
        running=object() if running else None,
    )
    return state  # type: ignore[no-any-return]


def run_of(course: Course) -> LocalRun:
    return LocalRun.model_validate(course.document(shown=0.0))


def test_a_sample_says_what_the_statuses_say() -> None:
    documents = decided()
    found = sample_of(5.0, documents, {"alice/dedup": 1.5})
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    alice = by_name["Entitlement", "alice"]["status"]["cores"]
    assert found.user["alice"] == {
        **{key: float(alice[key]) for key in ("entitled", "bought", "held")},
        "used": 1.5,
    }
    dedup = by_name["MarketJob", "dedup"]["status"]
    assert found.job["alice/dedup"]["held"] == sum(float(each["held"]) for each in dedup["pods"])
    assert found.job["alice/dedup"]["used"] == 1.5
    prices = by_name["Market", "default"]["status"]["prices"]
    assert {name: each["price"] for name, each in found.node.items()} == {
        each["node"]: float(each["price"]) for each in prices
    }


def test_cores_used_are_the_cpu_time_since_the_sample_before() -> None:
    course, documents = Course(), decided()
    for time, seconds in ((10.0, 3.0), (12.0, 6.0), (16.0, 6.0)):
        course.take(time, documents, [job("alice/dedup", seconds)])
    used = [each.job["alice/dedup"]["used"] for each in run_of(course).samples]
    assert used == [None, pytest.approx(1.5), 0.0]


def test_it_is_kept_when_a_job_ended() -> None:
    course = Course()
    course.follow(1.0, {"a": job("lab/a", 0), "b": job("lab/b", 0, running=False)})
    course.follow(2.0, {"a": job("lab/a", 0, running=False), "b": job("lab/b", 0)})
    assert [(each.time, each.what) for each in run_of(course).events] == [
        (2.0, "lab/a ended"),
    ]


def test_a_long_run_keeps_its_beginning_and_its_end() -> None:
    course = Course()
    for second in range(4 * MOST_SAMPLES):
        course.take(float(second), [], [])
    times = [each.time for each in run_of(course).samples]
    assert len(times) <= MOST_SAMPLES
    assert times[0] == 0.0
    assert times[-1] >= 4 * MOST_SAMPLES - 8
