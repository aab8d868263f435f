"""Facts: how many requests of one viewer are worked on at a time.

They are worked on by threads, of which there are 40 for everybody.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

AT_ONCE = 4
"""Requests of one viewer that are worked on at a time."""

MOST_WAITING = 12
"""Requests of one viewer that wait for others: a slider that is moved asks before it is answered,
and so do several tabs."""


MOST_STREAMS = 16
"""Streams of events that one viewer has open: each tab has one."""


class TooManyRequestsError(Exception):
    """A viewer has asked more at a time than is worked on or may wait."""


class RequestLimit:
    """Requests of one viewer that are worked on; those that wait for them take no thread."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._streams = 0

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Keep a stream of events open.

        Raises:
            TooManyRequestsError: Too many are open already.
        """
        if self._streams >= MOST_STREAMS:
            raise TooManyRequestsError(
                f"{MOST_STREAMS} pages of yours are open already; close one, and try again"
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Work on a request when others leave room for it.

        Raises:
            TooManyRequestsError: Too many wait already.
        """
        if self._waiting >= MOST_WAITING:
            raise TooManyRequestsError(
                f"{AT_ONCE} of your requests are worked on and {MOST_WAITING} wait; try again when "
                f"some are answered"
            )
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()
