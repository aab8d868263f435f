"""What looks at progress tell of the company that pods were in."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measured_worlds import measurement
from walras.resources.assembly import Objects, assemble
from walras.resources.speedup_profile import MOST_CO_RUNNERS, CoRunnerProgress, OnlineRequest
from walras.speedup import speedup
from walras_operator.measuring.co_runners import (
    ALONE,
    MEAN_LENGTH,
    CoRunner,
    find_co_runner,
    penalties_of,
    with_observation,
)
from walras_operator.measuring.record import (
    EMPTY,
    CountedProgress,
    StoredMeasurement,
    measured_status,
    samples_of,
    with_check,
    with_measurement,
)
from worlds import NOW, job, profile, world

if TYPE_CHECKING:
    from walras_operator.measuring.record import ProfileRecord
    from walras_operator.world import Document

SERVE = CoRunner("web", "serve")
REQUEST = OnlineRequest(
    id="r", pod="a-0", pod_uid="u", node="n1", purpose="Progress", since=NOW, until=NOW
)


def looked(*looks: tuple[CoRunner, float]) -> list[CoRunnerProgress]:
    found: list[CoRunnerProgress] = []
    for company, ratio in looks:
        found = with_observation(found, company, ratio, NOW)
    return found


def with_pods(name: str, *pods: tuple[str, str], namespace: str = "lab", **spec: str) -> Document:
    made = job(name, namespace=namespace, **spec)
    made["status"] = {"pods": [{"name": pod, "node": node} for pod, node in pods]}
    return made


def test_a_penalty_is_what_looks_in_company_lack_of_looks_alone() -> None:
    (found,) = penalties_of(looked((ALONE, 1.1), (SERVE, 0.9), (ALONE, 0.9), (SERVE, 0.7)), "file")
    assert (found.namespace, found.profile, found.looks) == ("web", "serve", 2)
    assert float(found.penalty) == pytest.approx(0.2)
    assert found.source == "file"


def test_nothing_is_said_before_there_was_a_look_alone() -> None:
    assert penalties_of(looked((SERVE, 0.5)), "cpuTime") == []


@given(st.lists(st.floats(0.1, 2.0), min_size=30, max_size=40))
def test_the_mean_follows_a_program_that_changes(before: list[float]) -> None:
    looks = [(SERVE, ratio) for ratio in before] + [(SERVE, 0.5)] * 6 * MEAN_LENGTH
    (found,) = looked(*looks)
    assert float(found.ratio) == pytest.approx(0.5, abs=0.01)


def test_the_oldest_company_makes_room_and_looks_alone_stay() -> None:
    crowd = [(CoRunner("web", f"p{number}"), 1.0) for number in range(2 * MOST_CO_RUNNERS)]
    found = looked((ALONE, 1.0), *crowd)
    assert len(found) <= MOST_CO_RUNNERS
    assert found[0].profile is None
    assert found[-1].profile == f"p{2 * MOST_CO_RUNNERS - 1}"


@pytest.mark.parametrize(
    ("jobs", "company"),
    [
        ([with_pods("a", ("a-0", "n1"))], ALONE),
        ([with_pods("a", ("a-0", "n1"), ("a-1", "n2"))], ALONE),
        ([with_pods("a", ("a-0", "n1"), ("a-1", "n1"))], CoRunner("lab", "a")),
        (
            [
                with_pods("a", ("a-0", "n1")),
                with_pods("b", ("a-0", "n1"), namespace="web", profile="serve", auto=""),
            ],
            SERVE,
        ),
        ([with_pods("a", ("a-0", "n1"), ("a-1", "n1")), with_pods("b", ("b", "n1"))], None),
    ],
)
def test_who_is_beside_a_pod(jobs: list[Document], company: CoRunner | None) -> None:
    assert find_co_runner(world(*jobs), REQUEST, "lab") == company


def test_measured_penalties_count_like_written_ones_which_come_first() -> None:
    made = profile("a", penalties=[{"profile": "b", "penalty": "0.3"}])
    measured = [
        {"profile": "b", "namespace": "lab", "penalty": "0.1"},
        {"profile": "serve", "namespace": "web", "penalty": "0.2"},
    ]
    rest = {"source": "file", "looks": 1, "finished": NOW}
    made["status"] = {"penalties": [{**each, **rest} for each in measured] + ["nonsense"]}
    (known,) = world(made).objects.profiles
    found = assemble(Objects(profiles=[known])).snapshot.penalties
    assert found == {("lab/a", "lab/b"): 0.3, ("lab/a", "web/serve"): 0.2}


def counted(pod: str, rate: float, cores: int = 4) -> CountedProgress:
    """What a look at a pod found."""
    report = {**measurement(pod, {cores: rate}), "source": "cpuTime"}
    kept = StoredMeasurement.read(report)
    return CountedProgress(samples_of(kept), kept)


def looked_at(
    record: ProfileRecord, pod: str, rate: float, company: CoRunner, threshold: str = "0.5"
) -> ProfileRecord:
    request = REQUEST.model_copy(update={"pod": pod, "pod_uid": f"u-lab-{pod}"})
    return with_check(record, request, counted(pod, rate), Decimal(threshold), NOW, company)


def measured(pod: str, fraction: float) -> StoredMeasurement:
    rates = {cores: float(speedup(cores, fraction)) for cores in (1, 2, 4)}
    return StoredMeasurement.read(measurement(pod, rates))


@given(st.floats(0.3, 0.99), st.floats(0.3, 0.99))
def test_looks_under_another_fraction_are_not_compared(first: float, second: float) -> None:
    """A pod that always gets on alike loses nothing beside others, whatever F is said to be."""
    record = with_measurement(EMPTY, measured("a-0", first))
    rate = float(speedup(4, first))
    record = looked_at(record, "a-0", rate, ALONE, "9")
    record = with_measurement(record, measured("a-1", second))
    record = looked_at(record, "a-0", rate, SERVE, "9")
    assert all(
        abs(float(each["penalty"])) < 1e-4 for each in measured_status(record).get("penalties", [])
    )
    record = looked_at(record, "a-0", rate, ALONE, "9")
    (found,) = measured_status(record)["penalties"]
    assert float(found["penalty"]) == pytest.approx(0, abs=1e-4)


def rates_of(record: ProfileRecord, *looks: tuple[CoRunner, float]) -> list[int]:
    """Look at a pod that gets on at these multiples of the prediction; departures after each."""
    predicted = float(speedup(4, 0.9))
    found = []
    for company, ratio in looks:
        record = looked_at(record, "a-0", ratio * predicted, company)
        assert record.check is not None
        found.append(record.check.departures)
    return found


@pytest.mark.parametrize(
    ("looks", "departures"),
    [
        # A penalty above the threshold of a half, at every look beside a neighbour.
        ([(ALONE, 1.0), (SERVE, 0.4), (SERVE, 0.4), (ALONE, 1.0), (SERVE, 0.4)], [0, 0, 0, 0, 0]),
        # The program itself has become slower, which shows alone and beside a known neighbour.
        ([(ALONE, 1.0), (ALONE, 0.4), (ALONE, 0.4)], [0, 1, 2]),
        ([(SERVE, 0.8), (SERVE, 0.3), (SERVE, 0.3)], [0, 1, 2]),
        # Faster than predicted is no neighbour's doing.
        ([(SERVE, 1.6), (SERVE, 1.6)], [1, 2]),
        # One slow phase.
        ([(SERVE, 0.8), (SERVE, 0.3), (SERVE, 0.8)], [0, 1, 0]),
    ],
)
def test_what_a_neighbour_takes_is_no_change_of_the_program(
    looks: list[tuple[CoRunner, float]], departures: list[int]
) -> None:
    assert rates_of(with_measurement(EMPTY, measured("a-0", 0.9)), *looks) == departures


def test_among_several_pods_progress_is_compared_with_the_prediction() -> None:
    record = with_measurement(EMPTY, measured("a-0", 0.9))
    slow = counted("a-0", 0.4 * float(speedup(4, 0.9)))
    record = with_check(record, REQUEST, slow, Decimal("0.5"), NOW, None)
    assert record.check is not None
    assert record.check.departures == 1
    assert not record.co_runners


def test_a_look_that_departs_leaves_penalties_as_they_are() -> None:
    record = with_measurement(EMPTY, measured("a-0", 0.9))
    predicted = float(speedup(4, 0.9))
    for company, ratio in ((ALONE, 1.0), (SERVE, 0.8)):
        record = looked_at(record, "a-0", ratio * predicted, company)
    before = measured_status(record)["penalties"]
    assert measured_status(looked_at(record, "a-0", 0.2 * predicted, SERVE))["penalties"] == before
