"""Deadlines of a local run: the work left follows from measured times and what a job has held."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from walras.clearing import clear
from walras.market.snapshot import Entitlement, Node, Snapshot
from walras.speedup.profile import Sample, fit_profile
from walras_api.kinds import MarketJob
from walras_api.parse import parse_object
from walras_cli.local.documents import NODE, LocalJob
from walras_cli.local.outlook import outlook
from walras_cli.local.state import JobState, Phase

BEGAN = datetime(2026, 11, 25, 12, 0, 0, tzinfo=UTC)
FIT = fit_profile(
    Sample(cores, size, (1000 * size * (0.1 + 0.9 / cores),))
    for size in (0.1, 0.2)
    for cores in (1, 4)
)
"""A thousand seconds on one core, with a parallel fraction of 0.9."""


def state(name: str = "train", *, measured: bool = True, **spec: object) -> JobState:
    document = {
        "apiVersion": "walras.dev/v1alpha1",
        "kind": "MarketJob",
        "metadata": {"name": name},
        "spec": {"entitlement": "ada", "command": ["true"], **spec},
    }
    resource = parse_object(document)
    assert isinstance(resource, MarketJob)
    fit = FIT if measured else None
    job = LocalJob("default", name, "here", Path(), resource.spec, fit, 0.9)
    return JobState.of(job)


def test_a_duration_counts_from_the_start_of_the_run() -> None:
    job = state(deadline="5m").with_deadline(BEGAN, 60.0, 3)
    assert job.deadline is not None
    assert job.deadline.seconds == pytest.approx(240)
    assert job.deadline.left == pytest.approx(1000)
    assert job.deadline.reserved == 3


def test_a_time_is_a_time() -> None:
    at = (BEGAN + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%MZ")
    assert state(deadline=at).due(BEGAN) == pytest.approx(600)
    assert state().due(BEGAN) is None


def test_what_it_has_held_is_work_done() -> None:
    running = state(deadline="5m")
    running.phase, running.held = Phase.RUNNING, 4.0
    running.pass_time(100.0)
    job = running.with_deadline(BEGAN, 100.0, 0)
    assert job.deadline is not None
    assert job.deadline.left == pytest.approx(1000 - 100 * 4 / (0.9 + 0.4))


def test_without_times_there_is_nothing_to_reserve_for() -> None:
    assert state(deadline="5m", measured=False).with_deadline(BEGAN, 0.0, 0).deadline is None
    assert state().with_deadline(BEGAN, 0.0, 0).deadline is None


def test_the_market_reserves_what_the_deadline_takes() -> None:
    jobs = (state(deadline="5m").with_deadline(BEGAN, 0.0, 0), state("other").in_market)
    plan = clear(
        Snapshot((Entitlement("ada", 1, None, frozenset(["default"])),), (Node(NODE, 8),), jobs)
    )
    (outcome,) = plan.deadlines
    # On 4.5 cores it is 4.5 / (0.9 + 0.45) times as fast: 300 s for 1000 s of work.
    assert outcome.state == "Reserved"
    assert outcome.reserved == pytest.approx(4.5)
    assert plan.grants[0].held >= 4.5


@pytest.mark.parametrize(
    ("phase", "ended", "result"),
    [
        (Phase.DONE, 260.0, "ended 40 s before its deadline"),
        (Phase.DONE, 340.0, "ended 40 s after its deadline"),
        (Phase.FAILED, 340.0, None),
        (Phase.RUNNING, None, None),
    ],
)
def test_it_is_said_whether_a_deadline_was_met(
    phase: Phase, ended: float | None, result: str | None
) -> None:
    job = state(deadline="5m")
    job.phase, job.ended = phase, ended
    assert job.deadline_result(BEGAN) == result


def test_it_is_said_why_a_deadline_is_rejected_and_what_to_do() -> None:
    jobs = (state(deadline="1m").with_deadline(BEGAN, 0.0, 0),)
    plan = clear(
        Snapshot((Entitlement("ada", 1, None, frozenset(["default"])),), (Node(NODE, 8),), jobs)
    )
    (outcome,) = plan.deadlines
    assert outcome.reserved == 0
    text = outlook(outcome)
    assert text == (
        f"all cores that it can use on {NODE} are too few; move spec.deadline, or raise maxCores"
    )
