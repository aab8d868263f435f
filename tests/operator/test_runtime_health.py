"""Answers of the probes, and their reasons."""

from __future__ import annotations

from dataclasses import replace

from walras_operator.decide.world import Event, Reference
from walras_operator.loop.health import HealthInputs, liveness_problems, readiness_problems
from walras_operator.publish.events import TokenBucket, event_document

STANDBY = HealthInputs(
    now=1000,
    active=999,
    tried=999,
    answered=999,
    patience=15,
    complete=True,
    problem="",
    leading_since=None,
    completed=None,
    epoch_seconds=30,
)


def test_a_standby_is_well_without_any_decision() -> None:
    assert liveness_problems(STANDBY) == []
    assert readiness_problems(STANDBY) == []


def test_a_watch_that_stands_still_is_fatal() -> None:
    assert liveness_problems(replace(STANDBY, active=900)) == [], "it may wait for news"
    assert liveness_problems(replace(STANDBY, active=800)) == ["a watch was blocked for 200 s"]


def test_a_lease_that_nobody_tries_is_fatal() -> None:
    assert liveness_problems(replace(STANDBY, tried=900)) == [
        "no attempt to renew the Lease for 100 s"
    ]


def test_a_leader_whose_decisions_fail_is_to_be_started_anew() -> None:
    leader = replace(STANDBY, leading_since=100, completed=800)
    assert liveness_problems(leader) == ["no decision was completed for 200 s"]
    assert liveness_problems(replace(leader, completed=900)) == []


def test_a_leader_that_never_decided_is_judged_from_when_it_began() -> None:
    assert liveness_problems(replace(STANDBY, leading_since=900)) == []
    assert liveness_problems(replace(STANDBY, leading_since=800)) != []


def test_decisions_of_an_earlier_term_count_for_nothing() -> None:
    assert liveness_problems(replace(STANDBY, leading_since=950, completed=10)) == []


def test_an_api_server_that_is_away_makes_it_unready_and_not_dead() -> None:
    lost = replace(STANDBY, answered=900)
    assert liveness_problems(lost) == []
    assert readiness_problems(lost) == ["the Lease could not be read for 100 s"]


def test_it_says_what_it_waits_for() -> None:
    waiting = replace(STANDBY, complete=False, problem="install the definitions")
    assert readiness_problems(waiting) == ["install the definitions"]
    assert readiness_problems(replace(waiting, problem="")) == [
        "the initial lists are not complete yet"
    ]


def test_events_are_told_up_to_so_many_and_again_after_a_while() -> None:
    bucket = TokenBucket(size=3)
    assert [bucket.take(0.0) for _ in range(5)] == [True, True, True, False, False]
    assert not bucket.take(19.0)
    assert bucket.take(40.0)
    assert [bucket.take(1000.0) for _ in range(4)] == [True, True, True, False]


def test_an_event_is_cut_to_what_the_api_server_takes() -> None:
    job = Reference("MarketJob", "x" * 253, "vision", "u")
    event = Event(job, "Warning", "R" * 200, "m" * 2000)
    document = event_document(event, "me", "2026-01-31T12:00:00Z")
    assert len(document["metadata"]["name"]) <= 253
    assert len(document["message"]) == 1024
    assert len(document["reason"]) == 128
    assert document["metadata"]["namespace"] == "vision"
    assert document["involvedObject"]["apiVersion"] == "walras.dev/v1alpha1"


def test_an_event_about_a_node_is_about_a_node_of_the_core() -> None:
    event = Event(Reference("Node", "n1"), "Normal", "Lost", "its agent is silent")
    document = event_document(event, "me", "2026-01-31T12:00:00Z")
    assert document["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert document["metadata"]["namespace"] == "default"
