"""The fluid model of a run: jobs proceed at their speedup, and ends free cores."""

from __future__ import annotations

import pytest

from walras.analysis.forecast import expected_speedup, forecast
from walras.clearing import clear
from walras.market.snapshot import Entitlement, Job, Node, Policy, Snapshot


def snapshot(cores: int, *jobs: Job) -> Snapshot:
    users = sorted({job.entitlement for job in jobs})
    return Snapshot(
        tuple(Entitlement(user, 1, namespaces=frozenset(["default"])) for user in users),
        (Node("here", cores),),
        jobs,
    )


def job(name: str, user: str, fraction: float = 1.0, max_cores: int | None = None) -> Job:
    return Job("default", name, user, "here", fraction, max_cores=max_cores)


ONE = ("default", "one", "", "here")
TWO = ("default", "two", "", "here")


def test_who_is_left_takes_over_the_cores_of_who_has_ended() -> None:
    """Two cores: one each for 4 s, then both for the 6 s of work that are left."""
    now = snapshot(2, job("one", "ada"), job("two", "bob"))
    ends = forecast(now, Policy(), {ONE: 10.0, TWO: 4.0})
    assert ends == {ONE: pytest.approx(7.0), TWO: pytest.approx(4.0)}


def test_a_bound_holds_also_when_cores_are_free() -> None:
    now = snapshot(4, job("one", "ada", max_cores=1), job("two", "bob"))
    ends = forecast(now, Policy(), {ONE: 10.0, TWO: 6.0})
    assert ends == {ONE: pytest.approx(10.0), TWO: pytest.approx(2.0)}


def test_less_than_a_core_is_a_core_part_of_the_time() -> None:
    now = snapshot(1, job("one", "ada", 0.5), job("two", "bob", 0.9))
    ends = forecast(now, Policy(), {ONE: 1.0, TWO: 1.0})
    assert ends == {ONE: pytest.approx(2.0), TWO: pytest.approx(2.0)}
    assert expected_speedup(now.jobs[1], 0.5) == 0.5
    assert expected_speedup(now.jobs[1], 4) == pytest.approx(4 / (0.9 + 0.1 * 4))


def test_jobs_of_unknown_length_hold_their_cores_for_good() -> None:
    now = snapshot(2, job("one", "ada"), job("two", "bob"))
    assert forecast(now, Policy(), {ONE: 10.0}) == {ONE: pytest.approx(10.0)}


def test_parts_of_shared_cores_add_up_to_them() -> None:
    now = snapshot(2, *(job(f"j{i}", f"user-{i % 2}", 0.9) for i in range(5)))
    held = clear(now).holdings()
    assert sum(held.values()) == pytest.approx(2)
    assert all(0 < cores < 1 for cores in held.values())
