"""The mirror counts as complete only while every kind is known to be as it is at the API server."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from played_api import PlayedApi
from waiting import eventually
from walras_operator.watch import watches as watch
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from walras_operator.watch.watches import STALE, Watches
from walras_service import reflector
from walras_service.api import Api
from worlds import pod

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system

KINDS = {name: Scope("walras-system").kinds[name] for name in ("Pod", "Entitlement", "Lease")}


@dataclass
class Clock:
    """The real clock, which a test may put forward."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "_ROUND", 0.01)
    monkeypatch.setattr(reflector, "_FIRST", 0.01)
    monkeypatch.setattr(watch, "FAILING", 0.5)


@pytest.fixture
def api() -> Iterator[PlayedApi]:
    made = PlayedApi([pod("a"), pod("b")])
    yield made
    made.stop()


class Watched:
    """Watches of an API server, and their mirror."""

    def __init__(self, api: PlayedApi) -> None:
        self.clock = Clock()
        self.mirror = Mirror(KINDS, lambda _: None, self.clock)
        client = Api(api.configuration("operator"), "test", len(KINDS))
        self.completed: list[bool] = []
        self.watches = Watches(
            client, KINDS, self.mirror, self.clock, lambda: self.completed.append(self.complete)
        )
        self.watches.start()

    @property
    def complete(self) -> bool:
        return self.watches.complete

    @property
    def pods(self) -> set[str]:
        return {entry.name[1] for entry in self.mirror._tables["Pod"].values()}


@pytest.fixture
def watched(api: PlayedApi) -> Iterator[Watched]:
    made = Watched(api)
    yield made
    made.watches.stop()


def test_a_kind_that_may_not_be_listed_is_named_until_it_may(api: PlayedApi) -> None:
    api.forbidden["operator"] = {"pods"}
    made = Watched(api)
    try:
        rule = 'apiGroups: [""], resources: [pods], verbs: [list, watch]'
        assert eventually(lambda: rule in made.watches.problem)
        assert not made.watches.complete
        api.forbidden.clear()
        assert eventually(lambda: made.watches.complete)
        assert made.pods == {"a", "b"}
    finally:
        made.watches.stop()


def test_whoever_waits_for_the_mirror_is_told_as_soon_as_it_is_complete(watched: Watched) -> None:
    assert eventually(lambda: watched.completed)
    assert watched.completed == [True]


def test_a_short_outage_is_none_and_a_long_one_makes_it_incomplete(
    api: PlayedApi, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "FAILING", 1000.0)
    assert eventually(lambda: watched.watches.complete)
    api.stop()
    assert eventually(lambda: watched.watches._reflectors["Pod"].problem is not None)
    assert watched.watches.complete
    watched.clock.ahead = 1001.0
    assert "is unreachable" in watched.watches.problem
    assert not watched.watches.complete
    watched.clock.ahead = 0.0
    api.delete("Pod", "a", "lab")
    api.start()
    assert eventually(lambda: watched.watches.complete and watched.pods == {"b"})


def test_a_kind_that_nothing_is_heard_of_makes_it_incomplete(watched: Watched) -> None:
    assert eventually(lambda: watched.watches.complete)
    assert watched.watches.ages().keys() == KINDS.keys()
    assert max(watched.watches.ages().values()) < STALE
    watched.clock.ahead = STALE + 1
    assert min(watched.watches.ages().values()) > STALE
    assert not watched.watches.complete
    assert "the API server has said nothing of" in watched.watches.problem


def test_after_a_restore_older_objects_replace_newer_ones(api: PlayedApi, watched: Watched) -> None:
    assert eventually(lambda: watched.watches.complete)
    api.put(pod("c"))
    assert eventually(lambda: watched.pods == {"a", "b", "c"})
    (uid, version) = next(iter(watched.mirror.versions("Pod").items()))
    name = watched.mirror._tables["Pod"][uid].name[1]
    newer = api.get("Pod", name, "lab")
    metadata = {**newer["metadata"], "resourceVersion": str(10 * int(version))}
    watched.mirror.receive("Pod", {**newer, "metadata": metadata})
    watched.watches.restored()
    assert not watched.watches.complete
    assert eventually(lambda: watched.watches.complete)
    assert watched.mirror.versions("Pod")[uid] == version
