"""Measurements of speedups that no user has stated, by agents that answer as real ones do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from measured_worlds import Cluster, measurement
from walras_api.kinds import Market
from walras_operator.decide.measuring.requests import core_count_steps
from whole_decisions import decide
from worlds import entitlement, job, market, node, outcome, pod, profile, world

if TYPE_CHECKING:
    from walras_operator.decide.world import Document

TRUTH = {"train": 0.8, "serve": 0.5, "third": 0.95}


def cluster(*documents: Document, **rules: object) -> Cluster:
    """Return a cluster of these documents, or else of a job on two nodes."""
    some = documents or (node("n1"), node("n2"), job("train", auto=True), pod("train-0"))
    return Cluster(world(market(profiling=rules), entitlement(), *some), dict(TRUTH))


def test_a_job_that_says_nothing_is_measured_and_has_its_fraction_then() -> None:
    known = cluster()
    known.step()
    assert known.asked() == {}, "its node's agent does not hold it to anything yet"
    assert known.verdict()[:2] == ("False", "Waiting")
    decision = known.step()
    (made,) = decision.profiles
    (asked,) = known.asked().values()
    assert (asked.pod_uid, asked.purpose) == ("u-lab-train-0", "Speedup")
    assert made.document["metadata"]["ownerReferences"][0]["uid"] == "MarketJob-lab-train"
    assert made.document["metadata"]["labels"]["walras.dev/market-job"] == "train"
    assert known.verdict()[1] == "Measuring"
    assert "measuring Pod train-0 on node n1 since 2026-01-31T12:00:10Z" in known.verdict()[2]
    known.steps(3)
    assert known.asked() == {}
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)
    assert known.verdict()[:2] == ("True", "Online")
    assert known.verdict()[2] == "F is 0.8, from SpeedupProfile train"
    assert len(known.made) == 1


def test_what_was_asked_for_is_asked_for_once_and_then_there_is_nothing_to_write() -> None:
    known = cluster()
    for _ in range(6):
        known.step()
        before = known.world
        first = decide(before)
        again = decide(outcome(before, first))
        assert (again.nodes, again.statuses, again.profiles) == ((), (), ())


def test_a_new_leader_goes_on_with_a_measurement_that_runs() -> None:
    known = cluster()
    known.step()
    known.step(1, leader_changes=True)
    (asked,) = known.asked().values()
    known.step(1)
    (still,) = known.asked().values()
    assert still.id == asked.id
    known.steps(4)
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)
    assert known.made == [asked.id], "asked for by two operators, made once"


def test_fractions_of_several_pods_are_taken_together_and_then_it_is_enough() -> None:
    places = [node(f"n{number}") for number in range(5)]
    pods = [pod(f"train-{number}", "train", f"n{number}") for number in range(5)]
    known = cluster(*places, job("train", auto=True), *pods)
    known.steps(30)
    assert [each.pod for each in known.record().measurements] == ["train-0", "train-1", "train-2"]
    assert len(known.made) == 3, "one of a job at a time"
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)


def test_nodes_measure_one_pod_each_and_a_market_may_bound_them_all() -> None:
    documents = [
        *(node(f"n{number}", "16") for number in range(2)),
        *(job(name, auto=True) for name in TRUTH),
        *(pod(f"{name}-{n}", name, f"n{n}") for name in TRUTH for n in range(2)),
    ]
    free, bound = cluster(*documents), cluster(*documents, mostAtOnce=1)
    most = 0
    for _ in range(40):
        free.step()
        bound.step()
        assert len(bound.asked()) <= 1
        most = max(most, len(free.asked()))
    assert most == 2
    for known in (free, bound):
        assert {name: known.fraction(name) for name in TRUTH} == pytest.approx(TRUTH, abs=1e-3)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"maxCores": 1}, "TooFewCores", id="one core"),
        pytest.param({"progress": {"http": {"port": 80}}}, "Waiting", id="no address"),
    ],
)
def test_what_cannot_be_measured_says_why(spec: Document, reason: str) -> None:
    known = cluster(node("n1"), job("train", auto=True, **spec), pod("train-0"))
    known.steps(5)
    assert known.asked() == {}
    assert known.verdict()[:2] == ("False", reason)
    assert known.profile() is None, "none is made before there is something to ask"
    if reason == "TooFewCores":
        complaint = (
            "no pod has an exclusive core and may use two, as measuring needs; raise minCores"
        )
        assert complaint in known.verdict()[2]


def test_a_pod_with_one_core_and_a_fraction_is_measured_on_two_after_those_with_two() -> None:
    jobs = job("train", auto=True), job("other")
    alone = cluster(node("n1", "3"), *jobs, pod("train-0"), pod("other-0", "other"))
    alone.steps(2)
    (asked,) = alone.asked().values()
    assert (asked.purpose, asked.cores) == ("Speedup", None)
    (grant,) = (
        each
        for each in alone.world.allocations["n1"].spec.grants or ()
        if each.pod_uid == asked.pod_uid
    )
    assert 1 < grant.cores < 2
    places = node("n1", "3"), node("n2", "3")
    both = cluster(
        *places, *jobs, pod("train-0"), pod("other-0", "other"), pod("train-1", place="n2")
    )
    both.steps(2)
    (asked,) = both.asked().values()
    assert asked.pod_uid == "u-lab-train-1"


def test_it_says_where_its_counter_is_and_what_a_profile_wants_to_have_sampled() -> None:
    served = pod("train-0")
    served["status"]["podIP"] = "10.0.0.7"
    known = cluster(
        node("n1"),
        job("train", auto=True, progress={"http": {"port": 80}}),
        profile("train", sampling={"cores": [3, 6, 64]}),
        served,
        sampleSeconds=5,
        repeats=4,
    )
    known.steps(2)
    (asked,) = known.asked().values()
    assert (asked.cores, asked.sample_seconds, asked.repeats) == ([1, 3, 6], 5, 4)
    assert asked.pod_ip == "10.0.0.7"
    assert asked.progress is not None
    assert asked.lease_seconds > 3 * 4 * (5 + 0.5)
    known.steps(4)
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)


def test_samples_are_as_many_as_can_be_kept() -> None:
    known = cluster(node("n1", "48"), job("train", auto=True), pod("train-0"), repeats=10_000)
    known.steps(2)
    (asked,) = known.asked().values()
    assert asked.repeats * core_count_steps(48) <= 300


@pytest.mark.parametrize("address", ["", "nowhere", "fe80::1%eth0"])
def test_a_pod_whose_address_is_none_is_not_asked(address: str) -> None:
    lost, reached = pod("train-0"), pod("train-1", place="n2")
    lost["status"]["podIP"], reached["status"]["podIP"] = address, "10.0.0.7"
    spec: Document = {"progress": {"http": {"port": 80}}}
    known = cluster(node("n1"), node("n2"), job("train", auto=True, **spec), lost, reached)
    known.steps(6)
    assert [each.pod for each in known.record().measurements] == ["train-1"]


def test_samples_longer_than_any_lease_are_asked_for_all_the_same() -> None:
    known = cluster(sampleSeconds=2**31 - 1)
    known.steps(2)
    (asked,) = known.asked().values()
    assert asked.lease_seconds == 2**31 - 1


def test_what_a_person_wrote_is_used_and_never_written_over() -> None:
    known = cluster(
        node("n1"),
        job("train", auto=True),
        job("serve", auto=True),
        profile("train", parallelFraction="0.7"),
        pod("train-0"),
        pod("serve-0", "serve"),
    )
    known.steps(6)
    assert known.verdict()[1] == "Written"
    written, measured = known.profile("train"), known.profile("serve")
    assert written is not None
    assert written.spec.parallel_fraction is not None
    assert written.status is not None
    assert "online" not in written.status
    assert measured is not None
    assert known.fraction("serve") == pytest.approx(0.5, abs=1e-4)
    broken = cluster(
        node("n1"),
        job("train", auto=True),
        profile("train", parallelFraction="NaN"),
        pod("train-0"),
    )
    assert [broken.step().profiles for _ in range(4)] == [()] * 4


def test_two_jobs_that_name_one_empty_profile_share_what_is_measured() -> None:
    known = cluster(
        node("n1", "16"),
        job("train", profile="both"),
        job("serve", profile="both"),
        profile("both"),
        pod("train-0"),
        pod("serve-0", "serve"),
        reprofileSeconds=100_000,
    )
    known.truth["serve"] = 0.8
    known.steps(12)
    assert known.fraction("both") == pytest.approx(0.8, abs=1e-4)
    assert {each.pod for each in known.record("both").measurements} == {"train-0", "serve-0"}
    assert known.verdict("serve")[:2] == known.verdict("train")[:2] == ("True", "Online")


def test_progress_that_departs_twice_in_a_row_has_a_job_measured_again() -> None:
    known = cluster(reprofileSeconds=60)
    known.steps(6)
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)
    known.steps(20)
    assert len(known.record().measurements) == 1
    assert known.record().check is not None
    assert len(set(known.made)) == len(known.made)
    known.truth["train"] = 0.2
    known.steps(40)
    assert known.fraction() == pytest.approx(0.2, abs=1e-3)
    assert len(known.record().measurements) == 1


def test_speedups_that_checks_test_are_scored_in_the_status_of_the_market() -> None:
    known = cluster(reprofileSeconds=60)
    known.steps(6)
    known.pace = 0.9
    known.steps(20)
    (found,) = [
        each
        for each in (known.world.market.status or {})["predictions"]  # type: ignore[union-attr]
        if each["of"] == "Speedup"
    ]
    assert found["number"] >= 2
    assert float(found["crps"]) == pytest.approx(0.1, abs=0.01)


def test_a_single_departure_changes_nothing() -> None:
    known = cluster(reprofileSeconds=600)
    known.steps(6)
    known.pace = 0.5
    while known.record().check is None:
        known.step()
    check = known.record().check
    assert check is not None
    assert check.departures == 1
    assert float(check.departure or 0) == pytest.approx(-0.5, abs=0.01)
    known.pace = 1.0
    before = len(known.made)
    known.steps(30)
    check = known.record().check
    assert check is not None
    assert check.departures == 0
    assert len(known.made) == before + 1, "a second look, and nothing more"
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)


def test_nothing_is_measured_where_the_market_does_not_want_it() -> None:
    never = cluster(automatic=False)
    never.steps(5)
    assert never.made == []
    known = cluster()
    known.steps(2)
    assert known.asked()
    (rules,) = known.world.markets
    spec = rules.spec.model_copy(update={"mode": "observe"})
    known.world.markets[:] = [rules.model_copy(update={"spec": spec})]  # type: ignore[index]
    assert isinstance(known.world.markets[0], Market)
    known.steps(2)
    assert known.asked() == {}
    assert known.record().request is None
    assert known.record().failure is None, "nothing has gone wrong"


BAD = [
    pytest.param(
        {"state": "Failed", "reason": "the counter did not move"}, "NotMeasured", id="failed"
    ),
    pytest.param({"podUID": "other"}, "BadReport", id="another pod"),
    pytest.param({"source": None}, "BadReport", id="source"),
    pytest.param({"samples": []}, "BadReport", id="nothing"),
    pytest.param({"samples": 7}, "BadReport", id="no list"),
    pytest.param({"state": "Splendid"}, "BadReport", id="state"),
    *(
        pytest.param(
            {"samples": [one, {"cores": 2, "seconds": "2", "progress": "3"}]}, reason, id=name
        )
        for name, one, reason in (
            ("not a number", {"cores": 1, "seconds": "NaN", "progress": "2"}, "BadReport"),
            ("negative", {"cores": 1, "seconds": "2", "progress": "-2"}, "BadReport"),
            ("no time", {"cores": 1, "seconds": "0", "progress": "2"}, "BadReport"),
            ("no progress", {"cores": 1, "seconds": "2", "progress": "0"}, "BadReport"),
            ("long", {"cores": 1, "seconds": "1" * 40, "progress": "2"}, "BadReport"),
            ("many cores", {"cores": 10**9, "seconds": "2", "progress": "2"}, "BadReport"),
            ("no core", {"cores": 0, "seconds": "2", "progress": "2"}, "BadReport"),
            ("not one core", {"cores": 2, "seconds": "2", "progress": "2"}, "BadReport"),
            ("absurd", {"cores": 1, "seconds": "2", "progress": "0.001"}, "BadReport"),
        )
    ),
    pytest.param(
        {
            "samples": [
                {"cores": cores, "seconds": "2", "progress": progress}
                for cores in (1, 2)
                for progress in ("1", "2", "3")
            ]
        },
        "TooNoisy",
        id="noisy",
    ),
    pytest.param(
        {
            "samples": [
                {"cores": cores, "seconds": "2", "progress": str(cores), "error": "0.2"}
                for cores in (1, 2)
            ]
        },
        "TooNoisy",
        id="waited too unequally",
    ),
    pytest.param(
        {
            "samples": [
                {"cores": cores, "seconds": "2", "progress": "3", "error": "-1"} for cores in (1, 2)
            ]
        },
        "BadReport",
        id="negative error",
    ),
]


@pytest.mark.parametrize(("wrong", "reason"), BAD)
def test_a_bad_report_is_told_and_tried_again_later(wrong: Document, reason: str) -> None:
    known = cluster()
    known.wrong["n1"] = wrong
    known.steps(5)
    assert known.fraction() is None
    status, said, message = known.verdict()
    assert (status, said) == ("False", reason)
    assert "Pod train-0 on node n1: " in message
    assert "set spec.parallelFraction, or use a profile from `walras profile`" in message


def test_failures_are_tried_again_after_longer_and_longer_pauses() -> None:
    known = cluster()
    known.wrong["n1"] = {"podUID": "other"}
    known.steps(120)
    assert 5 <= len(known.made) <= 6, "20 minutes: pauses of 30 s, 60 s, 120 s and so on"
    known.wrong.clear()
    known.now += timedelta(hours=1)
    known.steps(4)
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)
    assert known.record().failure is None


def test_another_pod_is_tried_after_a_failure() -> None:
    known = cluster(
        node("n1"), node("n2"), job("train", auto=True), pod("train-0"), pod("train-1", place="n2")
    )
    known.wrong["n1"] = {"state": "Failed", "reason": "it is not counted here"}
    known.steps(20)
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)


def test_a_node_whose_agent_never_answers_holds_nobody_up_for_ever() -> None:
    known = cluster()
    known.mute.add("n1")
    known.steps(2)
    request = known.record().request
    assert request is not None
    while known.record().request is not None:
        known.step()
        assert f"{known.now:%Y-%m-%dT%H:%M:%SZ}" < "2026-01-31T12:10:00Z"
    assert known.verdict()[1] == "NoAnswer"
    known.mute.clear()
    known.steps(20)
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)


def test_a_record_that_somebody_has_spoilt_is_begun_anew() -> None:
    spoilt = measurement("train-0", {1: 1.0, 2: 1.5})
    spoilt["samples"][0]["progress"] = "0"
    known = cluster(
        node("n1"),
        job("train", auto=True),
        {**profile("train"), "status": {"online": {"measurements": [spoilt]}}},
        pod("train-0"),
        pod("train-1"),
    )
    known.steps(60)
    assert known.fraction() == pytest.approx(0.8, abs=1e-4)
