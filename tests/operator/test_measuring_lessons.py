"""Pods chosen for checks of penalties: alone where that is rare, or else the least known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from measured_worlds import measurement
from walras_api.market import ProfilingPolicy
from walras_api.speedup_profile_status import CoRunnerProgress
from walras_operator.decide.measuring.co_runners import Company
from walras_operator.decide.measuring.lessons import is_alone, lesson, was_measured_alone
from walras_operator.decide.measuring.measurement_record import read_record
from walras_operator.decide.measuring.queue import QueueContext, queue_entry
from walras_operator.decide.measuring.subjects import Candidate, Subject
from worlds import job, pod, world

if TYPE_CHECKING:
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.world import Document

RATES = {1: 1.0, 2: 1.8, 4: 3.0}
PAUSE = 300
DUE = "2026-01-31T12:10:00Z"
"""The time of a check of even number, later than any measurement here."""
MEASURED = "2026-01-31T12:02:00Z"


def at(name: str, place: str, of: str = "train") -> Document:
    return {"podUID": f"u-lab-{name}", "name": name, "node": place, "state": "Enforced"}


def company(**jobs: list[tuple[str, str]]) -> Company:
    """Return the company of pods of jobs, given as names and nodes of the pods of each job."""
    made = []
    for name, pods in jobs.items():
        document = job(name, auto=True)
        document["status"] = {"pods": [at(each, place) for each, place in pods]}
        made.append(document)
    return Company(world(*made))


def candidate(name: str, place: str, cores: int = 4) -> Candidate:
    (owner,) = world(job("train", auto=True)).objects.jobs
    (made,) = world(pod(name, "train", place)).objects.pods
    return Candidate(owner, made, place, cores)


def record(
    *beside: tuple[str, int], company: list[str] | None = None, source: str = "file"
) -> ProfileRecord:
    """Return the record of a program that was measured in some company, and of checks."""
    taken = {**measurement("train-0", RATES, MEASURED), "source": source}
    taken["coRunners"] = [] if company is None else company
    alone = {"ratio": "1", "deviation": "0.02", "looks": 8, "cores": 4}
    seen = [
        {**alone, "profile": name or None, "namespace": "lab" if name else None, "looks": looks}
        for name, looks in (("", 8), *beside)
    ]
    done = [{**each, "source": source, "finished": MEASURED} for each in seen]
    found = [CoRunnerProgress.model_validate(each).document() for each in done]
    return read_record({"online": {"measurements": [taken], "coRunners": found}})


def subject(known: ProfileRecord, *pods: Candidate) -> Subject:
    return Subject(("lab", "train"), None, known, [each.job for each in pods], pods, 4)


def test_a_check_teaches_most_beside_whom_least_is_known() -> None:
    there = company(train=[("train-0", "n1"), ("train-1", "n2"), ("train-2", "n3")],
                    seen=[("seen-0", "n1")], new=[("new-0", "n2")])  # fmt: skip
    known = record(("seen", 8))
    seen, new, alone = (
        lesson(known, candidate(f"train-{number}", f"n{number + 1}"), there) for number in range(3)
    )
    assert new > seen > alone == 0
    assert new == pytest.approx(0.05**2 / (0.05**2 + 0.1**2) ** 0.5)


@pytest.mark.parametrize(
    "known", [record(company=["lab/x"]), record(source="cpuTime")], ids=["together", "cpuTime"]
)
def test_a_check_teaches_nothing_that_cannot_become_a_penalty(known: ProfileRecord) -> None:
    there = company(train=[("train-0", "n1")], new=[("new-0", "n1")])
    assert lesson(known, candidate("train-0", "n1"), there) == 0


def names(entry: object) -> list[str]:
    assert entry is not None
    return [each.pod.metadata.name for each in entry.candidates]  # type: ignore[attr-defined]


def context(there: Company, now: str = DUE, *, pairing: bool = True) -> QueueContext:
    rules = ProfilingPolicy.model_validate({"reprofileSeconds": PAUSE})
    return QueueContext(rules, now, there, pairing)


def test_the_pod_beside_whom_least_is_known_is_checked_first_and_others_in_between() -> None:
    there = company(train=[("train-0", "n1"), ("train-1", "n2"), ("train-2", "n3")],
                    new=[("new-0", "n2")])  # fmt: skip
    pods = [candidate(f"train-{number}", f"n{number + 1}") for number in range(3)]
    measured = record()
    three = [measured.measurements[0].model_copy(update={"pod_uid": f"u-lab-train-{n}"})
             for n in range(3)]  # fmt: skip
    whole = subject(measured.model_copy(update={"measurements": three}), *pods)
    first = queue_entry(whole, context(there))
    assert first is not None
    assert (first.rank, first.purpose) == (3, "Progress")
    assert names(first)[0] == "train-1"
    firsts = set()
    for hour in range(3, 6):
        for minute in range(0, 60, 5):
            entry = queue_entry(whole, context(there, f"2026-01-31T1{hour}:{minute:02}:30Z"))
            firsts.add(names(entry)[0])
    assert firsts == {"train-0", "train-1", "train-2"}


def test_profiles_that_teach_more_come_first_unless_others_are_overdue() -> None:
    there = company(train=[("train-0", "n1")], new=[("new-0", "n1")])
    teaches = queue_entry(subject(record(), candidate("train-0", "n1")), context(there))
    nothing = queue_entry(subject(record(), candidate("train-0", "n2")), context(there))
    late = queue_entry(
        subject(record(), candidate("train-0", "n2")), context(there, "2026-01-31T12:20:30Z")
    )
    assert teaches is not None
    assert nothing is not None
    assert late is not None
    assert late.lesson > teaches.lesson > nothing.lesson == 0


@pytest.mark.parametrize(
    ("pairing", "known", "purpose"),
    [
        (True, record(company=["lab/x"]), "Speedup"),
        (False, record(company=["lab/x"]), "Progress"),
        (True, record(), "Progress"),
        (True, record(company=["lab/x"], source="cpuTime"), "Progress"),
    ],
    ids=["needed", "no pairs", "was alone", "shows no penalties"],
)
def test_a_pod_that_is_alone_at_last_is_measured_again(
    pairing: bool, known: ProfileRecord, purpose: str
) -> None:
    there = company(train=[("train-0", "n1")])
    found = queue_entry(subject(known, candidate("train-0", "n1")), context(there, pairing=pairing))
    assert found is not None
    assert found.purpose == purpose
    beside = company(train=[("train-0", "n1")], x=[("x-0", "n1")])
    found = queue_entry(
        subject(known, candidate("train-0", "n1")), context(beside, pairing=pairing)
    )
    assert found is not None
    assert found.purpose == "Progress"


def test_pods_that_are_alone_are_measured_first() -> None:
    there = company(train=[("train-0", "n1"), ("train-1", "n2")], x=[("x-0", "n1")])
    pods = [candidate("train-0", "n1", cores=8), candidate("train-1", "n2")]
    assert [is_alone(each, there) for each in pods] == [False, True]
    fresh = subject(read_record(None), *pods)
    assert names(queue_entry(fresh, context(there))) == ["train-1", "train-0"]
    assert names(queue_entry(fresh, context(there, pairing=False))) == ["train-0", "train-1"]
    assert not was_measured_alone(fresh.record)
