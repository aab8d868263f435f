"""Facts: the objects of one kind, as far as a viewer may see them, for as long as someone looks.

Rights may change meanwhile, so whatever is refused is tried again (`reflector`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from walras_api.contract import GROUP
from walras_service.reflector import Reflector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_service.api import Api, Document
    from walras_service.api_errors import ApiError
    from walras_service.kinds import Kind

LONGEST_PAUSE = 10.0
"""Longest wait in seconds before a request that failed is repeated: someone is looking."""


class FeedListener(Protocol):
    """Whoever is told of the objects; each method may be called by several threads at once."""

    def replace(self, name: str, documents: Sequence[Document], namespace: str) -> None:
        """Take all objects of a kind."""

    def change(self, name: str, document: Document, *, deleted: bool) -> None:
        """Take an object that was added, modified or deleted."""

    def refuse(self, name: str, right: str, *, nothing: bool) -> None:
        """Take note of a right that is missing, and whether nothing can be seen without it."""

    def report(self, name: str, problem: ApiError | None) -> None:
        """Take note that the API server cannot be asked, or can again."""


class Feed:
    """Tells a listener of one kind (`reflector.Follower`).

    Args:
        api: Connections to the API server.
        name: Name of the feed.
        kind: Kind to follow.
        namespaces: Namespaces to try in turn, until one may be listed; empty for all of them.
        listener: Whoever is told.
        selectors: Selectors of lists and watches.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        kind: Kind,
        namespaces: Sequence[str],
        listener: FeedListener,
        selectors: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._kind, self._wanted, self._listener = kind, namespaces[0], listener
        self._listing: list[Document] | None = None
        self._refused = False
        self._reflector = Reflector(
            api,
            f"feed-{name}",
            kind,
            self,
            namespaces=namespaces,
            selectors=selectors,
            longest=LONGEST_PAUSE,
        )

    def start(self) -> None:
        """Start to follow the kind."""
        self._reflector.start()

    def stop(self) -> None:
        """Stop; nobody is told of anything more."""
        self._reflector.stop()

    def known(self) -> set[str]:
        """Begin a list; what it has replaces everything."""
        self._listing = []
        return set()

    def receive(self, document: Document, *, deleted: bool) -> None:
        """Tell of a change, or collect what is listed."""
        if self._listing is not None:
            self._listing.append(document)
        else:
            self._listener.change(self.name, document, deleted=deleted)

    def listed(self, gone: set[str]) -> None:  # noqa: ARG002 - all is replaced
        """Tell of all objects, and of those that may not be listed."""
        namespace = self._reflector.namespace
        self._listener.replace(self.name, self._listing or (), namespace)
        self._listing, self._refused = None, False
        if namespace != self._wanted:
            self._listener.refuse(self.name, self._right(), nothing=False)

    def answered(self) -> None:
        """Tell that the API server answers."""
        self._listener.report(self.name, None)

    def failed(self, error: ApiError) -> None:
        """Tell of a problem, or of a missing right."""
        unlisted, self._listing = self._listing is not None, None
        if error.reason == "forbidden" and not unlisted:
            return  # only the watch: the next list tells of it
        if error.reason == "forbidden" or (error.reason == "missing" and self._kind.group != GROUP):
            if not self._refused:  # what was found otherwise stays
                self._refused = True
                self._listener.replace(self.name, (), "")
                self._listener.refuse(self.name, self._right(), nothing=True)
            self._listener.report(self.name, None)
        else:
            self._listener.report(self.name, error)

    def _right(self) -> str:
        where = f" in namespace {self._wanted}" if self._wanted else ""
        return f"list {self._kind.resource}{where}"
