"""Facts: viewers of a server in the cluster, each with rights of their own, never the server's.

A viewer is whoever the bearer token of a request belongs to, or whom an authenticating proxy names,
on whose behalf the server then asks (impersonation). What one viewer sees is kept apart from what
others see, and is forgotten some minutes after the viewer has gone.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kubernetes.client import Configuration
from starlette.responses import RedirectResponse

from walras_api.contract import API_VERSION
from walras_cli.cluster.connection import Cluster
from walras_cli.cluster.operator_history import HistoryReader
from walras_dashboard.events import PING
from walras_dashboard.limits import RequestLimit
from walras_dashboard.live import CONNECTIONS, Live
from walras_dashboard.shared_objects import SharedObjects
from walras_dashboard.viewers import UnauthenticatedError, Viewer
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

NAMESPACE_COOKIE = "walras-namespace"
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

CHECK_SECONDS = 60.0
"""Time for which an identity is believed before the API server is asked about it again."""

IDLE_SECONDS = 600.0
"""Time after which a viewer who asks nothing is forgotten."""

MOST_VIEWERS = 50
"""Viewers that are kept at a time: each takes as much memory as what it may see."""

MOST_OF_OWNER = 3
"""Viewers that are kept at a time for one user, each with another token or namespace."""

MOST_BEGUN = 12
"""Viewers that begin within `IDLE_SECONDS` for one user: the watches of viewers that were replaced
go on for some minutes."""

LONGEST_TOKEN = 16_384

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

SECRET_HEADER = "x-walras-proxy-secret"  # noqa: S105 - the name of a header
RESERVED = "system:"
"""Prefix of users and groups of Kubernetes itself, which no proxy may name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The user on whose behalf requests are made.

    Attributes:
        key: Key that distinguishes viewers; holds no secret.
        owner: Key of the user, who may have viewers for several namespaces; empty if the API server
            is to say whose the token is.
        token: Bearer token of the viewer; empty if the server impersonates the viewer.
        headers: Headers of impersonation.
        namespace: Namespace that the viewer has chosen; empty for all.
    """

    key: tuple[str, ...]
    owner: tuple[str, ...]
    token: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class TokenIdentities:
    """Takes the bearer token of each request."""

    def of(self, headers: Headers, namespace: str) -> Identity:
        """Return who asks.

        Raises:
            UnauthenticatedError: There is no token.
        """
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
            raise UnauthenticatedError(
                "give a bearer token of yours for this cluster, for example by "
                "`kubectl create token NAME` for a ServiceAccount"
            )
        digest = hashlib.sha256(token.encode()).hexdigest()
        return Identity(("token", digest, namespace), (), token=token, namespace=namespace)


@dataclass(frozen=True, slots=True)
class ProxyIdentities:
    """Takes the user's name and groups from an authenticating proxy.

    Whoever can set these headers is whoever they name, so the proxy proves itself by a secret.

    Attributes:
        secret: Secret that only the proxy and the server know.
        user_header: Name of the header with the user's name.
        groups_header: Name of the header with the user's groups, separated by commas.
    """

    secret: str = field(repr=False)
    user_header: str
    groups_header: str

    def of(self, headers: Headers, namespace: str) -> Identity:
        """Return who asks.

        Raises:
            UnauthenticatedError: The proxy has not proved itself, or names nobody.
        """
        given = headers.get(SECRET_HEADER, "")
        if not secrets.compare_digest(given.encode(), self.secret.encode()):
            raise UnauthenticatedError(
                "this request does not come from the authenticating proxy; open the proxy's address"
            )
        user = headers.get(self.user_header, "").strip()
        named = ",".join(headers.getlist(self.groups_header)).split(",")
        groups = tuple(dict.fromkeys(each.strip() for each in named if each.strip()))
        if not user:
            raise UnauthenticatedError(
                f"the authenticating proxy names no user in the header {self.user_header}"
            )
        for each in (user, *groups):
            if each.startswith(RESERVED):
                raise UnauthenticatedError(
                    f"the authenticating proxy names {each[:100]}, which belongs to Kubernetes "
                    f"itself; use names without the prefix {RESERVED}"
                )
        impersonated = [("Impersonate-User", user), *(("Impersonate-Group", g) for g in groups)]
        owner = ("user", user)
        key = (*owner, *groups, "", namespace)
        return Identity(key, owner, headers=tuple(impersonated), namespace=namespace)


@dataclass(slots=True)
class _Kept:
    viewer: Viewer
    live: Live
    cluster: Cluster
    owner: tuple[str, ...]
    used: float
    checked: float


class ClusterViewers:
    """All viewers of a server in the cluster.

    Args:
        identities: How to tell who asks.
        connection: Makes a connection with the rights of an identity.
        now: Clock, seconds.
    """

    def __init__(
        self,
        identities: TokenIdentities | ProxyIdentities,
        connection: Callable[[Identity], Cluster],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identities, self._connection, self._now = identities, connection, now
        self._kept: dict[tuple[str, ...], _Kept] = {}
        self._begun: dict[tuple[str, ...], list[float]] = {}
        self._limits: WeakValueDictionary[tuple[str, ...], RequestLimit] = WeakValueDictionary()
        self._shared = SharedObjects()
        self._lock = threading.Lock()

    def viewer(self, request: Request) -> Viewer:
        """Return who asks.

        Raises:
            UnauthenticatedError: The request does not say who asks.
            ApiError: The API server does not know the viewer, or there are too many viewers.
        """
        known = self.known(request)
        if known is not None:
            return known
        identity = self._identity(request)
        self._forget_idle()
        with self._lock:
            kept = self._kept.get(identity.key)
        cluster = self._connection(identity) if kept is None else kept.cluster
        self._check(cluster, identity)
        owner = kept.owner if kept is not None else identity.owner or _owner(cluster, identity)
        return self._take(identity, owner, cluster)

    def known(self, request: Request) -> Viewer | None:
        """Return who asks, if the API server was asked about the identity lately; else None.

        Raises:
            UnauthenticatedError: The request does not say who asks.
        """
        identity = self._identity(request)
        with self._lock:
            kept = self._kept.get(identity.key)
        if kept is None or self._now() - kept.checked >= CHECK_SECONDS:
            return None
        kept.used = self._now()
        return kept.viewer

    def is_current(self, viewer: Viewer, request: Request) -> bool:
        """Say whether a viewer is still kept, and known to the API server.

        Called at least every `PING` seconds, it says so within `CHECK_SECONDS`.
        """
        identity = self._identity(request)
        with self._lock:
            kept = self._kept.get(identity.key)
        if kept is None or kept.viewer is not viewer:
            return False
        if self._now() - kept.checked >= CHECK_SECONDS - 2 * PING:
            try:
                self._check(kept.cluster, identity)
            except ApiError:
                return False
            kept.checked = self._now()
        return True

    def _identity(self, request: Request) -> Identity:
        namespace = request.cookies.get(NAMESPACE_COOKIE, "")
        if NAMESPACE.fullmatch(namespace) is None:
            namespace = ""
        return self._identities.of(request.headers, namespace)

    def _check(self, cluster: Cluster, identity: Identity) -> None:
        """Ask the API server whether it knows the viewer, before anything is kept for it."""
        try:
            cluster.get(f"/apis/{API_VERSION}")
        except ApiError as error:
            if error.reason in {"forbidden", "missing"}:
                return  # it is known, and may not even see which kinds there are
            if error.reason == "unauthorized":
                self._forget(identity.key)
            elif identity.key in self._kept:
                return  # the watches tell the viewer
            raise

    def _take(self, identity: Identity, owner: tuple[str, ...], cluster: Cluster) -> Viewer:
        now, replaced = self._now(), None
        with self._lock:
            kept = self._kept.get(identity.key)
            if kept is None:
                replaced = self._make_room(owner, now)
                live = Live(cluster, identity.namespace, self._shared)
                limit = self._limits.setdefault(owner, RequestLimit())
                viewer = Viewer(live, HistoryReader(cluster).read, limit)
                kept = _Kept(viewer, live, cluster, owner, now, now)
                self._kept[identity.key] = kept
            kept.used = kept.checked = now
        if replaced is not None:
            replaced.live.stop()
        return kept.viewer

    def _make_room(self, owner: tuple[str, ...], now: float) -> _Kept | None:
        """Make room for one more viewer of an owner, who has a part of all places only.

        Returns:
            The owner's viewer that was used least recently, to be stopped, if there were too many.
        """
        recent = {
            of: [each for each in begun if now - each < IDLE_SECONDS]
            for of, begun in self._begun.items()
        }
        self._begun = {of: begun for of, begun in recent.items() if begun}
        begun = self._begun.setdefault(owner, [])
        if len(begun) >= MOST_BEGUN:
            raise ApiError(
                f"you have opened {MOST_BEGUN} namespaces, or used as many tokens, within a few "
                f"minutes; go back to one of the last {MOST_OF_OWNER}, or try again in "
                f"{IDLE_SECONDS / 60:.0f} minutes",
                "busy",
            )
        own = [key for key, each in self._kept.items() if each.owner == owner]
        replaced = None
        if len(own) >= MOST_OF_OWNER:
            replaced = self._kept.pop(min(own, key=lambda key: self._kept[key].used))
        elif len(self._kept) >= MOST_VIEWERS:
            raise ApiError(
                f"{MOST_VIEWERS} people look at the dashboard already; try again later", "busy"
            )
        begun.append(now)
        return replaced

    def _forget_idle(self) -> None:
        now = self._now()
        with self._lock:
            idle = [
                key
                for key, each in self._kept.items()
                if now - each.used > IDLE_SECONDS and not each.live.listened_to
            ]
        for key in idle:
            self._forget(key)

    def stop(self) -> None:
        """Forget all viewers, and let their threads end."""
        with self._lock:
            keys = list(self._kept)
        for key in keys:
            self._forget(key)

    def _forget(self, key: tuple[str, ...]) -> None:
        with self._lock:
            kept = self._kept.pop(key, None)
        if kept is not None:
            kept.live.stop()


def _owner(cluster: Cluster, identity: Identity) -> tuple[str, ...]:
    """Return the key of the user whose token the API server has accepted.

    A user can have any number of tokens.
    """
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = cluster.api.request("POST", REVIEWS, body)
        return ("user", str(answer["status"]["userInfo"]["username"]))
    except (ApiError, LookupError, TypeError):
        return identity.key[:2]


def connections(server: Configuration, namespace: str) -> Callable[[Identity], Cluster]:
    """Return what makes connections to the cluster that the server is in.

    Args:
        server: Address of the API server, and the server's own credentials if it impersonates.
        namespace: Namespace of viewers who have chosen none and may not see all.
    """

    def connection(identity: Identity) -> Cluster:
        made = server
        if identity.token:
            made = Configuration(host=server.host)
            made.ssl_ca_cert = server.ssl_ca_cert
            made.api_key = {"authorization": f"Bearer {identity.token}"}
        made.retries = False
        where = identity.namespace or namespace
        return Cluster(made, where, identity.headers, CONNECTIONS)

    return connection


class NamespaceGate:
    """Lets viewers choose a namespace by ``/?namespace=NAME``, which a cookie remembers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and scope["path"] == "/":
            query = scope["query_string"].decode("latin-1")
            name, _, chosen = query.partition("=")
            if name == "namespace" and (not chosen or NAMESPACE.fullmatch(chosen)):
                cookie = f"{NAMESPACE_COOKIE}={chosen}; HttpOnly; SameSite=Strict; Path=/"
                answer = RedirectResponse(".", 303, {"set-cookie": cookie})
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)
