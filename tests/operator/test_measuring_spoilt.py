"""Records of measurements that nobody can reckon with, though their schema takes most of them.

They hold nobody up: the record is begun anew, and what a wrong clock wrote is not waited for.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from admission import admit, read_definitions, schema_of
from kind_documents import document as valid
from measured_worlds import Cluster
from worlds import entitlement, job, market, node, pod, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document

SCHEMA = schema_of(read_definitions()["SpeedupProfile"])
FUTURE = "2031-01-31T12:00:00Z"
BLIND: Document = {"state": "Failed", "reason": "its counter cannot be read"}


def cluster() -> Cluster:
    documents = [
        market(profiling={"reprofileSeconds": 60}),
        entitlement(),
        node("n1"),
        node("n2"),
        job("train", auto=True),
        pod("train-0"),
        pod("train-1", place="n2"),
    ]
    return Cluster(world(*documents), {"train": 0.8})


def set_status(known: Cluster, status: Document) -> None:
    objects = known.world.objects
    (profile,) = objects.profiles
    spoilt = profile.model_copy(update={"status": status})
    known.world = replace(known.world, objects=replace(objects, profiles=[spoilt]))


def spoil(known: Cluster, *path: str | int, value: object) -> None:
    """Put something else into the status of the profile."""
    (profile,) = known.world.objects.profiles
    status = deepcopy(profile.status)
    part: Any = status
    for name in path[:-1]:
        part = part[name]
    assert path[-1] in part or isinstance(path[-1], int), path
    part[path[-1]] = value
    assert status is not None
    set_status(known, status)


@pytest.fixture(scope="module")
def whole() -> Cluster:
    """Return a cluster with measurements, a successful progress check and a failed one."""
    known = cluster()
    while known.record().check is None:
        known.step()
    known.wrong.update(n1=BLIND, n2=BLIND)
    while known.record().look_failure is None:
        known.step()
    known.wrong.clear()
    assert len(known.record().measurements) == 2
    return known


@pytest.fixture
def known(whole: Cluster) -> Cluster:
    return deepcopy(whole)


def without_any() -> Cluster:
    """Return a cluster whose measurements have all failed."""
    known = cluster()
    known.wrong.update(n1=BLIND, n2=BLIND)
    while known.record().failure is None:
        known.step()
    known.wrong.clear()
    return known


def recovers(known: Cluster, seconds: int, *, stored: bool = True) -> None:
    """Check that decisions go on, and that the job is measured and checked again after a time.

    Args:
        known: Cluster with a spoilt status.
        seconds: Time that this may take.
        stored: Whether the API server would have accepted the spoilt status.
    """
    before = len(known.made)
    for _ in range(seconds // 20):
        for each in known.step(20).statuses:
            if each.object.kind == "SpeedupProfile" and stored:
                answer = admit({**valid("SpeedupProfile"), "status": each.status}, SCHEMA)
                assert answer.problems == []
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)
    assert known.verdict()[:2] == ("True", "Online")
    assert len(known.made) > before


TIMES = ["", "soon", "0", "9999-12-31T23:59:59Z", "2026-13-45T99:00:00Z"]
JUNK: list[object] = [None, 7, -1, 1.5, "x", [7], [{}], {}]


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("where", [("lookFailure",), ("check",), ("measurements", 0)], ids=str)
def test_times_that_are_none_hold_nobody_up(
    known: Cluster, where: tuple[str | int, ...], time: str
) -> None:
    spoil(known, "online", *where, "finished", value=time)
    recovers(known, 200)


@pytest.mark.parametrize("times", [0, -3])
def test_failures_that_nobody_can_count_hold_nobody_up(known: Cluster, times: int) -> None:
    spoil(known, "online", "lookFailure", "times", value=times)
    recovers(known, 200)
    other = without_any()
    spoil(other, "online", "failure", "times", value=times)
    recovers(other, 200)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_samples_that_are_none_hold_nobody_up(known: Cluster, junk: object) -> None:
    spoil(known, "online", "measurements", 0, "samples", value=junk)
    recovers(known, 600, stored=False)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_a_record_that_is_none_holds_nobody_up(known: Cluster, junk: object) -> None:
    spoil(known, "online", value=junk)
    recovers(known, 200, stored=False)


@pytest.mark.parametrize(
    "where", [("lookFailure",), ("check",), ("measurements", 0), ("measurements", 1)], ids=str
)
def test_what_an_operator_with_a_wrong_clock_wrote_is_not_waited_for(
    known: Cluster, where: tuple[str | int, ...]
) -> None:
    spoil(known, "online", *where, "finished", value=FUTURE)
    recovers(known, 200)


def test_a_failure_of_an_operator_with_a_wrong_clock_is_not_waited_for() -> None:
    known = without_any()
    spoil(known, "online", "failure", "finished", value=FUTURE)
    recovers(known, 200)


def test_a_request_of_an_operator_with_a_wrong_clock_is_not_waited_for() -> None:
    known = cluster()
    known.mute.update(("n1", "n2"))
    while known.record().request is None:
        known.step()
    spoil(known, "online", "request", "since", value=FUTURE)
    spoil(known, "online", "request", "until", value=FUTURE)
    known.mute.clear()
    known.mute.add("n1")
    recovers(known, 200)
