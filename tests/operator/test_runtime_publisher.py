"""Results of publishing a decision of which the API server refuses a part.

The API server is a function of the test's own, because a real one cannot be brought to refuse a
single object in all of these ways.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from walras_operator.decide.world import (
    Carried,
    Decision,
    Event,
    NodeWrite,
    ProfileWrite,
    Reference,
    StatusWrite,
    Writes,
)
from walras_operator.loop.debounce import Debounce
from walras_operator.loop.health import HealthInputs, liveness_problems
from walras_operator.loop.recompute import Recompute, _LeaderTerm
from walras_operator.metrics.operator_metrics import Metrics
from walras_operator.publish import attempts
from walras_operator.publish.publisher import Publisher, PublishResult
from walras_operator.publish.stamp import Stamp
from walras_service.api_errors import refusal

STAMP = Stamp(7, "2026-01-31T12:00:00Z", 1, "operator-0")
QUOTA = 403, "forbidden: exceeded quota: q, requested: count/speedupprofiles.walras.dev=1"
POLICY = 422, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
WEBHOOK = 400, 'admission webhook "w.example.com" denied the request: no'
TOO_LARGE = 500, "etcdserver: request is too large"
MUCH_TOO_LARGE = 413, "Request entity too large: limit is 3145728"
CHANGED = 409, "the object has been modified"
BUSY = 503, "the server is currently unable to handle the request"
TEST_FAILED = 422, "the server rejected our request due to an error in our request"


class RefusingApi:
    """Refuses every write, and has objects with another UID than those that are written."""

    def __init__(self, status: int, said: str, uid: str) -> None:
        self.status, self.said, self.uid = status, said, uid

    def request(self, method: str, path: str, *_: Any, **__: Any) -> Any:
        if method == "GET":
            return {"metadata": {"uid": self.uid, "resourceVersion": "1"}}
        raise refusal("https://cluster", method, path, self.status, self.said)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_PAUSES", (0.0, 0.0))


def published(decision: Writes, answer: tuple[int, str], uid: str = "u") -> PublishResult:
    """Return the result of publishing a decision if every write gets the same answer."""
    api: Any = RefusingApi(*answer, uid)
    mirror: Any = SimpleNamespace(allocations=dict, wrote=lambda *_: None)
    no: Any = None
    found = Publisher(api, mirror, lambda: True, no)
    try:
        return found.publish(decision, STAMP)
    finally:
        found.close()


def status(kind: str, namespace: str = "") -> Writes:
    write = StatusWrite(Reference(kind, "default", namespace, "u"), {})
    return Writes((), (write,), ())


JOB = status("MarketJob", "lab")
PROFILE_STATUS = status("SpeedupProfile", "lab")
PROFILE = Writes(
    (),
    (),
    (),
    profiles=(ProfileWrite(Reference("SpeedupProfile", "train", "lab"), {"metadata": {}}),),
)
EVENT = Writes((), (), (Event(Reference("MarketJob", "train", "lab"), "Normal", "Ready", ""),))
NODE = Writes((NodeWrite("n1", "u", {}),), (), ())


@pytest.mark.parametrize(
    ("decision", "answer", "result"),
    [
        (PROFILE, QUOTA, "refused"),
        (PROFILE, WEBHOOK, "refused"),
        (PROFILE, BUSY, "failed"),
        (PROFILE_STATUS, POLICY, "refused"),
        (JOB, TOO_LARGE, "refused"),
        (JOB, MUCH_TOO_LARGE, "refused"),
        (JOB, CHANGED, "refused"),
        (JOB, BUSY, "failed"),
        (JOB, (500, "etcdserver: request timed out"), "failed"),
        (JOB, (401, "Unauthorized"), "failed"),
        (status("Entitlement"), POLICY, "refused"),
        (EVENT, QUOTA, "refused"),
        (status("Market"), POLICY, "failed"),
        (NODE, POLICY, "failed"),
        (NODE, TOO_LARGE, "failed"),
    ],
)
def test_only_what_concerns_one_user_can_be_refused(
    decision: Writes, answer: tuple[int, str], result: str
) -> None:
    assert [each for _, each in published(decision, answer).results] == [result]


@pytest.mark.parametrize("decision", [JOB, PROFILE_STATUS])
def test_an_object_that_was_recreated_is_gone(decision: Writes) -> None:
    assert [each for _, each in published(decision, TEST_FAILED, "other").results] == ["gone"]


class Noted(Recompute):
    """A leader that began 1000 seconds ago, and notes results."""

    def __init__(self) -> None:
        no: Any = None
        super().__init__(no, no, no, no, no, no, no, no, no, Debounce(), no)

    def pause(self, *outcomes: PublishResult) -> float:
        """Return the seconds until the next decision after these results."""
        for each in outcomes:
            self._note(each)
        if not self._failures:
            return 0.0
        self._tried = 0.0
        nobody: Any = None
        return self._due(nobody, 0.0)

    @property
    def lives(self) -> bool:
        now = 10.0 if self.completed is None else self.completed
        return not liveness_problems(
            HealthInputs(now, now, now, now, 15, True, "", now - 1000, self.completed, 30)
        )


class Deciding(Recompute):
    """A leader that makes one decision, and publishes its parts with a given result."""

    def __init__(self, decision: Decision, outcome: PublishResult) -> None:
        no: Any = None
        known: Any = SimpleNamespace(agents=frozenset(), now="", versions={})
        gatherer: Any = SimpleNamespace(world=lambda *_, **__: known)
        mirror: Any = SimpleNamespace(allocations=dict)
        lead: Any = SimpleNamespace(identity="me", led_before=str)
        writer: Any = SimpleNamespace(publish=lambda *_: outcome)
        super().__init__(
            mirror,
            no,
            lead,
            writer,
            no,
            gatherer,
            lambda _: decision,
            Metrics(),
            no,
            Debounce(),
            lambda: datetime(2026, 1, 31, 12, tzinfo=UTC),
        )

    def carried(self) -> Carried | None:
        """Decide; return what the next decision gets."""
        current = _LeaderTerm(1, 0.0)
        self._round(current)
        return current.carried


@pytest.mark.parametrize("first", [Writes(), NODE])
@pytest.mark.parametrize("rest", [Writes(), JOB])
@pytest.mark.parametrize("void", [False, True])
def test_a_decision_is_carried_on_unless_its_credits_could_not_be_written(
    first: Writes, rest: Writes, void: bool
) -> None:
    carried = Carried(quantum=3)
    leader = Deciding(Decision(carried, first, lambda: rest), PublishResult(void=void))
    is_void = void and bool(first or rest)
    assert leader.carried() == (None if is_void else carried)


def test_writes_that_are_refused_hold_up_nobody() -> None:
    leader = Noted()
    refused = published(PROFILE, QUOTA) + published(JOB, TOO_LARGE)
    assert leader.pause(*[refused] * 10) == 0.0
    assert leader.succeeded is not None
    assert leader.lives


def test_a_plan_that_cannot_be_written_is_told_of_but_a_restart_would_not_help() -> None:
    leader = Noted()
    assert leader.pause(*[published(NODE, POLICY)] * 10) == 60.0
    assert leader.succeeded is None
    assert leader.lives


@pytest.mark.parametrize("result", ["superseded", "unheld"])
def test_a_decision_of_one_who_leads_no_longer_is_not_complete(result: Any) -> None:
    leader = Noted()
    outcome = PublishResult()
    outcome.results["NodeAllocation", result] += 1
    leader.pause(outcome)
    assert leader.succeeded is None
    assert not leader.lives


def test_any_number_of_failures_can_be_waited_for() -> None:
    failed = published(NODE, BUSY)
    assert Noted().pause(*[failed] * 2000) == 60.0
