"""Facts: the time by the API server's clock, which all operators share."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCE = 2.0
"""Seconds by which an answer may differ, since it names a whole second and takes time."""


class ServerClock:
    """A clock that goes on evenly from what the API server has said, and follows its changes.

    The machine's own clock counts only until the first answer, and no jump of it ever does. The
    leader's credits, runs and deadlines depend on the time, and a successor goes on from them.

    Args:
        server_time: Returns the API server's time, in seconds since 1970; None before it answers.
        monotonic: Returns seconds.
        own: Returns the time by the machine's own clock, in seconds since 1970.
    """

    def __init__(
        self,
        server_time: Callable[[], float | None],
        monotonic: Callable[[], float] = time.monotonic,
        own: Callable[[], float] = time.time,
    ) -> None:
        self._server_time, self._monotonic = server_time, monotonic
        self._start = own() - monotonic()  # the time at the zero of the monotonic clock

    def now(self) -> datetime:
        """Return the current time (UTC)."""
        moment, given = self._monotonic(), self._server_time()
        if given is not None and abs(given - (self._start + moment)) > TOLERANCE:
            self._start = given - moment
        return datetime.fromtimestamp(self._start + moment, UTC)
