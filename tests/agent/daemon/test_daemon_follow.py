"""A NodeAllocation is followed through what an API server may say, and through what it may not.

Answers that a real server cannot be brought to give come from a scripted one; the rest is tested
in `test_daemon_cluster`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from scripted_api import ScriptedServer
from waiting import eventually
from walras_agent.daemon.api_monitor import ApiMonitor
from walras_agent.daemon.informer import AllocationInformer
from walras_agent.daemon.plans import PlanError, PlanWithdrawn
from walras_service.api import Api

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system

LONG = 3600.0


def allocation(epoch: int = 1, uid: str = "u1", **rest: Any) -> dict[str, Any]:
    head = {"apiVersion": "walras.dev/v1alpha1", "kind": "NodeAllocation"}
    metadata = {"name": "n", "uid": uid, "generation": epoch, "resourceVersion": "6"}
    return {**head, "metadata": metadata, "spec": {"epoch": epoch}, **rest}


def event(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": document}


GONE = event(
    "ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old: 5 (9)"}
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds follow each other at once."""
    monkeypatch.setattr("walras_service.reflector._ROUND", 0.01)
    monkeypatch.setattr("walras_service.reflector._FIRST", 0.0)


class Harness:
    """The informer and what the agent's loop would see of it."""

    def __init__(self, server: ScriptedServer, release_after: float) -> None:
        self.wakes = 0
        self.monitor = ApiMonitor()
        api = Api(server.settings(), "test")
        self.informer = AllocationInformer(api, "n", self.monitor, self.wake, release_after)

    def wake(self) -> None:
        self.wakes += 1

    def metrics(self) -> dict[tuple[str, ...], float]:
        samples = (each for family in self.monitor.collect() for each in family.samples)
        return {
            (each.name.removeprefix("walras_agent_"), *each.labels.values()): each.value
            for each in samples
        }

    def epoch(self) -> int | None:
        plan = self.informer.changed()
        return None if plan is None else plan.spec.epoch


@contextmanager
def following(server: ScriptedServer, release_after: float = LONG) -> Iterator[Harness]:
    seen = Harness(server, release_after)
    seen.informer.start()
    try:
        yield seen
    finally:
        seen.informer.stop()
        server.close()


def test_only_its_own_object_is_asked_for() -> None:
    server = ScriptedServer(allocation())
    with following(server):
        assert eventually(lambda: server.count(watches=True))
    assert {query["fieldSelector"] for query in server.asked} == {"metadata.name=n"}


def test_change_is_told_once_and_a_status_is_none() -> None:
    server = ScriptedServer(allocation(), allocation(2))
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    told = allocation(status={"epoch": 1})
    server.watches.append(
        [event("MODIFIED", told), bookmark, event("MODIFIED", allocation(2)), bookmark]
    )
    with following(server) as seen:
        assert eventually(lambda: server.count(watches=True) == 2)
        assert seen.wakes == 2
        assert seen.epoch() == 2
        assert seen.informer.generation == 2
        assert seen.epoch() is None


@pytest.mark.parametrize("end", [[GONE], [410], ["{"], ['{"type": "MODIFIED"}'], [500], []])
def test_watch_that_ends_in_whatever_way_begins_with_a_list_again(end: list[Any]) -> None:
    server = ScriptedServer(allocation(), allocation(2))
    server.watches.append(end)
    with following(server) as seen:
        assert eventually(lambda: seen.wakes == 2)
        assert seen.epoch() == 2
        assert seen.metrics()["watch_restarts_total",] == 1
        assert seen.metrics()["api_up",] == 1


def test_silent_watch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walras_service.reflector._SILENCE", 0.05)
    server = ScriptedServer(allocation(), allocation(2))
    with following(server) as seen:
        assert eventually(lambda: seen.wakes == 2)
        assert seen.epoch() == 2


@pytest.mark.parametrize("answer", [401, 403, 404, 429, 500, 503])
def test_refusals_end_no_grant(answer: int) -> None:
    server = ScriptedServer(allocation(), None, answer, None, answer, None, answer)
    server.watches.append([event("DELETED", allocation())])
    server.watches.extend([] for _ in range(2000))
    with following(server, release_after=0.2) as seen:
        assert eventually(lambda: server.count(watches=False) > 40)
        assert seen.epoch() == 1
        assert seen.metrics()["api_up",] == 0
        server.lists.append(allocation(2))
        assert eventually(lambda: seen.epoch() == 2)


def test_object_that_stays_away_ends_all_grants_once() -> None:
    server = ScriptedServer(allocation(), None)
    server.watches.append([event("DELETED", allocation())])
    server.watches.extend([] for _ in range(2000))
    with following(server, release_after=0.2) as seen:
        assert eventually(lambda: seen.wakes == 2)
        with pytest.raises(PlanWithdrawn) as withdrawn:
            seen.informer.changed()
        assert withdrawn.value.empty_plan.spec.grants == []
        assert seen.informer.changed() is None
        assert seen.informer.cached is None
        server.lists.append(allocation(1, "u2"))
        assert eventually(lambda: seen.epoch() == 1)


def test_object_made_again_meanwhile_is_followed() -> None:
    server = ScriptedServer(allocation(), None, allocation(3, "u2"))
    server.watches.append([event("DELETED", allocation())])
    server.watches.append([event("ADDED", allocation(3, "u2"))])
    with following(server) as seen:
        assert eventually(lambda: seen.epoch() == 3)
        assert seen.informer.cached is not None
        assert seen.informer.cached.uid == "u2"


def test_document_that_cannot_be_used_is_told_once() -> None:
    bad = allocation()
    bad["spec"]["mode"] = "guess"
    with following(ScriptedServer(bad)) as seen:
        assert eventually(lambda: seen.wakes)
        with pytest.raises(PlanError, match=r"spec\.mode: is guess"):
            seen.informer.changed()
        assert seen.informer.changed() is None
        assert seen.informer.generation == 1


def test_outage_is_told_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = ScriptedServer(503, 503, 503, allocation())
    with following(server) as seen:
        assert eventually(lambda: seen.epoch() == 1)
    (line,) = [message for message in caplog.messages if "in force" in message]
    assert "told to say 503" in line
    assert "last response of the API server: never" in line
    assert any(each.startswith("API requests succeed again after ") for each in caplog.messages)


def test_nobody_is_woken_after_the_end() -> None:
    server = ScriptedServer(None)
    with following(server) as seen:
        assert eventually(lambda: server.count(watches=True))
    assert seen.wakes == 0
    assert "plan" not in {thread.name for thread in threading.enumerate()}
