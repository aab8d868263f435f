"""Facts: what happens, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from walras_service.api_errors import ApiError
from walras_service.failures import Failure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from walras_dashboard.viewers import Viewer

PAUSE = 0.25
"""Least seconds between two changes."""

PING = 15.0
"""Seconds after which a comment says that the connection lives, if the viewer may still see it."""


async def stream(viewer: Viewer, is_current: Callable[[], bool]) -> AsyncGenerator[str]:
    """Yield events from now on: a change at once, and then each as it comes.

    Args:
        viewer: Viewer who listens.
        is_current: Says, in a thread, whether the viewer may receive more; if not, the events end.
    """
    loop, news = asyncio.get_running_loop(), _News()
    with viewer.limit.stream():
        stop = viewer.source.listen(lambda lost: _pass_on(loop, news, lost))
        try:
            yield ": connected\n\n"
            async for event in _events(viewer, news, is_current):
                yield event
        finally:
            stop()


async def begun(events: AsyncGenerator[str]) -> AsyncIterator[str]:
    """Return events whose first one has come, so that what keeps them from coming is raised here.

    Raises:
        TooManyRequestsError: The viewer has too many streams.
    """
    first = await anext(events)

    async def all_of_them() -> AsyncIterator[str]:
        async with aclosing(events):
            yield first
            async for each in events:
                yield each

    return all_of_them()


class _News:
    """News since the last look; many changes are one."""

    def __init__(self) -> None:
        self.lost = ""
        self.happened = asyncio.Event()

    def receive(self, lost: str) -> None:
        self.lost = lost
        self.happened.set()


def _pass_on(loop: asyncio.AbstractEventLoop, news: _News, lost: str) -> None:
    """Pass on news from another thread; the loop may have ended meanwhile."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(news.receive, lost)


async def _events(
    viewer: Viewer, news: _News, is_current: Callable[[], bool]
) -> AsyncIterator[str]:
    lost, revision = "", 0
    news.happened.set()
    ping = time.monotonic() + PING
    while True:
        try:
            await asyncio.wait_for(news.happened.wait(), ping - time.monotonic())
        except TimeoutError:
            if not await asyncio.to_thread(is_current):
                return
            yield ": ping\n\n"
            ping = time.monotonic() + PING
            continue
        news.happened.clear()
        began = time.monotonic()
        if news.lost != lost:
            lost = news.lost
            yield _event("lost", {"reason": lost}) if lost else _event("restored", {})
        latest = await asyncio.to_thread(_revision, viewer)
        if latest not in {None, revision}:
            revision = latest or 0
            yield _event("change", {"revision": revision})
        await asyncio.sleep(max(0.0, PAUSE - (time.monotonic() - began)))


def _revision(viewer: Viewer) -> int | None:
    """Return the number of the state that is seen now; None where nothing is."""
    try:
        return viewer.source.state().revision
    except (ApiError, Failure):
        return None


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
