"""Facts: which requests to the API are answered: those of known viewers, a few at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

    from walras_dashboard.viewers import Viewer, Viewers


CHECKS = 8
"""Viewers that the API server is asked about at a time, by threads that do nothing else."""

MOST_WAITING = 64
"""Requests that wait for these checks: even without a token, anybody can ask again and again."""


class Checks:
    """Learns who makes requests that are not known yet; few wait for it, and the rest is refused.

    Args:
        viewers: Viewers who may ask.
    """

    def __init__(self, viewers: Viewers) -> None:
        self._viewers = viewers
        self._threads = ThreadPoolExecutor(CHECKS, "viewers")
        self._unanswered = 0

    async def viewer(self, request: Request) -> Viewer:
        """Return who asks.

        Raises:
            HTTPException: Too many requests wait already (503).
            UnauthenticatedError: The request does not say who asks.
            ApiError: The API server does not know the viewer, or there are too many viewers.
        """
        if self._unanswered >= CHECKS + MOST_WAITING:
            raise HTTPException(
                503, "too many viewers are being authenticated; try again in a second"
            )
        self._unanswered += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._viewers.viewer, request)
        finally:
            self._unanswered -= 1


def routes_for(viewers: Viewers) -> type[APIRoute]:
    """Return the class of routes that learn who asks before they read or check a request."""
    checks = Checks(viewers)

    class ViewerRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer = super().get_route_handler()

            async def answer_viewer(request: Request) -> Response:
                viewer = viewers.known(request)
                if viewer is None:  # whoever is known already waits for nobody who is not
                    viewer = await checks.viewer(request)
                request.state.viewer = viewer
                async with viewer.limit.place():
                    return await answer(request)

            return answer_viewer

    return ViewerRoute


def viewer_of(request: Request) -> Viewer:
    """Return who made a request to a route of `routes_for`."""
    viewer: Viewer = request.state.viewer
    return viewer
