"""A reflector tells of the objects of a kind, whatever happens to its lists and watches.

The answers of the API server are scripted, since a real one cannot be brought to most of them; they
are read by the real client's response. The last tests are about connections, and have a server.
"""

from __future__ import annotations

import io
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.client import Configuration
from urllib3 import HTTPResponse
from urllib3.exceptions import ReadTimeoutError

from played_api import PlayedApi
from waiting import PATIENCE, eventually
from walras_service import reflector
from walras_service.api import Api
from walras_service.api_errors import ApiError
from walras_service.kinds import NAMESPACES, OURS, PODS
from walras_service.reflector import Reflector
from worlds import pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_service.kinds import Kind

Document = dict[str, Any]

END = ApiError("the script has ended", "unreachable")
CUT = ApiError("the connection was cut", "unreachable")
FORBIDDEN = ApiError("pods is forbidden", "forbidden")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "_ROUND", 0.001)
    monkeypatch.setattr(reflector, "_FIRST", 0.001)
    monkeypatch.setattr(reflector, "_UNWATCHED", 0.001)


class ScriptedApi(Api):
    """Answers requests by a script, and fails ever after.

    Attributes:
        asked: The queries so far, oldest first.
        over: Whether the script has ended.
    """

    def __init__(self, *script: bytes | io.RawIOBase | ApiError) -> None:
        super().__init__(Configuration(host="http://nowhere"), "test")
        self.asked: list[dict[str, Any]] = []
        self.over = threading.Event()
        self._script = iter(script)

    def opened(self, path: str, **options: Any) -> Any:
        answer = next(self._script, None)
        if answer is None:
            self.over.set()
            raise END
        self.asked.append({"path": path, "accept": options["accept"], **options["query"]})
        if isinstance(answer, ApiError):
            raise answer
        body = io.BytesIO(answer) if isinstance(answer, bytes) else answer
        return HTTPResponse(body, status=200, preload_content=False)

    def watched_from(self) -> list[str]:
        """Versions from which watches began."""
        return [each["resourceVersion"] for each in self.asked if "watch" in each]


class Known:
    """What a follower was told.

    Attributes:
        objects: Objects by UID.
        problems: Messages of failures.
        heard: Called with each object.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.problems: list[str] = []
        self.answers = 0
        self.heard: Callable[[Document], None] = lambda _: None

    @property
    def names(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.objects.values()}

    def known(self) -> set[str]:
        return set(self.objects)

    def receive(self, document: Document, *, deleted: bool) -> None:
        self.objects[document["metadata"]["uid"]] = document
        if deleted:
            del self.objects[document["metadata"]["uid"]]
        self.heard(document)

    def listed(self, gone: set[str]) -> None:
        for uid in gone:
            del self.objects[uid]

    def answered(self) -> None:
        self.answers += 1

    def failed(self, error: ApiError) -> None:
        if error is not END:
            self.problems.append(str(error))


def stored(name: str, version: int, **metadata: Any) -> Document:
    return pod(name, resourceVersion=str(version), **metadata)


def page(*items: Document, version: int = 5, more: str = "", kind: str = "Pod") -> bytes:
    untyped = [
        {part: each[part] for part in ("metadata", "spec", "status") if part in each}
        for each in items
    ]
    metadata = {"resourceVersion": str(version), "continue": more}
    return json.dumps({"kind": f"{kind}List", "metadata": metadata, "items": untyped}).encode()


def watch(*events: tuple[str, Document]) -> bytes:
    lines = (json.dumps({"type": kind, "object": each}) + "\n" for kind, each in events)
    return "".join(lines).encode()


def follow(api: ScriptedApi, kind: Kind = PODS, **options: Any) -> tuple[Known, Reflector]:
    """Follow a kind until the script has ended."""
    known = Known()
    made = Reflector(api, "test-reflector", kind, known, **options)
    made.start()
    assert api.over.wait(PATIENCE)
    made.stop(wait=PATIENCE)
    return known, made


def test_objects_are_listed_in_pages_and_then_watched_from_the_version_of_the_list() -> None:
    api = ScriptedApi(
        page(stored("a", 3), more="next"),
        page(stored("b", 4)),
        watch(
            ("ADDED", stored("c", 6)),
            ("MODIFIED", stored("b", 7, labels={"app": "other"})),
            ("DELETED", stored("a", 8)),
        ),
        watch(),
    )
    known, made = follow(api, selectors={"fieldSelector": "status.phase!=Failed"})
    assert made.complete
    assert known.names == {"b", "c"}
    assert {each["kind"] for each in known.objects.values()} == {"Pod"}
    labels = {each["metadata"]["name"]: each["metadata"] for each in known.objects.values()}
    assert labels["b"]["labels"] == {"app": "other"}
    assert [each.get("continue") for each in api.asked] == [None, "next", None, None]
    assert api.watched_from() == ["5", "8"]
    assert {each["path"] for each in api.asked} == {"/api/v1/pods"}
    assert {each["accept"] for each in api.asked} == {"application/json"}
    assert {each["fieldSelector"] for each in api.asked} == {"status.phase!=Failed"}
    listed = api.asked[0]
    assert "resourceVersion" not in listed, "asked of the store, not of a cache"
    assert 240 <= api.asked[-1]["timeoutSeconds"] <= 360


def test_of_objects_that_are_large_fewer_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's objects can have 1.5 MiB each, and decoded, a page takes many times its bytes."""
    monkeypatch.setattr(reflector, "LONGEST_PAGE", 5_000)
    large = [stored(name, 3, labels={"app": "x" * 3_000}) for name in "abc"]
    huge = stored("huge", 4, labels={"app": "x" * 9_000})
    api = ScriptedApi(
        *[page(*large)] * 3,  # of 100, 25 and 6
        page(large[0], more="next"),
        page(huge, more="last"),
        page(large[1], version=6),
        watch(),
    )
    known, made = follow(api)
    assert made.complete
    assert known.names == {"a", "b", "huge"}
    limits = [each["limit"] for each in api.asked if "limit" in each]
    assert limits == [100, 25, 6, 1, 1, 1]
    tokens = [each.get("continue") for each in api.asked if "limit" in each]
    assert tokens == [None, None, None, None, "next", "last"]


def metadata(name: str, version: int) -> Document:
    """Return an object as the API server sends its metadata."""
    found = {"name": name, "namespace": "lab", "uid": f"u-{name}", "resourceVersion": str(version)}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": found}


def test_only_metadata_is_asked_for_where_nothing_else_is_used() -> None:
    listed = page(metadata("a", 3), kind="PartialObjectMetadata")
    api = ScriptedApi(listed, watch(("ADDED", metadata("b", 6))))
    known, _ = follow(api, NAMESPACES, only_metadata=True)
    assert known.names == {"a", "b"}
    accepted = [each["accept"].partition(",")[0] for each in api.asked]
    several, one = (
        f"application/json;as=PartialObjectMetadata{end};v=v1;g=meta.k8s.io" for end in ("List", "")
    )
    assert accepted == [several, one]


def test_a_bookmark_moves_the_version_from_which_the_next_watch_begins() -> None:
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "90"}}
    api = ScriptedApi(page(stored("a", 3)), watch(("BOOKMARK", bookmark)), watch())
    known, _ = follow(api)
    assert known.names == {"a"}
    assert api.watched_from() == ["5", "90"]
    assert all(each["allowWatchBookmarks"] for each in api.asked if "watch" in each)


@pytest.mark.parametrize(
    "gone",
    [
        ApiError("the version is too old", "expired"),
        watch(("ERROR", {"kind": "Status", "code": 410, "message": "too old"})),
    ],
)
def test_after_410_what_is_no_longer_listed_is_gone(gone: bytes | ApiError) -> None:
    api = ScriptedApi(
        page(stored("a", 3), stored("b", 4)),
        gone,
        page(stored("b", 4), stored("c", 8), version=9),
        watch(("ADDED", stored("d", 10))),
        watch(),
    )
    known, _ = follow(api)
    assert known.names == {"b", "c", "d"}
    assert known.problems == [], "that is how watches end"
    assert api.watched_from() == ["5", "9", "10"]


def test_what_appears_during_a_list_is_not_gone() -> None:
    """The operator learns of an object that it creates before any watch tells of it."""
    api = ScriptedApi(page(stored("a", 3), more="next"), page(), watch())
    known = Known()

    def create(_: Document) -> None:
        known.objects["u-own"] = stored("own", 4)

    known.heard = create
    made = Reflector(api, "test-reflector", PODS, known)
    made.start()
    assert api.over.wait(PATIENCE)
    made.stop(wait=PATIENCE)
    assert known.names == {"a", "own"}


def test_a_list_whose_next_page_has_expired_begins_again() -> None:
    expired = ApiError("the continue token is too old", "expired")
    first = page(stored("a", 3), more="next")
    api = ScriptedApi(first, expired, page(stored("b", 4), version=9), watch())
    known, _ = follow(api)
    assert known.names == {"b"}
    assert api.watched_from() == ["9"]


def test_a_watch_that_was_cut_goes_on_where_it_ended() -> None:
    added = watch(("ADDED", stored("b", 6)))
    api = ScriptedApi(page(stored("a", 3)), added, CUT, watch(("ADDED", stored("c", 7))), CUT, CUT)
    known, made = follow(api)
    assert known.names == {"a", "b", "c"}
    assert api.watched_from() == ["5", "6", "6", "7", "7"]
    assert made.complete
    assert known.problems == [str(CUT)] * 3


@pytest.mark.parametrize("lists_first", [True, False])
def test_a_watch_begins_with_a_list_if_that_is_wanted(lists_first: bool) -> None:
    first, last = page(stored("a", 3)), page(stored("b", 4), version=9)
    api = ScriptedApi(first, watch(), *([last] if lists_first else []), watch())
    known, _ = follow(api, lists_first=lists_first)
    assert known.names == ({"b"} if lists_first else {"a"})


class Silent(io.RawIOBase):
    """A connection on which nothing comes."""

    def read(self, _: int = -1) -> bytes:
        raise ReadTimeoutError(None, "", "read timed out")  # type: ignore[arg-type]


def test_after_a_silence_nothing_is_believed_until_all_is_listed_again() -> None:
    """The connection may be dead, and a server may have none to send bookmarks to."""
    api = ScriptedApi(page(stored("a", 3)), Silent(), page(stored("b", 4), version=9), watch())
    known, _ = follow(api)
    assert known.names == {"b"}
    assert known.problems == []
    assert api.watched_from() == ["5", "9"]


def test_an_event_that_cannot_be_read_is_not_passed_over() -> None:
    broken = watch(("ADDED", stored("b", 6))) + b"{"
    api = ScriptedApi(page(stored("a", 3)), broken, page(stored("c", 7), version=8), watch())
    known, _ = follow(api)
    assert known.names == {"c"}
    assert "unexpected response" in known.problems[0]


def test_a_follower_that_fails_is_told_all_again() -> None:
    known = Known()
    failures = iter([RuntimeError("a bug")])

    def fail(document: Document) -> None:
        if document["metadata"]["name"] == "b":
            for each in failures:
                raise each

    known.heard = fail
    added = watch(("ADDED", stored("b", 6)))
    api = ScriptedApi(page(stored("a", 3)), added, page(stored("b", 6), version=7), watch())
    made = Reflector(api, "test-reflector", PODS, known)
    made.start()
    assert api.over.wait(PATIENCE)
    made.stop(wait=PATIENCE)
    assert known.names == {"b"}
    assert known.problems == ["RuntimeError('a bug')"]


def test_a_permission_that_is_missing_is_told_and_looked_for_again() -> None:
    known, made = follow(ScriptedApi(FORBIDDEN, FORBIDDEN, page(stored("a", 3)), watch()))
    assert known.problems == [str(FORBIDDEN)] * 2
    assert known.names == {"a"}
    assert made.complete


def test_what_may_be_listed_but_not_watched_is_listed_again_and_again() -> None:
    pages = [page(stored(name, 3)) for name in "abc"]
    api = ScriptedApi(pages[0], FORBIDDEN, pages[1], FORBIDDEN, pages[2], FORBIDDEN)
    assert follow(api)[0].names == {"c"}


def test_the_first_namespace_that_may_be_listed_is_followed() -> None:
    kind = OURS["MarketJob"]
    api = ScriptedApi(FORBIDDEN, page(stored("a", 3)), watch())
    known, made = follow(api, kind, namespaces=("", "lab"))
    assert made.namespace == "lab"
    assert known.problems == []
    assert [each["path"] for each in api.asked] == [
        kind.path(""),
        kind.path("lab"),
        kind.path("lab"),
    ]


def test_pauses_grow_and_begin_small_again_after_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector, "_FIRST", 0.1)
    bookmark = ("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    api = ScriptedApi(*[CUT] * 4, page(), watch(bookmark), CUT, watch())
    began = time.monotonic()
    follow(api, longest=0.2)
    # Half of 0.1 + 0.2 + 0.2 + 0.2, and of 0.1, at least.
    assert time.monotonic() - began >= 0.4


def test_nobody_is_blind_for_a_day_because_the_api_server_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert reflector._LONGEST_ASKED == 60.0
    monkeypatch.setattr(reflector, "_LONGEST_ASKED", 0.3)
    busy = ApiError("too many requests", "busy", retry_after=86400.0)
    api = ScriptedApi(page(stored("a", 3)), busy, watch(("ADDED", stored("b", 6))), watch())
    began = time.monotonic()
    known, _ = follow(api)
    assert known.names == {"a", "b"}
    assert time.monotonic() - began >= 0.3, "what it asks for is not ignored either"


def test_a_follower_that_believes_nothing_any_more_is_told_all_again() -> None:
    known = Known()
    added = watch(("ADDED", stored("b", 6)), ("ADDED", stored("not told", 7)))
    api = ScriptedApi(page(stored("a", 3)), added, page(stored("b", 6), version=9), watch())
    made = Reflector(api, "test-reflector", PODS, known)

    def doubt(document: Document) -> None:
        if document["metadata"]["name"] == "b" and len(api.asked) == 2:
            made.list_again()
            assert not made.complete

    known.heard = doubt
    made.start()
    assert api.over.wait(PATIENCE)
    made.stop(wait=PATIENCE)
    assert known.names == {"b"}
    assert known.problems == []
    assert made.complete


def test_it_says_since_when_it_fails_and_when_it_last_heard() -> None:
    before = time.monotonic()
    made = Reflector(ScriptedApi(), "test-reflector", PODS, Known())
    made._failed(CUT, before)
    first = made.failing_since
    made._failed(CUT, before)
    assert first is not None
    assert before <= first == made.failing_since
    assert made.problem is CUT
    _, made = follow(ScriptedApi(page(), watch()))
    assert made.confirmed >= first


@pytest.fixture
def played() -> Iterator[PlayedApi]:
    api = PlayedApi([pod("a"), pod("b")])
    yield api
    api.stop()


def _ended() -> bool:
    return "test-reflector" not in {each.name for each in threading.enumerate()}


@pytest.mark.system
def test_one_that_is_stopped_ends_its_watch_and_tells_nothing_more(played: PlayedApi) -> None:
    known = Known()
    made = Reflector(Api(played.configuration(), "test"), "test-reflector", PODS, known)
    made.start()
    assert eventually(lambda: any("watch=" in path for path, *_ in played.asked))
    played.put(pod("c"))
    assert eventually(lambda: known.names == {"a", "b", "c"})
    made.stop()
    played.put(pod("d"))
    assert eventually(_ended)
    assert known.names == {"a", "b", "c"}


@pytest.mark.system
def test_another_thread_can_make_it_list_again(played: PlayedApi) -> None:
    known = Known()
    made = Reflector(Api(played.configuration(), "test"), "test-reflector", PODS, known)
    made.start()
    assert eventually(lambda: any("watch=" in path for path, *_ in played.asked))
    known.objects.clear()
    made.list_again()
    assert eventually(lambda: known.names == {"a", "b"})
    made.stop(wait=PATIENCE)


@pytest.mark.system
def test_after_an_outage_it_knows_what_happened_meanwhile(played: PlayedApi) -> None:
    known = Known()
    made = Reflector(Api(played.configuration(), "test"), "test-reflector", PODS, known)
    made.start()
    assert eventually(lambda: made.complete)
    played.stop()
    played.put(pod("c"))
    played.delete("Pod", "a", "lab")
    assert eventually(lambda: made.problem is not None)
    played.start()
    assert eventually(lambda: known.names == {"b", "c"})
    assert eventually(lambda: made.problem is None)
    made.stop(wait=PATIENCE)
