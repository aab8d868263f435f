"""Facts: which requests to the API are answered: those of known viewers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

    from walras_dashboard.viewers import Viewer, Viewers


def routes_for(viewers: Viewers) -> type[APIRoute]:
    """Return the class of routes that learn who asks before they read or check a request."""

    class ViewerRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer = super().get_route_handler()

            async def answer_viewer(request: Request) -> Response:
                request.state.viewer = await run_in_threadpool(viewers.viewer, request)
                return await answer(request)

            return answer_viewer

    return ViewerRoute


def viewer_of(request: Request) -> Viewer:
    """Return who made a request to a route of `routes_for`."""
    viewer: Viewer = request.state.viewer
    return viewer
