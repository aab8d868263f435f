"""Facts: a live cluster, as far as one viewer may see it, kept up to date by watches.

Every kind has a `Feed`. What feeds say is collected, and at most four times a second it becomes a
new immutable `MarketState`. Leases and use are asked for periodically, since they change all the
time without mattering to anyone. Threads start when a viewer first looks.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from walras_api.contract import MARKET_NAME
from walras_api.market_status import MarketStatus
from walras_cli.cluster.asking import leases_of
from walras_cli.cluster.connection import ENTITLEMENTS, JOBS, MARKETS, NODE_ALLOCATIONS
from walras_cli.cluster.explain.pages import pods_of
from walras_cli.cluster.use import use_of
from walras_dashboard.feed import Feed
from walras_dashboard.kept_world import KeptWorld
from walras_dashboard.moves import moves
from walras_dashboard.shared_objects import READERS, SharedObjects, key_of
from walras_dashboard.state import MarketState, Moved, Origin
from walras_service.api_errors import ApiError
from walras_service.failures import Failure
from walras_service.kinds import LEASES, NODES, OURS
from walras_service.times import rfc3339
from walras_view.facts import NOT_ASKED, Facts, Leases, Use, operator_namespace
from walras_view.text import missing_rights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras_api.cluster import Pod
    from walras_cli.cluster.connection import Cluster, Document
    from walras_operator.decide.world import World

_log = logging.getLogger(__name__)

CONNECTIONS = 24
"""Connections that are kept open: one for each watch, and those of requests meanwhile."""

PAUSE = 0.25
"""Least seconds between two states."""

PATIENCE = 30.0
"""Seconds to wait for the first state."""

LEASE_SECONDS = 5.0
USE_SECONDS = 15.0
OWN_SECONDS = 1.0
"""Seconds between two looks at Leases, at use, and at Entitlements that may not be listed."""

MOST_MOVES = 20

_MAIN = frozenset({"entitlements", "jobs", "allocations", "nodes"})
"""Without any of these there is nothing to show."""


class Live:
    """A live cluster.

    Args:
        cluster: Connection with the rights of the viewer.
        namespace: Namespace whose jobs are shown; empty for all, or where these may not be listed
            for that of the connection.
        shared: Objects that other viewers of the cluster have.
    """

    def __init__(
        self, cluster: Cluster, namespace: str = "", shared: SharedObjects | None = None
    ) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._shared = shared or SharedObjects()
        self._objects: dict[str, dict[tuple[str, str], Any]] = {name: {} for name in READERS}
        self._withheld: dict[str, str] = {}
        self._hidden: set[str] = set()
        self._problems: dict[str, ApiError] = {}
        self._of_jobs = namespace
        self._leases = Leases()
        self._use: Use = NOT_ASKED
        self._moved: dict[str, tuple[Moved, ...]] = {}
        self._loaded: set[str] = set()
        self._state: MarketState | None = None
        self._changed = threading.Event()
        self._ready = threading.Event()
        self._market_known = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.RLock()
        self._listeners: dict[object, Callable[[str], None]] = {}
        self._feeds = self._make_feeds()
        self._started = False
        self._world = KeptWorld(cluster)
        self._asked_own = False

    def _make_feeds(self) -> tuple[Feed, ...]:
        jobs = dict.fromkeys([self._namespace, self._namespace or self._cluster.namespace])
        only = {"fieldSelector": f"metadata.name={MARKET_NAME}"}

        def feed(name: str, kind: Any, where: Sequence[str] = ("",), **selectors: str) -> Feed:
            return Feed(self._cluster.api, name, kind, tuple(where), self, selectors)

        return (
            feed("entitlements", ENTITLEMENTS),
            feed("jobs", JOBS, tuple(jobs)),
            feed("allocations", NODE_ALLOCATIONS),
            feed("market", MARKETS, **only),
            feed("nodes", NODES),
            feed("profiles", OURS["SpeedupProfile"], tuple(jobs)),
        )

    # For viewers.

    def state(self) -> MarketState:
        """Return what may be seen now."""
        self._start()
        self._ready.wait(PATIENCE)
        with self._lock:
            state, problems = self._state, tuple(self._problems.values())
            refused = self._hidden >= _MAIN
            withheld = sorted(self._withheld.values())
        if state is None:
            host = self._cluster.host
            raise problems[0] if problems else ApiError(f"{host}: does not answer", "unreachable")
        if refused:
            raise Failure(f"{self._cluster.host}: {missing_rights(withheld)}")
        return state

    def pods_on(self, node: str) -> Sequence[Pod] | None:
        """Return the pods that run on a node; None if they may not be seen."""
        return pods_of(self._cluster, node)

    def world(self) -> World:
        """Return what the operator decides from."""
        return self._world.get()

    def listen(self, receive: Callable[[str], None]) -> Callable[[], None]:
        """Call a function whenever there is news, until the result is called."""
        self._start()
        key = object()
        with self._lock:
            self._listeners[key] = receive
        receive(self._lost())

        def stop() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return stop

    @property
    def listened_to(self) -> bool:
        """Whether anyone waits for news."""
        return bool(self._listeners)

    def stop(self) -> None:
        """Let all threads end."""
        self._stopping.set()
        self._changed.set()
        self._market_known.set()
        for each in self._feeds:
            each.stop()

    def _start(self) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
        for each in self._feeds:
            each.start()
        for work in (self._collect, self._look_at_leases, self._look_at_use, self._look_at_own):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()

    # For feeds.

    def replace(self, name: str, documents: Sequence[Document], namespace: str) -> None:
        """Take all objects of a kind."""
        objects = {key_of(each): self._shared.read(name, each) for each in documents}
        with self._lock:
            before = self._objects[name]
            self._objects[name] = {
                key: before[key] if before.get(key) == each else each
                for key, each in objects.items()
                if each is not None
            }
            if name == "jobs":
                self._of_jobs = namespace
            if name == "allocations":
                for key, each in self._objects[name].items():
                    self._note_moves(before.get(key), each)
            self._withheld.pop(name, None)
            self._hidden.discard(name)
        self._noted(name)

    def change(self, name: str, document: Document, *, deleted: bool) -> None:
        """Take an object that was added, modified or deleted."""
        key, read = key_of(document), self._shared.read(name, document)
        with self._lock:
            objects = self._objects[name]
            before = objects.get(key)
            if deleted or read is None:
                objects.pop(key, None)
            elif before == read:
                return
            else:
                objects[key] = read
            if name == "allocations":
                self._note_moves(before, objects.get(key))
        self._noted(name)

    def refuse(self, name: str, right: str, *, nothing: bool) -> None:
        """Take note of a right that is missing, and whether nothing can be seen without it."""
        with self._lock:
            self._withheld[name] = right
            if nothing:
                self._hidden.add(name)
        self._noted(name)

    def report(self, name: str, problem: ApiError | None) -> None:
        """Take note that the API server cannot be asked, or can again."""
        with self._lock:
            before = self._lost()
            if problem is None:
                self._problems.pop(name, None)
            else:
                self._problems[name] = problem
            lost = self._lost()
            if self._state is None and problem is not None:
                self._ready.set()  # the viewer is told at once
        if lost != before:
            self._notify()

    def _lost(self) -> str:
        return next((str(each) for each in list(self._problems.values())), "")

    def _noted(self, name: str) -> None:
        self._loaded.add(name)
        if name == "market":
            self._market_known.set()
        self._changed.set()

    def _note_moves(self, before: Any, after: Any) -> None:
        said = moves(before, after)
        if not said:
            return
        now = rfc3339(datetime.now(UTC))
        name = (after or before).name
        new = tuple(Moved(now, each) for each in said)
        self._moved[name] = (*new, *self._moved.get(name, ()))[:MOST_MOVES]

    # Threads.

    def _collect(self) -> None:
        """Make a state of what was received, again and again."""
        every = {each.name for each in self._feeds}
        while not self._stopping.is_set():
            self._changed.wait()
            self._changed.clear()
            if not every <= self._loaded:
                continue
            with self._lock:
                self._state = self._made(1 if self._state is None else self._state.revision + 1)
            self._ready.set()
            self._notify()
            self._stopping.wait(PAUSE)

    def _made(self, revision: int) -> MarketState:
        objects = self._objects
        facts = Facts(
            now=self._cluster.now,
            namespace=self._of_jobs,
            entitlements={name: each for (_, name), each in objects["entitlements"].items()},
            jobs=dict(objects["jobs"]),
            allocations={name: each for (_, name), each in objects["allocations"].items()},
            market=objects["market"].get(("", MARKET_NAME)),
            nodes={name: each for (_, name), each in objects["nodes"].items()},
            leases=self._leases,
            use=self._use,
            withheld=tuple(sorted(set(self._withheld.values()))),
        )
        return MarketState(
            Origin("cluster", self._cluster.host, live=True),
            revision,
            facts,
            profiles=dict(objects["profiles"]),
            moved=dict(self._moved),
        )

    def _notify(self) -> None:
        with self._lock:
            listeners, lost = list(self._listeners.values()), self._lost()
        for receive in listeners:
            receive(lost)

    def _look_at_leases(self) -> None:
        """See which operator and agents are alive, and forget an old world, again and again."""
        self._market_known.wait()  # it says where the Leases are
        while not self._stopping.is_set():
            self._world.forget_if_old()
            try:
                self._take_leases()
            except ApiError:  # feeds report it
                pass
            except Exception:  # noqa: BLE001 - the thread must go on
                _log.exception("looking at Leases failed")
            self._stopping.wait(LEASE_SECONDS)

    def _take_leases(self) -> None:
        with self._lock:
            market = self._objects["market"].get(("", MARKET_NAME))
        status = MarketStatus() if market is None else market.status
        right = None
        try:
            leases = leases_of(self._cluster, status)
        except ApiError as error:
            if error.reason != "forbidden":
                raise
            leases = Leases()
            right = f"list {LEASES.resource} in namespace {operator_namespace(status)}"
        with self._lock:
            changed = right != self._withheld.pop("leases", None)
            if right is not None:
                self._withheld["leases"] = right
        if changed or _who(leases) != _who(self._leases):
            self._leases = leases
            self._changed.set()

    def _look_at_use(self) -> None:
        """See what pods and nodes use, again and again."""
        while not self._stopping.is_set():
            with suppress(ApiError):  # feeds report it
                use = use_of(self._cluster, self._namespace)
                if use != self._use:
                    self._use = use
                    self._changed.set()
            self._stopping.wait(USE_SECONDS)

    def _look_at_own(self) -> None:
        """See the Entitlements of the viewer's jobs one by one, if they may not be listed.

        A role for one user names that user's Entitlement (``resourceNames``), and such a role does
        not allow lists.
        """
        while not self._stopping.wait(OWN_SECONDS):
            with self._lock:
                if "entitlements" not in self._withheld:
                    continue
                jobs = list(self._objects["jobs"].values())
            names = {str(job.spec.get("entitlement", "")) for job in jobs} - {""}
            documents = []
            for name in sorted(names):
                with suppress(ApiError):  # forbidden or deleted: not this user's to see
                    documents.append(
                        self._cluster.get(ENTITLEMENTS.path(name=quote(name, safe="")))
                    )
            self._take_own(documents)

    def _take_own(self, documents: Sequence[Document]) -> None:
        read = {key_of(each): self._shared.read("entitlements", each) for each in documents}
        with self._lock:
            if "entitlements" in self._withheld and read != self._objects["entitlements"]:
                self._objects["entitlements"] = read
                self._changed.set()


def _who(leases: Leases) -> object:
    """Return what matters of Leases, which are renewed all the time."""
    return replace(leases, operator=None if leases.operator_alive else leases.operator)
