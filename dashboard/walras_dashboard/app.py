"""Facts: the HTTP server: the JSON API, its events, and the page's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.staticfiles import StaticFiles

from walras_dashboard.access import BoundedBody, SecureHeaders
from walras_dashboard.admission import routes_for, viewer_of
from walras_dashboard.events import begun, stream
from walras_dashboard.figure_history import history_of
from walras_dashboard.job_query import JobQuery
from walras_dashboard.limits import TooManyRequestsError
from walras_dashboard.models import (
    ErrorBody,
    Invalid,
    JobDetail,
    JobPage,
    Overview,
    RecordedFigures,
    UserDetail,
)
from walras_dashboard.node_models import NodeDetail  # noqa: TC001 - FastAPI reads it
from walras_dashboard.viewers import UnauthenticatedError
from walras_dashboard.what_if import InvalidChangesError
from walras_dashboard.what_if_models import WhatIf, WhatIfAnswer  # noqa: TC001 - FastAPI reads it
from walras_service.api_errors import ApiError
from walras_service.failures import BadInput, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel
    from starlette.types import Scope

    from walras_dashboard.viewers import Viewers

VERSION = "v1"
PREFIX = f"/api/{VERSION}"

STATUS = {"forbidden": 403, "unauthorized": 401, "missing": 404, "unreachable": 502, "busy": 503}
"""Status of an answer by the reason for which the API server was of no help; 502 for others."""

FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": description}
    for status, description in {
        401: "The request does not say on whose behalf it is made.",
        403: "The viewer may see nothing of this.",
        404: "There is no such object.",
        502: "The API server cannot be asked.",
    }.items()
}
UNPROCESSABLE: dict[int | str, dict[str, Any]] = {
    422: {"model": Invalid, "description": "The request is invalid."}
}

Name = Annotated[str, Query(max_length=600)]


def make_app(viewers: Viewers, gates: Sequence[Middleware] = (), logs: str = "") -> FastAPI:
    """Make the server.

    Args:
        viewers: Viewers who may ask, with what each may see.
        gates: Middleware that admits requests.
        logs: Template of the addresses of pods' logs (`log_links.checked`); empty for none.
    """
    app = FastAPI(
        title="Walras dashboard",
        version=VERSION,
        description="What `walras top`, `walras explain` and `walras what-if` print, as JSON. "
        "Nothing is ever written to the cluster.",
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        middleware=[
            Middleware(SecureHeaders),
            *gates,
            Middleware(BoundedBody),
            Middleware(GZipMiddleware, minimum_size=2048, compresslevel=3),
        ],
    )
    app.router.route_class = routes_for(viewers)
    _explain_failures(app)
    _add_views(app)
    _add_objects(app, logs)
    _add_questions(app, viewers)

    app.router.add_route("/healthz", _healthz, include_in_schema=False)
    app.mount("/", _Page(directory=PAGE, html=True, check_dir=False))
    return app


async def _healthz(_: Request) -> Response:
    """Answer a probe, without a thread: all may be busy."""
    return Response("ok\n", media_type="text/plain")


def _json(answer: BaseModel) -> Response:
    """Return an answer; FastAPI would validate once more what is a valid model already."""
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")


def _add_views(app: FastAPI) -> None:
    """Add what is computed from a state alone."""

    @app.get(f"{PREFIX}/overview", responses=FAILURES)
    def overview(request: Request) -> Overview:
        """Return the whole cluster except its jobs."""
        return Response(viewer_of(request).views().overview_json, media_type="application/json")  # type: ignore[return-value]

    @app.get(f"{PREFIX}/jobs", responses={**FAILURES, **UNPROCESSABLE})
    def jobs(
        request: Request,
        user: Name = "",
        node: Name = "",
        q: Name = "",
        sort: Annotated[str, Query(max_length=50)] = "",
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> JobPage:
        """Return some jobs, filtered and sorted by a field, descending after a minus sign."""
        query = JobQuery(user, node, q, sort, offset, limit)
        if not query.is_sortable:
            raise InvalidChangesError([(("query", "sort"), f"no field of a job is called {sort}")])
        return _json(viewer_of(request).views().jobs(query))  # type: ignore[return-value]


def _add_objects(app: FastAPI, logs: str) -> None:
    """Add everything about one object."""

    @app.get(f"{PREFIX}/jobs/{{namespace}}/{{name}}", responses={**FAILURES, **UNPROCESSABLE})
    def job(request: Request, namespace: str, name: str) -> JobDetail:
        """Return everything about a job."""
        views = viewer_of(request).views()
        detail = views.job(namespace, name, logs)
        if detail is None:
            raise views.absent("job", f"{namespace}/{name}")
        return _json(detail)  # type: ignore[return-value]

    @app.get(f"{PREFIX}/users/{{name}}", responses={**FAILURES, **UNPROCESSABLE})
    def user(request: Request, name: str) -> UserDetail:
        """Return everything about an Entitlement."""
        views = viewer_of(request).views()
        detail = views.user(name)
        if detail is None:
            raise views.absent("user", name)
        return _json(detail)  # type: ignore[return-value]

    @app.get(f"{PREFIX}/nodes/{{name}}", responses={**FAILURES, **UNPROCESSABLE})
    def node(request: Request, name: str) -> NodeDetail:
        """Return everything about a node."""
        viewer = viewer_of(request)
        views = viewer.views()
        detail = None
        if views.has_node(name):
            detail = views.node(name, viewer.source.pods_on(name))
        if detail is None:
            raise views.absent("node", name)
        return _json(detail)  # type: ignore[return-value]


def _add_questions(app: FastAPI, viewers: Viewers) -> None:
    """Add what takes more than a state."""

    @app.get(f"{PREFIX}/history", responses={**FAILURES, **UNPROCESSABLE})
    def history(
        request: Request,
        kind: Literal["user", "job", "node", "cluster"],
        name: Name = "",
        namespace: Name = "",
        since: Annotated[int, Query(ge=60, le=86_400)] = 3600,
        step: Annotated[int, Query(ge=1, le=86_400)] = 60,
    ) -> RecordedFigures:
        """Return how something changed in the last seconds."""
        asked = f"{namespace}/{name}" if kind == "job" else name
        return _json(history_of(viewer_of(request), kind, asked, since, step))  # type: ignore[return-value]

    @app.post(f"{PREFIX}/what-if", responses={**FAILURES, **UNPROCESSABLE})
    def what_if(request: Request, changes: WhatIf) -> WhatIfAnswer:
        """Return the division of cores with changes, beside today's; nothing is written."""
        return _json(viewer_of(request).try_out(changes))  # type: ignore[return-value]

    @app.get(
        f"{PREFIX}/events",
        responses={
            **FAILURES,
            200: {
                "description": "Server-sent events: `change` with a revision, `lost` with a "
                "reason, `restored`; a comment every 15 seconds.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
        },
        response_class=StreamingResponse,
    )
    async def events(request: Request) -> StreamingResponse:
        """Return events from now on."""
        viewer = viewer_of(request)
        return StreamingResponse(
            await begun(stream(viewer, lambda: viewers.is_current(viewer, request))),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )


def _explain_failures(app: FastAPI) -> None:
    """Answer what fails by a sentence, without a thread: all may be busy."""

    @app.exception_handler(ApiError)
    async def of_cluster(_: Request, error: ApiError) -> JSONResponse:
        status = STATUS.get(error.reason, 502)
        return _problem(status, str(error))

    @app.exception_handler(Failure)
    async def of_command(_: Request, error: Failure) -> JSONResponse:
        return _problem(404 if isinstance(error, BadInput) else 403, error.format_message())

    @app.exception_handler(UnauthenticatedError)
    async def of_viewer(_: Request, error: UnauthenticatedError) -> JSONResponse:
        return _problem(401, str(error))

    @app.exception_handler(TooManyRequestsError)
    async def of_many(_: Request, error: TooManyRequestsError) -> JSONResponse:
        return _problem(429, str(error))

    @app.exception_handler(InvalidChangesError)
    async def of_changes(_: Request, error: InvalidChangesError) -> JSONResponse:
        detail = [{"loc": list(place), "msg": text} for place, text in error.problems]
        return JSONResponse({"detail": detail}, 422)

    @app.exception_handler(RequestValidationError)
    async def of_request(_: Request, error: RequestValidationError) -> JSONResponse:
        detail = [{"loc": list(each["loc"]), "msg": str(each["msg"])} for each in error.errors()]
        return JSONResponse({"detail": detail}, 422)

    @app.exception_handler(HTTPException)
    async def of_http(_: Request, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, str(error.detail))


_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    429: {"retry-after": "1"},
    503: {"retry-after": "1"},
}


def _problem(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status, _HEADERS.get(status))


PAGE = Path(__file__).with_name("static")
"""Files of the page, built from ``dashboard/web``."""


class _Page(StaticFiles):
    """The page's files: those whose name has a hash never change, and the others may any time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        lasting = path.startswith("assets/")
        answer.headers["cache-control"] = (
            "public, max-age=31536000, immutable" if lasting else "no-cache"
        )
        return answer
