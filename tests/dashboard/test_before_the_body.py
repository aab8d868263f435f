"""One viewer's slow requests leave threads to the others, and to probes."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import httpx

from walras_dashboard import admission
from walras_dashboard.app import PREFIX, make_app
from walras_dashboard.limits import AT_ONCE, MOST_WAITING
from walras_dashboard.viewers import UnauthenticatedError, Viewer
from walras_service.failures import Failure

if TYPE_CHECKING:
    from starlette.requests import Request

    from walras_operator.decide.world import World

MANY = 60
"""More requests than the server has threads."""

PATIENCE = 20.0


class _Slow:
    """A source whose objects for a what-if come only when the test says so."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Semaphore(0), threading.Event()

    def world(self) -> World:
        self.asked.release()
        self.go.wait()
        raise Failure("you have no right to list nodes")

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


class _Named:
    """Viewers who are named by their tokens."""

    def __init__(self, **sources: _Slow) -> None:
        self._viewers = {name: Viewer(source) for name, source in sources.items()}

    def viewer(self, request: Request) -> Viewer:
        return self._viewers[request.headers["authorization"]]

    known = viewer

    def is_current(self, viewer: Viewer, request: Request) -> bool:
        return viewer is self.viewer(request)


async def _asked_by(client: httpx.AsyncClient, name: str) -> httpx.Response:
    return await client.post(f"{PREFIX}/what-if", json={}, headers={"authorization": name})


async def _beside_slow_requests(client: httpx.AsyncClient, slow: _Slow) -> None:
    asked = [asyncio.create_task(_asked_by(client, "slow")) for _ in range(MANY)]
    for _ in range(AT_ONCE):
        assert await asyncio.to_thread(slow.asked.acquire, timeout=PATIENCE)
    healthy = await asyncio.wait_for(client.get("/healthz"), PATIENCE)
    assert healthy.text == "ok\n"
    other = await asyncio.wait_for(_asked_by(client, "quick"), PATIENCE)
    assert other.status_code == 403
    ended = asyncio.as_completed(asked, timeout=PATIENCE)
    for _ in range(MANY - AT_ONCE - MOST_WAITING):
        refused = await next(ended)
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert "requests are worked on" in refused.json()["error"]
    slow.go.set()
    assert {(await each).status_code for each in ended} == {403}
    assert (await _asked_by(client, "slow")).status_code == 403


def test_probes_and_others_are_answered_while_a_viewer_waits() -> None:
    slow, quick = _Slow(), _Slow()
    quick.go.set()
    transport = httpx.ASGITransport(app=make_app(_Named(slow=slow, quick=quick)))

    async def asking() -> None:
        async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
            try:
                await _beside_slow_requests(client, slow)
            finally:
                slow.go.set()

    asyncio.run(asking())


class _OneKnown:
    """Viewers of whom one is known; to learn that nobody knows the others takes long."""

    def __init__(self, source: _Slow) -> None:
        self._known = Viewer(source)
        self.go, self.asked = threading.Event(), list[str]()

    def known(self, request: Request) -> Viewer | None:
        return self._known if request.headers["authorization"] == "known" else None

    def viewer(self, request: Request) -> Viewer:
        assert self.go.wait(PATIENCE)
        self.asked.append(request.headers["authorization"])
        raise UnauthenticatedError("nobody knows this token")

    def is_current(self, viewer: Viewer, request: Request) -> bool:
        return viewer is self.known(request)


async def _beside_unknown_tokens(client: httpx.AsyncClient, viewers: _OneKnown) -> None:
    room, beyond = admission.CHECKS + admission.MOST_WAITING, 10
    asked = [asyncio.create_task(_asked_by(client, f"new-{n}")) for n in range(room + beyond)]
    ended = asyncio.as_completed(asked, timeout=PATIENCE)
    for _ in range(beyond):
        refused = await next(ended)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert "too many viewers are being authenticated" in refused.json()["error"]
    assert (await asyncio.wait_for(_asked_by(client, "known"), PATIENCE)).status_code == 403
    viewers.go.set()
    assert {(await each).status_code for each in ended} == {401}
    assert len(viewers.asked) == room
    assert (await _asked_by(client, "later")).status_code == 401


def test_unknown_tokens_wait_in_a_line_that_has_an_end() -> None:
    known = _Slow()
    known.go.set()
    viewers = _OneKnown(known)
    transport = httpx.ASGITransport(app=make_app(viewers))

    async def asking() -> None:
        async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
            try:
                await _beside_unknown_tokens(client, viewers)
            finally:
                viewers.go.set()

    asyncio.run(asking())
