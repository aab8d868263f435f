"""Facts: who may ask the server, and what browsers may do with its answers.

A local server listens on this machine only, where other users and other pages in the same browser
could reach it. So each request needs a token that only this command's URL has, and names this
server as its host (a page of another origin that resolves to 127.0.0.1 does not). Browsers send
cookies to all ports of a host, where another user may listen, but only below the cookie's path: so
the page is at a path that nobody else knows.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

API = "/api/"

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

RANDOM_BYTES = 32

PAGE = re.compile(r"/[A-Za-z0-9_-]{43}(?=/)")
"""Path of the page of this server or an earlier one: `RANDOM_BYTES` in URL-safe base64."""

LARGEST_BODY = 2**20
"""Bytes of the largest body that is read."""


class SecureHeaders:
    """Adds the security headers to all answers; answers of the API are never cached."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith(API) or "cache-control" not in headers:
                    headers["cache-control"] = "no-store"
            await send(message)

        await self._app(scope, receive, send_with_headers)


class BoundedBody:
    """Refuses bodies that are larger than any valid one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            await _refused(413, f"the body is larger than {LARGEST_BODY} bytes")(
                scope, receive, send
            )
            return
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body") or b"")
            if received > LARGEST_BODY:
                return {"type": "http.disconnect"}
            return message

        await self._app(scope, bounded, send)


def _refused(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status)


@dataclass(frozen=True, slots=True)
class LocalAccess:
    """The token of a server on this machine, and the names by which it is addressed.

    Attributes:
        port: Port of the server, part of the cookie's name since cookies are of all ports.
        hosts: Values of the header ``Host`` that are answered.
        token: The token in the URL, and then in the cookie.
        page: Random path of the page, the only one to which browsers send the cookie.
    """

    port: int
    hosts: frozenset[str]
    token: str
    page: str

    @classmethod
    def to(cls, port: int, names: Collection[str]) -> LocalAccess:
        """Make a token for a server that has some names and addresses."""
        hosts = frozenset(f"{name}:{port}" for name in names)
        bare = frozenset(names) if port == 80 else frozenset()
        token, page = secrets.token_urlsafe(RANDOM_BYTES), secrets.token_urlsafe(RANDOM_BYTES)
        return cls(port, hosts | bare, token, f"/{page}/")

    @property
    def cookie(self) -> str:
        """Name of the cookie."""
        return f"walras-{self.port}"

    def set_cookie(self) -> str:
        """Return the value of the header that sets the cookie for this browser's session."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path={self.page}"

    def knows(self, headers: Headers) -> bool:
        """Say whether a request comes with the token, by cookie or as a bearer."""
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            morsel = None
        given = (bearer, "" if morsel is None else morsel.value)
        return any(self.is_token(each) for each in given)

    def is_token(self, text: str) -> bool:
        """Say whether a text is the token, in a time that does not depend on the text."""
        return secrets.compare_digest(text.encode(), self.token.encode())


class LocalGate:
    """Lets in who has the URL that the command printed."""

    def __init__(self, app: ASGIApp, access: LocalAccess) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "http":
            scope = _below_page(scope)
            answer = self._answer(scope) or self._app
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _answer(self, scope: Scope) -> JSONResponse | RedirectResponse | None:
        headers, path = Headers(scope=scope), scope["path"]
        if headers.get("host", "") not in self._access.hosts:
            return _refused(
                421, "the request names another host; open the URL that the server printed"
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] not in self._access.hosts:
            return _refused(403, "a page of another origin may not ask this server")
        if path == "/" and (
            given := parse_qs(scope["query_string"].decode("latin-1")).get("token")
        ):
            return self._admitted(given[0])
        if path.startswith(API) and not self._access.knows(headers):
            return _refused(
                401, "this browser has not opened the URL with the token that the command printed"
            )
        return None

    def _admitted(self, token: str) -> JSONResponse | RedirectResponse:
        if not self._access.is_token(token):
            return _refused(
                401, "the token in the URL is not that of this server; copy the whole URL"
            )
        return RedirectResponse(self._access.page, 303, {"set-cookie": self._access.set_cookie()})


def _below_page(scope: Scope) -> Scope:
    """Return a request below a page's path as one below the root, and others as they are.

    A page that has outlived its server keeps its path, and asks for the token of the next server.
    """
    match = PAGE.match(scope["path"])
    return scope if match is None else {**scope, "path": scope["path"][match.end() :]}
