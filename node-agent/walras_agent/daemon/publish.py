"""Effects: writes the status of this node's NodeAllocation, and the Lease of its agent.

It runs in a thread of its own, so that a slow or missing API server never delays the node. The
status is written when it changes, at most once a second, and again after every list of the
informer (which is no change at the API server if the status is the same). The heartbeat is a
Lease, as the kubelet's is (KEP-589): it has 300 bytes where a status may have 100 KiB, and is not
sent to those who watch NodeAllocations.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_agent.backoff import Backoff
from walras_agent.daemon.informer import jittered
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_agent.daemon.api import AgentClient
    from walras_agent.daemon.api_monitor import ApiMonitor, Task
    from walras_agent.daemon.informer import AllocationInformer
    from walras_api.node_allocation_status import NodeAllocationStatus
    from walras_service.api import Document

_log = logging.getLogger(__name__)

LEASE_SECONDS = 45
"""Duration of the Lease: an agent that has not renewed it for so long counts as lost."""
_RENEWAL = 15.0  # seconds, so that two renewals may fail
_GATHER = 1.0  # seconds between two writes of the status


@dataclass(slots=True)
class _PeriodicTask:
    """A task of the thread.

    Attributes:
        name: Name of the task in metrics and the log.
        pause: Seconds from one execution to the next.
        due: Time of the next execution, seconds, monotonic.
        backoff: Delays after failures.
    """

    name: Task
    pause: float
    due: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=30.0))


class StatusPublisher:
    """Writes the status and the Lease at the API server.

    Args:
        client: Client for this thread alone.
        monitor: Records which requests succeed.
        plans: Informer that knows the NodeAllocation.
        alive: Returns whether the agent's loop is running; the Lease is renewed only then.
        namespace: Namespace of the Lease.
    """

    def __init__(
        self,
        client: AgentClient,
        monitor: ApiMonitor,
        plans: AllocationInformer,
        alive: Callable[[], bool],
        namespace: str,
    ) -> None:
        self._client, self._monitor, self._plans = client, monitor, plans
        self._alive, self._namespace = alive, namespace
        self._status: Document | None = None
        self._written: object = None
        self._tasks = (_PeriodicTask("lease", _RENEWAL), _PeriodicTask("status", _GATHER))
        self._woken = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        self._woken.set()
        self._thread.join(timeout=2.0)

    def write(self, status: NodeAllocationStatus) -> None:
        """Take the status after a reconcile pass; return at once."""
        if self._plans.generation is None:
            return  # no plan has come yet that the status could be about
        document = _document(status, self._plans.generation)
        if document != self._status:
            self._status = document
            self._woken.set()

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            for task in self._tasks:
                self._run_task(task)
            self._woken.wait(self._idle_seconds())

    def _idle_seconds(self) -> float:
        """Return the seconds until a task is due, unless the thread is woken before."""
        now = time.monotonic()
        return min((task.due - now for task in self._tasks if task.due > now), default=_GATHER)

    def _run_task(self, task: _PeriodicTask) -> None:
        """Execute a task if it is due."""
        now = time.monotonic()
        if now < task.due:
            return
        try:
            done = self._renew_lease() if task.name == "lease" else self._write_status()
        except Exception as error:  # noqa: BLE001 - the thread must go on
            task.due = time.monotonic() + jittered(task.backoff.failed(task.name, now))
            if not isinstance(error, ApiError):
                _log.error("%s: %r", task.name, error, exc_info=error)
                error = ApiError(repr(error), "error")
            self._monitor.failed(task.name, error)
        else:
            if done:
                task.due = now + task.pause
                self._monitor.succeeded(task.name)

    def _renew_lease(self) -> bool:
        """Renew the Lease while the agent's loop is running; return whether it was renewed."""
        if not self._alive():
            return False
        cached = self._plans.cached
        self._client.renew_lease(self._namespace, LEASE_SECONDS, cached.owners if cached else ())
        return True

    def _write_status(self) -> bool:
        """Write the status if it or the object has changed; return whether it was written."""
        cached, status = self._plans.cached, self._status
        if cached is None or status is None:
            return False
        now = (cached.uid, cached.resync, status)
        if now == self._written:
            return False
        self._client.write_status(cached.uid, status)
        self._written = now
        return True


def _document(status: NodeAllocationStatus, generation: int) -> Document:
    """Return a status as a document for the API server, without fields that have their default.

    There may be 110 pods.
    """
    document = status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for condition in document.get("conditions", ()):
        condition["observedGeneration"] = generation
    return {"mode": status.mode, **document}
