"""Facts: the objects of one kind, followed by list and watch for as long as someone wants them.

A list says what there is, and a watch goes on from its resourceVersion. A watch that ends is
continued from the last version that it reported. The objects are listed again if the API server no
longer has that version (410 Gone), if it refuses the watch, or if it was silent for so long that
the connection may be dead. Whatever fails is tried again, since servers come back, and permissions
and definitions may be added.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from urllib3.exceptions import ReadTimeoutError

from walras_service import collector
from walras_service.api import JSON, METADATA, ONE_METADATA, PATIENCE
from walras_service.api_errors import ApiError, explained, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from urllib3 import BaseHTTPResponse

    from walras_service.api import Api, Document, Query
    from walras_service.kinds import Kind

_log = logging.getLogger(__name__)

_PAGE = 100
"""Objects per page of a list; no other thread runs while a page is decoded."""

LONGEST_PAGE = 4 << 20
"""Bytes of a page beyond which fewer objects are asked for: decoded, it takes up to 25 times that.
A page of one object has any length, which the API server bounds."""

_LONG = 1 << 20
"""Bytes of a document from which no other thread may decode one at the same time."""

_DECODES_LONG = threading.Lock()

_WATCH_SECONDS = (240, 360)
_READ = 30.0  # seconds until the next bytes of a list
_SILENCE = 90.0  # seconds; the API server sends a bookmark every minute
_ROUND = 1.0
"""Least seconds between the beginnings of two watches."""

_FIRST = 0.5
"""Seconds before the first repetition of a request that failed; doubled each time."""

_LONGEST = 30.0
_UNWATCHED = 5.0
"""Seconds before objects that may be listed but not watched are listed again."""

_LONGEST_ASKED = 60.0
"""Longest wait in seconds that the API server may ask for: its ``Retry-After`` may say a day."""


class Follower(Protocol):
    """Whoever is told of the objects of a kind, by the reflector's thread alone."""

    def known(self) -> set[str]:
        """Return the UIDs of the objects that it knows; a list begins."""

    def receive(self, document: Document, *, deleted: bool) -> None:
        """Take an object of a list, or one that has changed or was deleted."""

    def listed(self, gone: set[str]) -> None:
        """Take note that all objects were listed, and which of those known before are gone."""

    def answered(self) -> None:
        """Take note that the objects can be followed, or are followed still."""

    def failed(self, error: ApiError) -> None:
        """Take note that a request failed; it is repeated after a pause."""


class Reflector:
    """Follows one kind in a thread of its own.

    Args:
        api: Connections to the API server, one for each of its reflectors.
        name: Name of the thread.
        kind: Kind to follow.
        follower: Whoever is told.
        namespaces: Namespaces to try in turn, until one may be listed; empty for all of them.
        selectors: Query parameters of lists and watches.
        only_metadata: Whether to ask for the metadata of the objects alone.
        lists_first: Whether every watch begins with a list.
        longest: Longest pause in seconds after transient failures, unless the server asks for more.
        watch_seconds: Returns the duration of the next watch.

    Attributes:
        resource: What kubectl calls the kind.
        namespace: Namespace that is followed.
        complete: Whether all objects were listed, and none since is known to be missed.
        problem: Why the last request failed; None if it did not.
        failing_since: When the first request failed of those that have failed since one succeeded,
            by `time.monotonic`; None if the last one did not fail.
        confirmed: When the API server last confirmed that nothing is missed, by `time.monotonic`.
        active: When the thread last did anything, by `time.monotonic`.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        kind: Kind,
        follower: Follower,
        *,
        namespaces: Sequence[str] = ("",),
        selectors: Mapping[str, str] | None = None,
        only_metadata: bool = False,
        lists_first: bool = False,
        longest: float = _LONGEST,
        watch_seconds: Callable[[], int] | None = None,
    ) -> None:
        self.resource = kind.resource
        self.namespace = namespaces[0]
        self.complete = False
        self.problem: ApiError | None = None
        self.failing_since: float | None = None
        self.confirmed = self.active = time.monotonic()
        self._api, self._kind, self._follower = api, kind, follower
        self._namespaces, self._selectors = namespaces, dict(selectors or {})
        self._only_metadata, self._lists_first, self._longest = only_metadata, lists_first, longest
        self._watch_seconds = watch_seconds or some_minutes
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._outdated = False
        self._answer: BaseHTTPResponse | None = None
        self._version = ""
        self._limit = _PAGE
        self._failures = 0
        self._tried = 0.0  # when a failed request is repeated, at the latest
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, wait: float = 0.0) -> None:
        """End the thread; the follower is told nothing more.

        Args:
            wait: Longest time in seconds to wait until it has ended.
        """
        with self._lock:
            self._stopping.set()
            self._interrupt()
        if wait and self._thread.ident is not None:
            self._thread.join(wait)

    def list_again(self) -> None:
        """Believe nothing of the watch any more, and list all objects; safe for any thread."""
        with self._lock:
            self._outdated, self.complete = True, False
            self._interrupt()

    def _interrupt(self) -> None:
        if self._answer is not None:
            with contextlib.suppress(RuntimeError, ValueError, OSError):  # it has ended
                self._answer.shutdown()

    @property
    def _interrupted(self) -> bool:
        return self._stopping.is_set() or self._outdated

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.active = began = time.monotonic()
            try:
                self._round()
                again = began + _ROUND
            except ApiError as error:
                again = self._failed(error, began)
            except Exception as error:  # noqa: BLE001 - the thread must go on
                _log.exception("following %s failed", self._kind.resource)
                again = self._failed(ApiError(repr(error), "error"), began)
            self.active = time.monotonic()
            self._stopping.wait(max(0.0, again - self.active))

    def _round(self) -> None:
        with self._lock:
            if self._outdated or self._lists_first:
                self._version, self._outdated = "", False
        if not self._version:
            self._list()
        if self._version and not self._interrupted:
            self._watch()

    def _failed(self, error: ApiError, began: float) -> float:
        """Report an error; return when to go on, by `time.monotonic`."""
        if self._interrupted:
            return began + _ROUND
        unwatched = error.reason == "forbidden" and bool(self._version)
        if error.reason not in {"unreachable", "busy"}:
            self._version = ""
        if error.reason == "expired":
            return began + _ROUND
        now = time.monotonic()
        if now > self._tried + self._longest:  # long after the last failure: not its continuation
            self._failures = 0
        self.problem, self.failing_since = error, self.failing_since or now
        self._follower.failed(error)
        longest = self._longest if error.transient else _LONGEST
        pause = min(_FIRST * 2.0 ** min(self._failures, 16), longest)
        self._failures += 1
        pause = random.uniform(pause / 2, pause)  # noqa: S311 - spreads load, protects nothing
        pause = max(pause, min(error.retry_after, _LONGEST_ASKED))
        self._tried = now + (_UNWATCHED if unwatched else pause)
        return self._tried

    def _list(self) -> None:
        """Tell the follower of all objects."""
        refusals: list[ApiError] = []
        for namespace in self._namespaces:
            try:
                return self._list_in(namespace)
            except ApiError as error:
                if error.reason not in {"forbidden", "missing"}:
                    raise
                refusals.append(error)
        raise refusals[0]

    def _list_in(self, namespace: str) -> None:
        began, gone = time.monotonic(), self._follower.known()
        self.namespace, self._limit = namespace, _PAGE
        version, more = "", ""
        while not self._interrupted:
            with collector.paused():  # a page consists of many objects, and soon none is left
                version, more = self._page(more, gone)
            if not more:
                break
        with self._lock:
            if self._interrupted:
                return
            self._follower.listed(gone)
            self._version, self.complete = version, True
        self._confirm(began)

    def _page(self, more: str, gone: set[str]) -> tuple[str, str]:
        """Tell the follower of a page of a list, and remove its objects from ``gone``.

        Returns:
            The resourceVersion of the list, and the token of its next page; empty for none.
        """
        data = self._page_of(more)
        while data is None:
            self._limit = max(self._limit // 4, 1)
            data = self._page_of(more)
        with _alone(data):
            page = json.loads(data)
            head = {
                "apiVersion": self._kind.api_version,
                "kind": str(page["kind"]).removesuffix("List"),
            }
            for item in page["items"] or ():
                gone.discard(item["metadata"]["uid"])
                self._pass_on({**head, **item})  # items of built-in kinds have no type
            self.active = time.monotonic()
            return page["metadata"]["resourceVersion"], page["metadata"].get("continue") or ""

    def _page_of(self, more: str) -> bytes | None:
        """Return a page as the API server sent it; None if it is too long."""
        query: Query = {"limit": self._limit, **({"continue": more} if more else {})}
        with self._opened(query, f"{METADATA},{JSON}", _READ) as answer:
            return _read(answer, LONGEST_PAGE if self._limit > 1 else None)

    def _watch(self) -> None:
        """Tell the follower of all changes since the last version, until the watch ends."""
        query: Query = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": self._version,
            "timeoutSeconds": self._watch_seconds(),
        }
        try:
            with self._opened(query, ONE_METADATA, _SILENCE) as answer:
                with self._lock:
                    self._answer = answer
                self._succeeded()
                for line in () if self._interrupted else answer:
                    with _alone(line):
                        self._take(json.loads(line))
                    if self._interrupted:
                        return
            self.confirmed = time.monotonic()
            self._failures = 0
        except _SilenceError:
            self._version = ""
        finally:
            with self._lock:
                self._answer = None

    def _take(self, event: Document) -> None:
        document = event["object"]
        if event["type"] == "ERROR":
            code, message = document.get("code"), document.get("message")
            raise refusal(self._api.host, "GET", self._path, code or 500, str(message))
        version = document["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            self._pass_on(document, deleted=event["type"] == "DELETED")
        self._version, self._failures = version, 0
        self._confirm(time.monotonic())

    def _confirm(self, moment: float) -> None:
        self.confirmed, self.active = moment, time.monotonic()
        self._succeeded()

    def _succeeded(self) -> None:
        if not self._interrupted:
            self._follower.answered()
            self.problem = self.failing_since = None

    @property
    def _path(self) -> str:
        return self._kind.path(self.namespace)

    @contextlib.contextmanager
    def _opened(self, query: Query, metadata: str, read: float) -> Iterator[BaseHTTPResponse]:
        asked = {**self._selectors, **query}
        accept = metadata if self._only_metadata else JSON
        answer = self._api.opened(self._path, query=asked, accept=accept, timeout=(PATIENCE, read))
        with closing(answer), explained(self._api.host, "GET", self._path):
            try:
                yield answer
            except ReadTimeoutError as error:
                raise _SilenceError(str(error)) from error

    def _pass_on(self, document: Document, *, deleted: bool = False) -> None:
        with self._lock:
            if not self._interrupted:
                self._follower.receive(document, deleted=deleted)


class _SilenceError(ApiError):
    """Nothing more came through an open connection."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "unreachable")


def _read(answer: BaseHTTPResponse, most: int | None) -> bytes | None:
    """Return the body of a response; None if it has more than ``most`` bytes."""
    parts: list[bytes] = []
    size = 0
    for part in answer.stream(1 << 16, decode_content=True):
        size += len(part)
        if most is not None and size > most:
            return None
        parts.append(part)
    return b"".join(parts)


def _alone(data: bytes) -> contextlib.AbstractContextManager[object]:
    """Return a context in which only one thread decodes a long document."""
    return _DECODES_LONG if len(data) >= _LONG else contextlib.nullcontext()


def some_minutes() -> int:
    """Return a random duration of a watch in seconds, so that not all watches end at once."""
    return random.randint(*_WATCH_SECONDS)  # noqa: S311 - spreads load, protects nothing
