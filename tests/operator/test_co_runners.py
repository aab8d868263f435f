"""Penalties learned from progress checks of pods beside others."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measured_worlds import measurement
from walras.speedup.amdahls_law import speedup
from walras_api.assembly import Objects, assemble
from walras_api.job_inputs import measured_penalties, speedup_of
from walras_api.speedup_profile_status import MOST_CO_RUNNERS, CoRunnerProgress, OnlineRequest
from walras_operator.decide.measuring.co_runners import (
    ALONE,
    MEAN_LENGTH,
    MOST_ALONE,
    Company,
    CoRunner,
    Observation,
    Source,
    penalties_of,
    with_observation,
)
from walras_operator.decide.measuring.counted_progress import (
    CountedProgress,
    StoredMeasurement,
    samples_of,
)
from walras_operator.decide.measuring.measurement_record import (
    EMPTY,
    measured_status,
    with_check,
    with_measurement,
)
from whole_decisions import decide
from worlds import NOW, allocation, entitlement, job, market, node, pod, profile, status, world

if TYPE_CHECKING:
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.world import Document, World

SERVE = CoRunner("web", "serve")
REQUEST = OnlineRequest(
    id="r", pod="a-0", pod_uid="u", node="n1", purpose="Progress", since=NOW, until=NOW
)


def looked(
    *looks: tuple[CoRunner, float] | tuple[CoRunner, float, int], source: Source = "file"
) -> list[CoRunnerProgress]:
    """Return the record of progress checks, each of a co-runner, a ratio, and a number of cores."""
    found: list[CoRunnerProgress] = []
    for company, ratio, *cores in looks:
        look = Observation(company, cores[0] if cores else 4, source, ratio, 0.01)
        found = with_observation(found, look, NOW)
    return found


def with_pods(name: str, *pods: tuple[str, str], namespace: str = "lab", **spec: str) -> Document:
    made = job(name, namespace=namespace, **spec)
    made["status"] = {"pods": [{"name": pod, "node": node} for pod, node in pods]}
    return made


def test_a_penalty_is_what_looks_in_company_lack_of_looks_alone() -> None:
    (found,) = penalties_of(looked((ALONE, 1.1), (SERVE, 0.9), (ALONE, 0.9), (SERVE, 0.7)))
    assert (found.namespace, found.profile, found.looks) == ("web", "serve", 2)
    assert float(found.penalty) == pytest.approx(0.2)
    assert (found.source, found.cores) == ("file", 4)


def test_nothing_is_said_before_there_was_a_look_alone() -> None:
    assert penalties_of(looked((SERVE, 0.5))) == []


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
    many = looked(*((ALONE, 1.0, cores) for cores in range(1, 2 * MOST_CO_RUNNERS)), *crowd)
    assert len(many) <= MOST_CO_RUNNERS
    assert len([each for each in many if each.profile is None]) == MOST_ALONE - 1
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
    assert Company(world(*jobs)).co_runner("lab", "a-0", "n1") == company


def uid(pod: str) -> str:
    return "u-" + pod.replace("_", "-")


def on_sockets(*jobs: Document, **sockets: list[int] | None) -> World:
    """Return a world in which an agent reports the sockets of these pods of node n1."""
    grants = [
        {"podUID": uid(pod), "namespace": "lab", "name": pod.replace("_", "-"), "cores": "2"}
        for pod in sockets
    ]
    pods = [
        {"podUID": uid(pod), "state": "Enforced", "sockets": numbers}
        for pod, numbers in sockets.items()
    ]
    made = allocation("n1", {"epoch": 1, "grants": grants}, {"epoch": 1, "pods": pods})
    return replace(world(*jobs), allocations={"n1": made})


THREE = [
    with_pods("a", ("a-0", "n1")),
    with_pods("b", ("b-0", "n1")),
    with_pods("c", ("c-0", "n1")),
]
B, C = CoRunner("lab", "b"), CoRunner("lab", "c")


@pytest.mark.parametrize(
    ("sockets", "company", "co_runner"),
    [
        # A pair on one socket, and another pod on the other, which is no company.
        ({"a_0": [0], "b_0": [0], "c_0": [1]}, [B], B),
        ({"a_0": [0], "b_0": [1], "c_0": [1]}, [], ALONE),
        ({"a_0": [0], "b_0": [0], "c_0": [0]}, [B, C], None),
        # Pods that share a part of their sockets show no penalty of a pair on one socket.
        ({"a_0": [0], "b_0": [0, 1], "c_0": [1]}, [B], None),
        ({"a_0": [0, 1], "b_0": [1], "c_0": [2]}, [B], None),
        # An agent that says nothing, or nonsense: the node counts as one socket.
        ({"a_0": None, "b_0": [1], "c_0": [2]}, [B, C], None),
        ({"a_0": [0], "b_0": ["1"], "c_0": [2]}, [B], B),
    ],
)
def test_company_is_who_shares_the_socket(
    sockets: dict[str, list[int] | None], company: list[CoRunner], co_runner: CoRunner | None
) -> None:
    seen = on_sockets(*THREE, **sockets)
    assert Company(seen).of("lab", "a-0", "n1") == company
    assert Company(seen).co_runner("lab", "a-0", "n1") == co_runner


def overhead(cores: int) -> float:
    """Speedup of a program whose parts wait for each other: no Amdahl's law fits it."""
    return cores / (1 + 0.05 * (cores - 1) + 0.004 * cores * (cores - 1))


@pytest.mark.parametrize("cores", [2, 4, 5, 6, 8, 11, 12, 16])
def test_a_program_that_scales_in_its_own_way_loses_nothing_for_that(cores: int) -> None:
    """Alone on 16 cores, beside another on fewer: at the prediction, it would be -20 to 10 %."""
    rates = {each: overhead(each) for each in (1, 2, 4, 8, 16)}
    first = StoredMeasurement.read({**measurement("a-0", rates), "source": "file"})
    record = with_measurement(EMPTY, first, [])
    record = looked_at(record, "a-0", overhead(cores), SERVE, "9", cores=cores, source="file")
    (found,) = measured_status(record)["penalties"]
    assert abs(float(found["penalty"])) <= float(found["error"]) + 1e-6
    assert abs(float(found["penalty"])) < (0.001 if cores in rates else 0.03)
    assert dict(measured_penalties({"penalties": [found]})).get("web/serve", 0.0) == 0.0


def test_the_same_number_of_cores_comes_first() -> None:
    """Looks at 4 cores, where the program was seen alone, and at 6, where it was not."""
    looks = looked((ALONE, 1.0, 4), (ALONE, 0.8, 8), (SERVE, 0.7, 4), (SERVE, 0.5, 6))
    (found,) = penalties_of(looks)
    assert found.cores == 4
    assert float(found.penalty) == pytest.approx(0.3)
    assert float(found.error or 0) < 0.02
    (bridged,) = penalties_of(looks[:2] + looks[3:])
    assert float(bridged.error or 0) > 0.1


def test_beyond_what_was_seen_alone_the_error_is_that_of_all_numbers_of_cores() -> None:
    (found,) = penalties_of(looked((ALONE, 1.0, 4), (ALONE, 0.9, 8), (SERVE, 0.7, 16)))
    assert float(found.error or 0) > 0.07
    (once,) = penalties_of(looked((ALONE, 1.0, 4), (SERVE, 0.7, 16)))
    assert float(once.error or 0) > 0.05


@given(st.lists(st.floats(0.7, 1.3), min_size=2, max_size=20))
def test_looks_that_differ_make_a_penalty_uncertain(ratios: list[float]) -> None:
    """The error is that of a mean, from the looks themselves."""
    alike = [(SERVE, 0.8)] * len(ratios)
    (sure,) = penalties_of(looked((ALONE, 1.0), *alike))
    (found,) = penalties_of(looked((ALONE, 1.0), *((SERVE, 0.8 * each) for each in ratios)))
    assert float(sure.error or 0) < 0.02
    if max(ratios) - min(ratios) > 0.2 and len(ratios) <= MEAN_LENGTH:
        assert float(found.error or 0) > float(sure.error or 0)


@pytest.mark.parametrize(
    ("source", "error", "counts"),
    [
        ("file", "0.02", 0.18),
        ("instructions", "0", 0.2),
        ("http", None, 0.2),
        ("cpuTime", "0", None),  # cannot see that memory is slow
        ("file", "0.15", None),  # a prediction is better
        ("file", "-1", None),
    ],
)
def test_a_penalty_counts_if_it_is_better_than_a_prediction(
    source: str, error: str | None, counts: float | None
) -> None:
    found: Document = {"profile": "serve", "namespace": "web", "penalty": "0.2", "looks": 1}
    found |= {"source": source, "finished": NOW} | ({} if error is None else {"error": error})
    expected = {} if counts is None else {"web/serve": pytest.approx(counts)}
    assert dict(measured_penalties({"penalties": [found]})) == expected


def test_a_profile_says_that_its_penalties_are_by_cpu_time() -> None:
    sources: list[tuple[Source, bool]] = [("cpuTime", True), ("file", False)]
    for source, said in sources:
        first = StoredMeasurement.read({**measurement("a-0", {1: 1, 4: 3}), "source": source})
        record = with_measurement(EMPTY, first, [])
        record = looked_at(record, "a-0", 2.0, SERVE, "9", source=source)
        status = measured_status(record)
        assert [each["source"] for each in status["penalties"]] == [source]
        found = [each for each in status["findings"] if each["code"] == "PenaltiesByCPUTime"]
        assert bool(found) == said


def test_measured_among_others_a_program_shows_no_penalty_before_one_was_alone() -> None:
    """Its rate on one core is already that beside the other."""
    first = StoredMeasurement.read({**measurement("a-0", {1: 0.8, 4: 2.4}), "source": "file"})
    record = with_measurement(EMPTY, first, [SERVE])
    record = looked_at(record, "a-0", 2.4, SERVE, "9", source="file")
    record = looked_at(record, "a-0", 3.0, ALONE, "9", source="file")
    assert "penalties" not in measured_status(record) or not measured_status(record)["penalties"]
    second = StoredMeasurement.read({**measurement("a-1", {1: 1, 4: 3}), "source": "file"})
    record = with_measurement(record, second, [])
    record = looked_at(record, "a-0", 2.4, SERVE, "9", source="file")
    (found,) = measured_status(record)["penalties"]
    assert float(found["penalty"]) == pytest.approx(0.2, abs=0.01)


def test_a_fraction_measured_alone_is_lowered_beside_others_like_a_written_one() -> None:
    """Section VI-E, also for speedups that were measured while the program ran."""
    made = profile("a", penalties=[{"profile": "b", "penalty": "0.3"}])
    for company, beside in (
        ([], frozenset()),
        ([B], frozenset({"lab/b"})),
        (None, None),
    ):
        record = with_measurement(EMPTY, measured("a-0", 0.9), company)
        made["status"] = measured_status(record)
        objects = world(job("a", auto=""), made).objects
        assert speedup_of(objects.jobs[0], {("lab", "a"): objects.profiles[0]}).beside == beside


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


def counted(pod: str, rate: float, cores: int = 4, source: Source = "cpuTime") -> CountedProgress:
    """Return the result of a progress check of a pod."""
    report = {**measurement(pod, {cores: rate}), "source": source}
    kept = StoredMeasurement.read(report)
    return CountedProgress(samples_of(kept), kept)


def looked_at(
    record: ProfileRecord,
    pod: str,
    rate: float,
    company: CoRunner,
    threshold: str = "0.5",
    cores: int = 4,
    source: Source = "cpuTime",
) -> ProfileRecord:
    request = REQUEST.model_copy(update={"pod": pod, "pod_uid": f"u-lab-{pod}"})
    found = counted(pod, rate, cores, source)
    return with_check(record, request, found, Decimal(threshold), NOW, company)


def measured(pod: str, fraction: float) -> StoredMeasurement:
    rates = {cores: float(speedup(cores, fraction)) for cores in (1, 2, 4)}
    return StoredMeasurement.read(measurement(pod, rates))


@given(st.floats(0.3, 0.99), st.floats(0.3, 0.99))
def test_looks_under_another_fraction_are_forgotten(first: float, second: float) -> None:
    """The progress of pods that were alone is still known then, from the measurements of F."""
    record = with_measurement(EMPTY, measured("a-0", first), [])
    rate = float(speedup(4, first))
    record = looked_at(record, "a-0", rate, ALONE, "9")
    record = looked_at(record, "a-0", rate / 2, SERVE, "9")
    assert measured_status(record)["penalties"]
    record = with_measurement(record, measured("a-1", second), [])
    assert [(each.profile, each.cores, each.looks) for each in record.co_runners] == [
        (None, cores, 2) for cores in (1, 2, 4)
    ]
    assert not measured_status(record)["penalties"]
    alone = with_measurement(record, measured("a-2", second), None)
    assert [each.looks for each in alone.co_runners] == [2, 2, 2]


def rates_of(record: ProfileRecord, *looks: tuple[CoRunner, float]) -> list[int]:
    """Check a pod that progresses at these multiples of the prediction; return its departures."""
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
    record = with_measurement(EMPTY, measured("a-0", 0.9), [])
    predicted = float(speedup(4, 0.9))
    for company, ratio in ((ALONE, 1.0), (SERVE, 0.8)):
        record = looked_at(record, "a-0", ratio * predicted, company)
    before = measured_status(record)["penalties"]
    assert measured_status(looked_at(record, "a-0", 0.2 * predicted, SERVE))["penalties"] == before


def test_an_online_fraction_is_lowered_beside_what_it_was_seen_to_lose_by() -> None:
    """The whole way: the profile's status, the market, and the sentence of the grant."""
    first = StoredMeasurement.read({**measurement("a-0", {1: 1, 4: 3}), "source": "file"})
    cases: list[tuple[list[CoRunner], Source, bool]] = [
        ([], "file", True),
        ([B], "file", False),  # the loss is in the fraction
        ([], "cpuTime", False),  # a proxy that sees no interference
    ]
    for company, source, lowered in cases:
        counted_by = first.model_copy(update={"source": source})
        record = with_measurement(EMPTY, counted_by, [])
        record = looked_at(record, "a-0", 2.4, B, "9", source=source)
        stored = measured_status(record)
        stored["online"]["measurements"][0]["coRunners"] = [f"{n}/{p}" for n, p in company]
        made = {**profile("a"), "status": stored}
        pods = [pod("a-0", "a"), pod("b-0", "b")]
        jobs = [job("a", auto=""), job("b")]
        decision = decide(world(market(), entitlement(), node(), made, *jobs, *pods))
        (granted,) = status(decision, "MarketJob", "a", "lab")["pods"]
        assert ("of its throughput beside lab/b" in granted["reason"]) == lowered
