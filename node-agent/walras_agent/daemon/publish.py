"""Apply: the status of this node's NodeAllocation, and a Lease by which its agent is seen to live.

A thread of its own, so that an API server that is slow or gone never holds up the node. The status
is written when it is another, once a second at most, and again after every list of the `follow`
thread (which changes nothing at the API server where nothing has changed). The Lease is what is
written all the time: it has 300 bytes where a status may have 100 KiB, and nobody who watches
NodeAllocations is told of it. So do the kubelets (KEP-589).
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_agent.backoff import Backoff
from walras_agent.daemon.follow import jittered
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras.resources.node_status import NodeAllocationStatus
    from walras_agent.daemon.api import Api
    from walras_agent.daemon.contact import Contact, Task
    from walras_agent.daemon.follow import Follower
    from walras_service.api import Document

_log = logging.getLogger(__name__)

LEASE = 45
"""Seconds after its last renewal at which an agent is to be taken for lost."""
_RENEWAL = 15.0  # seconds: two may be lost
_GATHER = 1.0  # seconds between two writes of a status


@dataclass(slots=True)
class _Turn:
    """When something is to be done the next time."""

    task: Task
    pause: float
    at: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=30.0))


class Publisher:
    """Tells the API server what the agent has to tell.

    Args:
        api: For this alone.
        contact: Is told how it goes.
        plans: Knows the NodeAllocation.
        alive: Whether the node is being looked at; while it is not, the Lease is not renewed.
        namespace: Where the Lease is.
    """

    def __init__(
        self,
        api: Api,
        contact: Contact,
        plans: Follower,
        alive: Callable[[], bool],
        namespace: str,
    ) -> None:
        self._api, self._contact, self._plans = api, contact, plans
        self._alive, self._namespace = alive, namespace
        self._status: Document | None = None
        self._written: object = None
        self._turns = (_Turn("lease", _RENEWAL), _Turn("status", _GATHER))
        self._called = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        """Begin to tell."""
        self._thread.start()

    def stop(self) -> None:
        """Tell no more."""
        self._stopping = True
        self._called.set()
        self._thread.join(timeout=2.0)

    def write(self, status: NodeAllocationStatus) -> None:
        """Take the status after a look; returns at once."""
        if self._plans.generation is None:
            return  # nothing has come that this could be the answer to
        document = _document(status, self._plans.generation)
        if document != self._status:
            self._status = document
            self._called.set()

    def _run(self) -> None:
        while not self._stopping:
            self._called.clear()
            for turn in self._turns:
                self._take(turn)
            self._called.wait(self._idle())

    def _idle(self) -> float:
        """Seconds until there may be something to do, unless called."""
        now = time.monotonic()
        return min((turn.at - now for turn in self._turns if turn.at > now), default=_GATHER)

    def _take(self, turn: _Turn) -> None:
        """Do what there is to do, unless it is too early."""
        now = time.monotonic()
        if now < turn.at:
            return
        try:
            done = self._beat() if turn.task == "lease" else self._tell()
        except Exception as error:  # noqa: BLE001 - a thread that ends would tell no more
            turn.at = time.monotonic() + jittered(turn.backoff.failed(turn.task, now))
            if not isinstance(error, ApiError):
                _log.error("%s: %r", turn.task, error, exc_info=error)
                error = ApiError(repr(error), "error")
            self._contact.failed(turn.task, error)
        else:
            if done:
                turn.at = now + turn.pause
                self._contact.worked(turn.task)

    def _beat(self) -> bool:
        """Renew the Lease; whether there was reason to."""
        if not self._alive():
            return False
        known = self._plans.known
        self._api.renew_lease(self._namespace, LEASE, known.owners if known else ())
        return True

    def _tell(self) -> bool:
        """Write the status; whether there was reason to."""
        known, status = self._plans.known, self._status
        if known is None or status is None:
            return False
        now = (known.uid, known.listing, status)
        if now == self._written:
            return False
        self._api.write_status(known.uid, status)
        self._written = now
        return True


def _document(status: NodeAllocationStatus, generation: int) -> Document:
    """A status as the API server takes it.

    What is as its default is left out. There may be 110 pods; and API servers of Kubernetes 1.20
    that were built by a later Go than they were made for take an empty string for null, and refuse
    all of it.
    """
    told = status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for condition in told.get("conditions", ()):
        condition["observedGeneration"] = generation
    return {"mode": status.mode, **told}
