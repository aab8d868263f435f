"""A reflector keeps the mirror up to date by lists and watches, whatever happens to them.

The answers of the API server are scripted, since a real one cannot be brought to most of them; they
are read by the real client's response. Two tests are about connections, and have a server.
"""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import Configuration
from urllib3 import HTTPResponse

from played_api import PlayedApi
from walras_operator.watch import reflector
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from walras_operator.watch.reflector import Reflector
from walras_service.api import Api
from walras_service.api_errors import ApiError
from walras_service.kinds import WORKLOADS
from worlds import pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Document = dict[str, Any]

KINDS = Scope("walras-system").kinds
PODS = KINDS["Pod"]
PATIENCE = 20.0
END = ApiError("the script has ended", "forbidden")
CUT = ApiError("the connection was cut", "unreachable")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "_ROUND", 0.01)
    monkeypatch.setattr(reflector, "_PAUSES", (0.01, 0.02))


class ScriptedApi(Api):
    """Answers requests by a script, and ends it by an error that is not tried again.

    Attributes:
        asked: The queries so far, oldest first.
    """

    def __init__(self, *script: bytes | ApiError) -> None:
        super().__init__(Configuration(host="http://nowhere"), "test")
        self.asked: list[dict[str, Any]] = []
        self._script = iter((*script, END))

    def opened(self, path: str, **options: Any) -> Any:
        self.asked.append({"path": path, "accept": options["accept"], **options["query"]})
        answer = next(self._script)
        if isinstance(answer, ApiError):
            raise answer
        return HTTPResponse(io.BytesIO(answer), status=200, preload_content=False)

    def watched_from(self) -> list[str]:
        """Versions from which watches began."""
        return [each["resourceVersion"] for each in self.asked if "watch" in each]


def stored(name: str, version: int, **metadata: Any) -> Document:
    return pod(name, resourceVersion=str(version), **metadata)


def page(*items: Document, version: int = 5, more: str = "") -> bytes:
    untyped = [{part: each[part] for part in ("metadata", "spec", "status")} for each in items]
    metadata = {"resourceVersion": str(version), "continue": more}
    return json.dumps({"kind": "PodList", "metadata": metadata, "items": untyped}).encode()


def watch(*events: tuple[str, Document]) -> bytes:
    lines = (json.dumps({"type": kind, "object": each}) for kind, each in events)
    return "".join(f"{line}\n" for line in lines).encode()


def mirror() -> Mirror:
    return Mirror(KINDS, lambda _: None, time.monotonic)


def pods(known: Mirror) -> set[str]:
    return {each.metadata.name for each in known.world("").objects.pods}


def follow(api: Api, known: Mirror, error: str = "the script has ended") -> Reflector:
    """Follow pods until the script has ended, or until another error."""
    made = Reflector(api, PODS, known)
    with pytest.raises(ApiError, match=error):
        asyncio.run(made.follow())
    return made


def test_objects_are_listed_in_pages_and_then_watched_from_the_version_of_the_list() -> None:
    api = ScriptedApi(
        page(stored("a", 3), more="next"),
        page(stored("b", 4)),
        watch(
            ("ADDED", stored("c", 6)),
            ("MODIFIED", stored("b", 7, labels={"app": "other"})),
            ("DELETED", stored("a", 8)),
        ),
    )
    known = mirror()
    assert follow(api, known).listed
    assert pods(known) == {"b", "c"}
    labels = {each.metadata.name: each.metadata.labels for each in known.world("").objects.pods}
    assert labels["b"] == {"app": "other"}
    assert [each.get("continue") for each in api.asked] == ["", "next", None, None]
    assert api.watched_from() == ["5", "8"]
    assert {each["path"] for each in api.asked} == {"/api/v1/pods"}
    assert {each["accept"] for each in api.asked} == {"application/json"}
    assert all(each["fieldSelector"] == PODS.fields for each in api.asked)


def metadata(name: str, version: int) -> Document:
    """Return an object as the API server sends its metadata."""
    found = {"name": name, "namespace": "lab", "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": found}


def test_only_the_metadata_of_namespaces_and_workloads_is_asked_for() -> None:
    items = {"items": [metadata("a", 3)], "metadata": {"resourceVersion": "5"}}
    for name, watched in KINDS.items():
        if name not in {"Namespace", *WORKLOADS}:
            assert not watched.only_metadata
            continue
        api = ScriptedApi(json.dumps(items).encode(), watch(("ADDED", metadata("b", 6))))
        known = mirror()
        with pytest.raises(ApiError, match="the script has ended"):
            asyncio.run(Reflector(api, watched, known).follow())
        assert known.counts()[name] == (2, 0)
        accepted = [each["accept"].partition(",")[0] for each in api.asked]
        one, several = (
            f"application/json;as=PartialObjectMetadata{end};v=v1;g=meta.k8s.io"
            for end in ("", "List")
        )
        assert accepted == [several, one, one]


def test_a_bookmark_moves_the_version_from_which_the_next_watch_begins() -> None:
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "90"}}
    api, known = ScriptedApi(page(stored("a", 3)), watch(("BOOKMARK", bookmark))), mirror()
    follow(api, known)
    assert pods(known) == {"a"}
    assert api.watched_from() == ["5", "90"]
    assert all(each["allowWatchBookmarks"] for each in api.asked if "watch" in each)


@pytest.mark.parametrize(
    "gone",
    [
        ApiError("the version is too old", "expired"),
        watch(("ERROR", {"kind": "Status", "code": 410, "message": "too old"})),
    ],
)
def test_after_410_what_is_no_longer_listed_is_forgotten(gone: bytes | ApiError) -> None:
    api = ScriptedApi(
        page(stored("a", 3), stored("b", 4)),
        gone,
        page(stored("b", 4), stored("c", 8), version=9),
        watch(("ADDED", stored("d", 10))),
    )
    known = mirror()
    follow(api, known)
    assert pods(known) == {"b", "c", "d"}
    assert api.watched_from() == ["5", "9", "10"]


def test_a_list_whose_next_page_has_expired_begins_again() -> None:
    expired = ApiError("the continue token is too old", "expired")
    first = page(stored("a", 3), more="next")
    api, known = ScriptedApi(first, expired, page(stored("b", 4), version=9)), mirror()
    follow(api, known)
    assert pods(known) == {"b"}
    assert api.watched_from() == ["9"]


def test_a_watch_that_was_cut_goes_on_where_it_ended() -> None:
    added = watch(("ADDED", stored("b", 6)))
    api = ScriptedApi(page(stored("a", 3)), added, CUT, watch(("ADDED", stored("c", 7))), CUT, CUT)
    known = mirror()
    follow(api, known)
    assert pods(known) == {"a", "b", "c"}
    assert api.watched_from() == ["5", "6", "6", "7", "7", "7"]


def test_what_fails_again_and_again_is_raised() -> None:
    api, known = ScriptedApi(page(stored("a", 3)), CUT, CUT, CUT), mirror()
    follow(api, known, "the connection was cut")
    assert pods(known) == {"a"}


def test_an_event_that_cannot_be_read_is_not_passed_over() -> None:
    first = watch(("ADDED", stored("b", 6))) + b"{"
    api = ScriptedApi(page(stored("a", 3)), first, b"{", b"{", page())
    known = mirror()
    follow(api, known, "unexpected response")
    assert api.watched_from() == ["5", "6", "6"]


def test_a_missing_permission_is_raised_at_once() -> None:
    forbidden = ApiError("pods is forbidden", "forbidden")
    api, known = ScriptedApi(forbidden, page()), mirror()
    assert not follow(api, known, "pods is forbidden").listed
    assert len(api.asked) == 1


def test_older_objects_are_taken_after_versions_were_forgotten() -> None:
    """When etcd was restored, all is followed anew, and what there is now counts."""
    known = mirror()
    follow(ScriptedApi(page(stored("a", 90), stored("b", 95), version=99)), known)
    older = page(stored("a", 20, labels={"app": "before"}), version=30)
    known.forget_versions()
    follow(ScriptedApi(older), known)
    (found,) = known.world("").objects.pods
    assert (found.metadata.name, found.metadata.labels) == ("a", {"app": "before"})


@pytest.fixture
def played() -> Iterator[PlayedApi]:
    api = PlayedApi([pod("a"), pod("b")])
    yield api
    api.stop()


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


@pytest.mark.system
def test_one_that_is_cancelled_ends_its_watch_and_tells_nothing_more(played: PlayedApi) -> None:
    async def run() -> None:
        known = mirror()
        made = Reflector(Api(played.configuration(), "test"), PODS, known)
        task = asyncio.create_task(made.follow())
        await until(lambda: any("watch=" in path for path, *_ in played.asked))
        played.put(pod("c"))
        await until(lambda: pods(known) == {"a", "b", "c"})
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        played.put(pod("d"))
        await until(lambda: "reflect-Pod" not in {each.name for each in threading.enumerate()})
        assert pods(known) == {"a", "b", "c"}

    asyncio.run(run())


@pytest.mark.system
def test_after_an_outage_it_knows_what_happened_meanwhile(
    played: PlayedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "_PAUSES", (0.1,) * 100)

    async def run() -> None:
        known = mirror()
        made = Reflector(Api(played.configuration(), "test"), PODS, known)
        task = asyncio.create_task(made.follow())
        await until(lambda: made.listed)
        played.stop()
        played.put(pod("c"))
        played.delete("Pod", "a", "lab")
        played.start()
        await until(lambda: pods(known) == {"b", "c"})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
