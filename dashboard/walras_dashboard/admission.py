"""Facts: which requests to the API are answered: those of known viewers, a few at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

    from walras_dashboard.viewers import Viewer, Viewers


CHECKS = 8
"""Viewers that the API server is asked about at a time, by threads that do nothing else."""


def routes_for(viewers: Viewers) -> type[APIRoute]:
    """Return the class of routes that learn who asks before they read or check a request."""
    checks = ThreadPoolExecutor(CHECKS, "viewers")

    class ViewerRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer = super().get_route_handler()

            async def answer_viewer(request: Request) -> Response:
                viewer = viewers.known(request)
                if viewer is None:  # whoever is known already waits for nobody who is not
                    loop = asyncio.get_running_loop()
                    viewer = await loop.run_in_executor(checks, viewers.viewer, request)
                request.state.viewer = viewer
                async with viewer.limit.place():
                    return await answer(request)

            return answer_viewer

    return ViewerRoute


def viewer_of(request: Request) -> Viewer:
    """Return who made a request to a route of `routes_for`."""
    viewer: Viewer = request.state.viewer
    return viewer
