"""Facts: whoever asks the server, and what each of them may see."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from walras_dashboard.limits import RequestLimit
from walras_dashboard.session import Session
from walras_dashboard.views import Views
from walras_dashboard.what_if import Tries

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from walras.outcome.history import History
    from walras_dashboard.sources import Source
    from walras_dashboard.what_if_models import WhatIf, WhatIfAnswer

    Record = Callable[[int, int], History]


class UnauthenticatedError(Exception):
    """A request does not say on whose behalf it is made, or not so that it can be believed."""


class Viewer:
    """Someone with a browser.

    Args:
        source: Source of what the viewer may see.
        record: Returns what somebody else has recorded, for the last seconds at a step; None if
            nobody records anything.
        limit: Limit of requests, which viewers of one token or user share.

    Attributes:
        source: Source of what the viewer may see.
        limit: Limit of requests at a time.
        session: Figures that the viewer could have seen since the server began.
    """

    def __init__(
        self, source: Source, record: Record | None = None, limit: RequestLimit | None = None
    ) -> None:
        self.source = source
        self.limit = limit or RequestLimit()
        self.session = Session()
        self._record, self._recording = record, threading.Lock()
        self._tries = Tries()
        self._views: Views | None = None
        self._lock = threading.Lock()

    def views(self) -> Views:
        """Return the answers for what may be seen now.

        Raises:
            Failure: Nothing may be seen.
            ApiError: The cluster cannot be asked.
        """
        state = self.source.state()
        with self._lock:
            if self._views is None or self._views.state is not state:
                self._views = Views(state, self._views)
            return self._views

    def recorded(self, since: int, step: int) -> History | None:
        """Return what was recorded of the last seconds; None if nobody records anything.

        Raises:
            Failure: The record cannot be read.
            ApiError: The cluster cannot be asked.
        """
        if self._record is None:
            return None
        with self._recording:
            return self._record(since, step)

    def try_out(self, changes: WhatIf) -> WhatIfAnswer:
        """Clear the market with changes.

        Raises:
            InvalidChangesError: The changes cannot be tried.
            Failure: The viewer may not see all that the market depends on.
            ApiError: The cluster cannot be asked.
        """
        return self._tries.answer(self.source.world(), changes)


class Viewers(Protocol):
    """All who may ask."""

    def known(self, request: Request) -> Viewer | None:
        """Return who asks, if that is known without asking the API server; else None.

        Raises:
            UnauthenticatedError: The request does not say who asks.
        """

    def viewer(self, request: Request) -> Viewer:
        """Return who asks.

        Raises:
            UnauthenticatedError: The request does not say who asks.
        """

    def is_current(self, viewer: Viewer, request: Request) -> bool:
        """Say whether whoever made a request is still the viewer, and may see more."""


class OneViewer:
    """The user of a local server, whose rights are those of its kubeconfig.

    Args:
        source: Source of what the user may see.
        record: Returns what was recorded; see `Viewer`.
    """

    def __init__(self, source: Source, record: Record | None = None) -> None:
        self._viewer = Viewer(source, record)

    def known(self, request: Request) -> Viewer:  # noqa: ARG002 - the gate let the request in
        """Return the one who asks."""
        return self._viewer

    viewer = known

    def is_current(self, viewer: Viewer, request: Request) -> bool:  # noqa: ARG002 - there is one
        """Say that the viewer is the one who asks."""
        return viewer is self._viewer
