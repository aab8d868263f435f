"""Facts: follow the objects of one kind by list and watch, and keep the mirror up to date.

A list replaces what the mirror has of the kind, and a watch goes on from its resourceVersion. A
watch that ends is continued from the last version that it reported. If the API server no longer
has that version (410 Gone), the objects are listed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

from urllib3.exceptions import ReadTimeoutError

from walras_operator.interpreter import collector
from walras_service.api import JSON, METADATA, ONE_METADATA, PATIENCE
from walras_service.api_errors import ApiError, explained, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from urllib3 import BaseHTTPResponse

    from walras_operator.watch.kinds import Watched
    from walras_operator.watch.mirror import Mirror
    from walras_service.api import Api, Document, Query

_PAGE = 100
"""Objects per page of a list; no other thread runs while a page is decoded."""

_WATCH_SECONDS = (240, 480)  # a random duration, so that the watches do not all end at once
_SILENCE = 90.0  # seconds; the API server sends a bookmark every minute
_ROUND = 1.0
"""Least seconds between the beginnings of two watches."""

_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before repetitions of a failed request; after the last one, it is raised."""


class Reflector:
    """Follows one kind in a thread of its own.

    A failed request is repeated a few times, so that a short outage loses no watch.

    Args:
        api: Connections to the API server.
        watched: Kind to follow.
        mirror: Cache to update.

    Attributes:
        listed: Whether the mirror has all objects of the kind.
    """

    def __init__(self, api: Api, watched: Watched, mirror: Mirror) -> None:
        self.listed = False
        self._api, self._watched, self._mirror = api, watched, mirror
        self._path = watched.kind.path()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._answer: BaseHTTPResponse | None = None
        self._version = ""
        self._failures = 0

    async def follow(self) -> None:
        """Follow the kind until cancelled; the mirror hears nothing more from then on.

        Raises:
            ApiError: The kind cannot be listed or watched, though it was tried again.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def run() -> None:
            try:
                self._run()
            except Exception as error:  # noqa: BLE001 - whoever awaits is told
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(_fail, ended, error)

        threading.Thread(target=run, name=f"reflect-{self._watched.name}", daemon=True).start()
        try:
            await ended
        finally:
            self._stop()

    def _stop(self) -> None:
        with self._lock:
            self._stopping.set()
            if self._answer is not None:
                with contextlib.suppress(RuntimeError, ValueError, OSError):  # it has ended
                    self._answer.shutdown()

    def _run(self) -> None:
        while not self._stopping.is_set():
            again = time.monotonic() + _ROUND
            try:
                if not self._version:
                    self._list()
                self._watch()
                self._failures = 0
            except ApiError as error:
                if error.reason == "expired":
                    self._version = ""
                elif not error.transient or self._failures == len(_PAUSES):
                    raise
                else:
                    again = time.monotonic() + max(_PAUSES[self._failures], error.retry_after)
                    self._failures += 1
            self._stopping.wait(max(0.0, again - time.monotonic()))

    def _list(self) -> None:
        """Let the mirror have all objects, and no others."""
        version, gone = "", set(self._mirror.versions(self._watched.name))
        more: str | None = ""
        while more is not None and not self._stopping.is_set():
            with collector.paused():  # a page consists of many objects, and soon none is left
                version, more = self._page(more, gone)
        with self._lock:
            if not self._stopping.is_set():
                self._mirror.forget(self._watched.name, gone)
                self._version, self.listed = version, True

    def _page(self, more: str, gone: set[str]) -> tuple[str, str | None]:
        """Let the mirror have a page of a list, and remove its objects from ``gone``.

        Returns:
            The resourceVersion of the list, and the token of its next page, if there is one.
        """
        query: Query = {"limit": _PAGE, "continue": more}
        with self._opened(query, f"{METADATA},{JSON}", 6 * PATIENCE) as answer:
            page = json.loads(answer.data)
            for item in page["items"] or ():
                gone.discard(item["metadata"]["uid"])
                self._hear(item)
            return page["metadata"]["resourceVersion"], page["metadata"].get("continue") or None

    def _watch(self) -> None:
        """Let the mirror have all changes since the last version, until the watch ends."""
        query: Query = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": self._version,
            "timeoutSeconds": random.randint(*_WATCH_SECONDS),  # noqa: S311 - no secret
        }
        with (
            self._opened(query, ONE_METADATA, (PATIENCE, _SILENCE)) as answer,
            contextlib.suppress(ReadTimeoutError),
        ):
            with self._lock:
                self._answer = answer
            for line in () if self._stopping.is_set() else answer:
                event = json.loads(line)
                document = event["object"]
                if event["type"] == "ERROR":
                    code, message = document.get("code"), document.get("message")
                    raise refusal(self._api.host, "GET", self._path, code or 500, str(message))
                if event["type"] != "BOOKMARK":
                    self._hear(document, deleted=event["type"] == "DELETED")
                self._version, self._failures = document["metadata"]["resourceVersion"], 0

    @contextlib.contextmanager
    def _opened(
        self, query: Query, metadata: str, timeout: float | tuple[float, float]
    ) -> Iterator[BaseHTTPResponse]:
        asked = {**self._watched.selectors, **query}
        accept = metadata if self._watched.only_metadata else JSON
        answer = self._api.opened(self._path, query=asked, accept=accept, timeout=timeout)
        with closing(answer), explained(self._api.host, "GET", self._path):
            yield answer

    def _hear(self, document: Document, *, deleted: bool = False) -> None:
        # Items of lists have no type, and metadata has another one.
        document.update(kind=self._watched.name, apiVersion=self._watched.kind.api_version)
        with self._lock:
            if not self._stopping.is_set():
                self._mirror.hear(self._watched.name, document, deleted=deleted)


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
