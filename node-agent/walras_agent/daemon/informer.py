"""Facts: the plan of this node, followed at the API server by list and watch.

One object is listed and watched by its name. Every watch begins with a list, so that nothing
depends on earlier events.

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

from walras_agent.daemon.plans import PlanWithdrawn, parse_plan
from walras_service.kinds import OURS
from walras_service.reflector import Reflector, some_minutes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walras_agent.daemon.api_monitor import ApiMonitor
    from walras_api.node_allocation import NodeAllocation
    from walras_service.api import Api, Document
    from walras_service.api_errors import ApiError

_log = logging.getLogger(__name__)


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
    """Source of plans (`agent.PlanSource`) that follows the API server (`reflector.Follower`).

    Args:
        api: Connection for this informer alone.
        node: Name of this node.
        monitor: Records which requests succeed.
        wake: Called when there is a new plan.
        release_after: Seconds that the NodeAllocation must be missing before its grants end.

    Attributes:
        cached: NodeAllocation as last seen; None while there is none.
        generation: Generation of the plan that `changed` last returned or refused.
    """

    def __init__(
        self,
        api: Api,
        node: str,
        monitor: ApiMonitor,
        wake: Callable[[], None],
        release_after: float,
    ) -> None:
        self.cached: ObservedAllocation | None = None
        self.generation: int | None = None
        self._node, self._monitor, self._wake = node, monitor, wake
        self._release_after = release_after
        self._latest: Document | None = None
        self._returned: object = False  # the state that `changed` has last returned
        self._missing_since: float | None = None
        self._withdrawn = False
        self._resync = 0
        self._listing = False
        self._listed: Document | None = None
        self._lock = threading.Lock()
        self._reflector = Reflector(
            api,
            "plan",
            OURS["NodeAllocation"],
            self,
            selectors={"fieldSelector": f"metadata.name={node}"},
            lists_first=True,
            watch_seconds=self._watch_seconds,
        )

    def start(self) -> None:
        """Start to follow the API server."""
        self._reflector.start()

    def stop(self) -> None:
        """Stop; ``wake`` is not called after this."""
        self._reflector.stop(wait=2.0)

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
            raise PlanWithdrawn(self._node)
        self.generation = latest["metadata"].get("generation")
        return parse_plan(latest)

    def known(self) -> set[str]:
        """Begin a list."""
        if self._resync:
            self._monitor.watch_restarted()
        self._resync += 1
        self._listing, self._listed = True, None
        return set()

    def receive(self, document: Document, *, deleted: bool) -> None:
        """Take the NodeAllocation; a list must confirm that it was deleted."""
        if deleted:
            self._reflector.list_again()
        elif not self._listing:
            self._update(document)
        elif document["metadata"]["name"] == self._node:
            self._listed = document

    def listed(self, gone: set[str]) -> None:  # noqa: ARG002 - there is one object at most
        """Take what was listed: a list tells a missing object from a kind that is missing (404)."""
        self._listing = False
        self._monitor.succeeded("plan")
        self._update(self._listed)

    def answered(self) -> None:
        """Record that the API server answers."""
        self._monitor.succeeded("plan")

    def failed(self, error: ApiError) -> None:
        """Record a failure, after which it is not certain that a missing object is missing."""
        self._monitor.failed("plan", error)
        self._missing_since = None

    def _watch_seconds(self) -> int:
        """Return the duration of the next watch; short while the object is missing."""
        if self._missing_since is None or self._withdrawn:
            return some_minutes()
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
            if self._state() != before:
                self._wake()

    def _record_missing(self, now: float) -> None:
        """Record that the object is missing; withdraw the plan if it has been so for long."""
        self.cached = None
        if self._missing_since is None:
            self._missing_since = now
            text = "there is no NodeAllocation %s; all grants end if it stays missing for %g s"
            _log.warning(text, self._node, self._release_after, extra={"event": "plan-missing"})
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
