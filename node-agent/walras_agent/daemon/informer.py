"""Facts: the plan of this node, followed at the API server by list and watch.

A thread lists and watches one object by its name, again and again. Every round begins with a list,
so that nothing depends on earlier events; an expired resourceVersion (410 Gone) is only one of
the reasons for another round.

A deletion ends all grants, so it must be certain: for `release_after` seconds every list succeeded,
the server knew the kind, and the object was missing. Everything else leaves the last plan in force:
an outage, a permission that was revoked, a CustomResourceDefinition that was removed (its objects
are deleted first, then lists answer 404), an object that its operator deletes and creates again.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_agent.backoff import Backoff
from walras_agent.daemon.plans import PlanWithdrawn, parse_plan
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras_agent.daemon.api import AgentClient
    from walras_agent.daemon.api_monitor import ApiMonitor
    from walras_api.node_allocation import NodeAllocation
    from walras_service.api import Document

_log = logging.getLogger(__name__)

_WATCH_SECONDS = (240.0, 480.0)  # a random duration spreads the nodes' lists over some minutes
_ROUND = 1.0
"""Least seconds between two lists."""


@dataclass(frozen=True, slots=True)
class ObservedAllocation:
    """Metadata of the NodeAllocation as it was last seen.

    Attributes:
        uid: UID of the object; a recreated one has another.
        resync: Number of the list after which it was last seen.
        owners: Owner references of the object, to its Node.
    """

    uid: str
    resync: int
    owners: Sequence[Document]


class AllocationInformer:
    """Source of plans (`agent.PlanSource`) that follows the API server in a thread.

    Args:
        client: Client for this thread alone.
        monitor: Records which requests succeed.
        wake: Called when there is a new plan.
        release_after: Seconds that the NodeAllocation must be missing before its grants end.

    Attributes:
        cached: NodeAllocation as last seen; None while there is none.
        generation: Generation of the plan that `changed` last returned or refused.
    """

    def __init__(
        self,
        client: AgentClient,
        monitor: ApiMonitor,
        wake: Callable[[], None],
        release_after: float,
    ) -> None:
        self.cached: ObservedAllocation | None = None
        self.generation: int | None = None
        self._client, self._monitor, self._wake = client, monitor, wake
        self._release_after = release_after
        self._latest: Document | None = None
        self._returned: object = False  # the state that `changed` has last returned
        self._missing_since: float | None = None
        self._withdrawn = False
        self._resync = 0
        self._backoff = Backoff(first=0.5, longest=30.0)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plan", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; ``wake`` is not called after this."""
        with self._lock:
            self._stopping.set()
        deadline = time.monotonic() + 2.0
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._client.interrupt()  # again and again: a watch may just be about to begin
            self._thread.join(timeout=0.05)

    def changed(self) -> NodeAllocation | None:
        """Return the latest plan if it has changed since the last call; else None.

        Raises:
            PlanError: The plan has changed and is invalid; raised once per change.
            PlanWithdrawn: The NodeAllocation was deleted; raised once.
        """
        with self._lock:
            latest, state = self._latest, self._state()
        if state is False or state == self._returned:
            return None
        self._returned = state
        if latest is None:
            raise PlanWithdrawn(self._client.node)
        self.generation = latest["metadata"].get("generation")
        return parse_plan(latest)

    def _run(self) -> None:
        while not self._stopping.is_set():
            again = time.monotonic() + _ROUND
            try:
                self._list_and_watch()
            except Exception as error:  # noqa: BLE001 - the thread must go on
                again = self._failed(error)
            self._monitor.watch_restarted()
            self._stopping.wait(max(0.0, again - time.monotonic()))

    def _failed(self, error: Exception) -> float:
        """Report an error; return the time of the next attempt, seconds, monotonic."""
        now = time.monotonic()
        if not isinstance(error, ApiError):
            _log.error("the watch failed: %r", error, exc_info=error)
            error = ApiError(f"the watch failed: {error!r}", "error")
        if not self._stopping.is_set():
            self._monitor.failed("plan", error)
        self._missing_since = None
        return now + jittered(self._backoff.failed("plan", now))

    def _list_and_watch(self) -> None:
        """Make one round: list, then watch until something ends the watch."""
        document, version = self._client.latest()
        self._monitor.succeeded("plan")
        self._resync += 1
        self._update(document)
        for event in self._client.watch(version, self._watch_seconds()):
            self._monitor.succeeded("plan")
            if event.kind == "DELETED":
                return  # a list must confirm it
            if event.kind != "BOOKMARK":
                self._update(event.document)

    def _watch_seconds(self) -> int:
        """Return the duration of the next watch; short while the object is missing."""
        if self._missing_since is None or self._withdrawn:
            return round(random.uniform(*_WATCH_SECONDS))  # noqa: S311 - no secret
        return max(1, math.ceil(self._missing_since + self._release_after - time.monotonic()))

    def _update(self, document: Document | None) -> None:
        """Cache the present object, None if missing, and call ``wake`` if the plan has changed."""
        with self._lock:
            before = self._state()
            if document is None:
                self._record_missing(time.monotonic())
            else:
                self.cached = _cached(document, self._resync)
                self._latest, self._missing_since, self._withdrawn = document, None, False
            if self._state() != before and not self._stopping.is_set():
                self._wake()

    def _record_missing(self, now: float) -> None:
        """Record that the object is missing; withdraw the plan if it has been so for long."""
        self.cached = None
        if self._missing_since is None:
            self._missing_since = now
            text = "there is no NodeAllocation %s; all grants end if it stays missing for %g s"
            _log.warning(
                text, self._client.node, self._release_after, extra={"event": "plan-missing"}
            )
        elif now >= self._missing_since + self._release_after:
            self._latest, self._withdrawn = None, True

    def _state(self) -> object:
        """Return a value that differs after every change of the plan, not of the status alone."""
        if self._latest is None:
            return self._withdrawn
        return self._latest["metadata"]["uid"], self._latest.get("spec")


def _cached(document: Document, resync: int) -> ObservedAllocation:
    metadata = document["metadata"]
    return ObservedAllocation(metadata["uid"], resync, metadata.get("ownerReferences", ()))


def jittered(seconds: float) -> float:
    """Return a random time between half of ``seconds`` and all of it, to spread the nodes' load."""
    return random.uniform(seconds / 2, seconds)  # noqa: S311 - no secret
