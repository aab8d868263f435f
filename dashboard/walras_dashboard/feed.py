"""Facts: the objects of one kind, followed by list and watch for as long as someone looks.

A watch goes on where the last one ended. When the API server no longer knows that version (410), or
refuses the watch for another reason, the objects are listed anew. When it cannot be reached, this
waits longer each time. Rights may change meanwhile, so whatever is refused is tried again.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING, Protocol

from walras_api.contract import GROUP
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_cli.cluster.connection import Cluster, Document
    from walras_service.kinds import Kind

_log = logging.getLogger(__name__)

WATCH_SECONDS = (240, 360)
"""Length of a watch; when it ends, the API server looks at the viewer's rights again."""

REFUSED_SECONDS = 30.0
"""Time after which what was refused is tried again."""

RELIST_SECONDS = 5.0
"""Time after which objects that may be listed but not watched are listed again."""


FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
"""Seconds before the first repetition of a request that failed, and longest wait before others."""

ROUND = 0.5
"""Least seconds between two watches."""


class FeedListener(Protocol):
    """Whoever is told of the objects; each method may be called by several threads at once."""

    def replace(self, name: str, documents: Sequence[Document], namespace: str) -> None:
        """Take all objects of a kind."""

    def change(self, name: str, event: str, document: Document) -> None:
        """Take an object that was ADDED, MODIFIED or DELETED."""

    def refuse(self, name: str, right: str, *, nothing: bool) -> None:
        """Take note of a right that is missing, and whether nothing can be seen without it."""

    def report(self, name: str, problem: ApiError | None) -> None:
        """Take note that the API server cannot be asked, or can again."""


class Feed:
    """Follows one kind in a thread of its own.

    Args:
        cluster: Connection to the cluster.
        name: Name of the feed.
        kind: Kind to follow.
        namespaces: Namespaces to try in turn, until one may be listed; empty for all of them.
        listener: Whoever is told.
        selectors: Selectors of lists and watches.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        kind: Kind,
        namespaces: Sequence[str],
        listener: FeedListener,
        selectors: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._cluster, self._kind, self._namespaces = cluster, kind, namespaces
        self._listener, self._selectors = listener, dict(selectors or {})
        self._stopping = threading.Event()
        self._pause = FIRST_PAUSE
        self._thread = threading.Thread(target=self._run, name=f"feed-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end with its present watch; nobody is told of anything more."""
        self._stopping.set()

    def _run(self) -> None:
        version, namespace = "", ""
        while not self._stopping.is_set():
            pause = ROUND
            try:
                if not version:
                    namespace, version = self._list() or ("", "")
                if version:
                    version = self._watch(namespace, version)
                else:
                    pause = REFUSED_SECONDS
            except ApiError as error:
                version, pause = self._failed(error, version)
            except Exception as error:  # noqa: BLE001 - the thread must go on
                _log.exception("following %s failed", self.name)
                version, pause = self._failed(ApiError(repr(error), "error"), "")
            self._stopping.wait(pause)

    def _list(self) -> tuple[str, str] | None:
        """List all objects; return their namespace and version, or None if one may not."""
        refused = ""
        for namespace in self._namespaces:
            try:
                found, version = self._cluster.listed(self._kind, namespace, **self._selectors)
            except ApiError as error:
                if error.reason not in {"forbidden", "missing"}:
                    raise
                where = f" in namespace {namespace}" if namespace else ""
                refused = refused or f"list {self._kind.resource}{where}"
                missing = error.reason == "missing"
                if missing and self._kind.group == GROUP:
                    raise
                continue
            self._listener.replace(self.name, found, namespace)
            if refused:
                self._listener.refuse(self.name, refused, nothing=False)
            self._well()
            return namespace, version
        self._listener.replace(self.name, (), "")
        self._listener.refuse(self.name, refused, nothing=True)
        self._well()
        return None

    def _watch(self, namespace: str, version: str) -> str:
        """Follow the objects until the watch ends; return the version to go on from."""
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311 - spreads load, protects nothing
        watch = self._cluster.watch(self._kind, namespace, version, seconds, **self._selectors)
        self._well()
        for event, document in watch:
            if self._stopping.is_set():
                break
            version = str(document["metadata"].get("resourceVersion", version))
            if event != "BOOKMARK":
                self._listener.change(self.name, event, document)
        return version

    def _well(self) -> None:
        self._pause = FIRST_PAUSE
        self._listener.report(self.name, None)

    def _failed(self, error: ApiError, version: str) -> tuple[str, float]:
        """Report an error; return the version to go on from, and how long to wait."""
        if error.reason == "expired":
            return "", 0.0
        if error.reason == "forbidden":  # of the watch: the list was allowed, or tells of it
            return "", RELIST_SECONDS
        self._listener.report(self.name, error)
        kept = version if error.reason == "unreachable" else ""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return kept, max(pause, error.retry_after)
