"""Failures of measuring: who has its turn after one, how soon, and what is told meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from measured_worlds import Cluster
from worlds import entitlement, job, market, node, pod, profile, world

if TYPE_CHECKING:
    from walras_api.node_allocation import NodeAllocation
    from walras_operator.decide.world import Document
    from whole_decisions import Decision

BLIND: Document = {"state": "Failed", "reason": "its counter cannot be read"}
EVERY = 60
"""Seconds from a look to the next."""


def cluster(pods: int, **more: object) -> Cluster:
    """Return a cluster of a job with a pod on each node, whose progress is checked periodically."""
    names = [f"n{number}" for number in range(pods)]
    documents = [
        market(profiling={"reprofileSeconds": EVERY, **more}),
        entitlement(),
        job("train", auto=True),
        *map(node, names),
        *(pod(f"train-{number}", place=name) for number, name in enumerate(names)),
    ]
    return Cluster(world(*documents), {"train": 0.8})


LYING: Document = {"podUID": "other"}


class ComingDown(Cluster):
    """Pods use more memory than they are granted, which agents take back where they can."""

    def _told(self, each: NodeAllocation) -> NodeAllocation:
        told = super()._told(each)
        status = dict(told.status or {})
        status["pods"] = [
            {**pod, "state": "Pending", "reason": "the pod is to come down to 1 GiB"}
            for pod in status["pods"]
        ]
        return told.model_copy(update={"status": status})


def requests(known: Cluster, seconds: int) -> list[tuple[str, str]]:
    """Let time go by; return purpose and node of every request that was made in it."""
    found: list[tuple[str, str]] = []
    before = known.record().request
    for _ in range(seconds // 10):
        known.step()
        asked = known.record().request
        if asked is not None and (before is None or asked.id != before.id):
            found.append((asked.purpose, asked.node))
        before = asked
    return found


def looks(known: Cluster, seconds: int) -> list[str]:
    """Let time go by; return the nodes of the pods that were looked at."""
    return [where for purpose, where in requests(known, seconds) if purpose == "Progress"]


def ready_events(decisions: list[Decision]) -> list[str]:
    """Return the reasons that the profile's Events gave."""
    return [
        each.reason
        for decision in decisions
        for each in decision.events
        if each.object.kind == "SpeedupProfile"
    ]


def test_after_a_failed_look_the_next_pod_has_its_turn() -> None:
    known = cluster(3)
    known.steps(15)
    assert len(known.record().measurements) == 3
    known.wrong["n1"] = BLIND
    seen = looks(known, 30 * EVERY)
    assert {"n0", "n2"} <= set(seen), seen
    assert seen.count("n1") <= len(seen) / 2
    assert ("n1", "n1") not in pairwise(seen)
    assert known.record().check is not None


def test_a_pod_that_was_measured_and_went_blind_does_not_keep_others_from_their_looks() -> None:
    """Those that were measured come first, but not for ever."""
    known = cluster(1)
    known.steps(6)
    known.put_pod("train-9", "train", "n0")
    known.wrong["n0"] = BLIND
    alone = known.record()
    assert [each.pod for each in alone.measurements] == ["train-0"]
    seen: set[str] = set()
    for _ in range(400):
        if len(seen) == 2:
            break
        known.step()
        request = known.record().request
        seen |= {request.pod} if request is not None and request.purpose == "Progress" else set()
    assert seen == {"train-0", "train-9"}


def test_looks_that_fail_on_every_pod_are_made_ever_less_often() -> None:
    known = cluster(2)
    known.steps(15)
    known.wrong.update(n0=BLIND, n1=BLIND)
    first, later = looks(known, 1800), looks(known, 1800)
    assert set(first) == {"n0", "n1"}
    assert len(later) < len(first)
    failure = known.record().look_failure
    assert failure is not None
    assert failure.times == len(first) + len(later)
    assert failure.message == f"Pod train-{later[-1][1:]} on node {later[-1]}: {BLIND['reason']}"
    known.wrong.clear()
    known.now += timedelta(hours=1)
    assert looks(known, 2 * EVERY)
    assert known.record().look_failure is None


@pytest.mark.long
def test_a_further_pod_that_cannot_be_measured_does_not_end_looks() -> None:
    known = cluster(2)
    known.wrong["n1"] = BLIND
    known.steps(30)
    assert [each.node for each in known.record().measurements] == ["n0"]
    known.wrong["n1"] = BLIND
    found = requests(known, 3600)
    tries = [each for each in found if each == ("Speedup", "n1")]
    assert 1 <= len(tries) <= 4, "the pauses go on whatever comes of looks in between"
    assert ("Progress", "n0") in found


@pytest.mark.long
def test_a_job_that_departs_is_measured_again_whatever_failed_before() -> None:
    known = cluster(2)
    known.wrong["n1"] = BLIND
    known.steps(360)
    assert known.record().failure is not None
    known.truth["train"] = 0.3
    known.steps(60)
    assert known.fraction() == pytest.approx(0.3, abs=1e-3), "and not after an hour's pause"


def test_all_pods_have_their_turn_before_the_first_has_its_second() -> None:
    known = cluster(3)
    known.wrong.update(n0=BLIND, n1=BLIND, n2=BLIND)
    tried = [where for _, where in requests(known, 2000)]
    assert len(tried) >= 6
    assert all(set(tried[at : at + 3]) == {"n0", "n1", "n2"} for at in range(len(tried) - 2))


@pytest.mark.long
def test_a_profile_that_cannot_be_measured_says_so_steadily() -> None:
    """Each new attempt is no news: people are told once, until it is another reason."""
    known = cluster(2)
    known.wrong.update(n0=BLIND, n1=BLIND)
    decisions = [known.step() for _ in range(200)]
    assert len(known.made) >= 4
    assert ready_events(decisions) == ["Measuring", "NotMeasured"]
    known.now += timedelta(hours=1)
    known.step()
    assert known.record().request is not None
    assert known.verdict()[:2] == ("False", "NotMeasured")
    assert "measuring Pod " in known.verdict()[2]
    known.wrong.clear()
    more = [known.step() for _ in range(800)]
    assert ready_events(more) == ["Online"]


def test_a_pod_whose_memory_is_on_its_way_is_measured() -> None:
    """Its memory may be on its way down for ever, and its cores are its own meanwhile."""
    known = ComingDown(cluster(1).world, {"train": 0.8})
    known.steps(12)
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)


@pytest.mark.parametrize("there", [True, False], ids=["status", "profile"])
def test_a_profile_that_cannot_be_written_has_a_pod_measured_once(there: bool) -> None:
    """The pod would lose its cores again and again in a namespace that is being deleted."""
    known = cluster(1)
    if there:
        known.steps(1)
        made = world(profile("train")).objects.profiles
        known.world = replace(known.world, objects=replace(known.world.objects, profiles=made))
    known.deaf.add("SpeedupProfile")
    known.steps(100)
    assert len(known.made) == 1
    known.deaf.clear()
    known.steps(3)
    assert len(known.made) == 1, "and what came of it counts"
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)
    known.deaf.add("SpeedupProfile")
    known.steps(100)
    assert len(known.made) == 2, "a look likewise"


def test_what_came_of_a_request_is_not_taken_again_from_a_node_that_cannot_be_written() -> None:
    known = cluster(1)
    while not known.made:
        known.step()
    known.deaf.add("NodeAllocation")
    known.steps(30)
    assert known.asked(), "the node has it still"
    assert len(known.made) == 1
    (measured,) = known.record().measurements
    finished = measured.finished
    known.deaf.clear()
    known.steps(12)
    assert known.record().measurements[0].finished == finished
    assert len(set(known.made)) == len(known.made) >= 2


@pytest.mark.parametrize("wrong", [{"n0": BLIND, "n1": LYING}, {"n0": LYING, "n1": BLIND}])
def test_pods_that_fail_for_different_reasons_are_told_of_steadily(
    wrong: dict[str, Document],
) -> None:
    known = cluster(2)
    known.wrong.update(wrong)
    decisions = [known.step() for _ in range(200)]
    told = ready_events(decisions)
    assert told[0] == "Measuring"
    assert told[-1] == "NotMeasured"
    assert len(told) == len(set(told)), told
    failure = known.record().failure
    assert failure is not None
    assert failure.times >= 5
    assert failure.message.startswith("Pod train-")
