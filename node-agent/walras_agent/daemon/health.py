"""Facts: the agent's HTTP pages besides its metrics.

``/healthz`` is for a liveness probe and fails when the last reconcile pass is too long ago;
``/readyz`` fails until a plan has been accepted; ``/status`` is the status of the NodeAllocation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from walras_service.probes import Answer, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_api.node_allocation_status import NodeAllocationStatus


@dataclass(slots=True)
class Health:
    """State that probes are answered from.

    Attributes:
        patience: Seconds without a reconcile pass after which the agent counts as dead.
        status: Last status of the NodeAllocation; None before the first reconcile pass.
    """

    patience: float
    status: NodeAllocationStatus | None = None
    _updated: float = field(default_factory=time.monotonic)

    def update(self, status: NodeAllocationStatus) -> None:
        """Take the status after a reconcile pass."""
        self.status, self._updated = status, time.monotonic()

    def lives(self) -> bool:
        """Return whether the last reconcile pass is recent enough."""
        return time.monotonic() - self._updated <= self.patience

    @property
    def pages(self) -> dict[str, Callable[[], Answer]]:
        """Functions that answer a request, by path."""
        return {"/healthz": self.alive, "/readyz": self.ready, "/status": self.shown}

    def alive(self) -> Answer:
        """Answer the liveness probe."""
        text = f"last reconcile pass {time.monotonic() - self._updated:.1f} s ago"
        return verdict([] if self.lives() else [text], text)

    def ready(self) -> Answer:
        """Answer the readiness probe: the epoch of the plan in force, or 503 without a plan."""
        if self.status is None or self.status.epoch is None:
            return verdict(["no plan received yet"])
        return verdict([], f"epoch {self.status.epoch}")

    def shown(self) -> Answer:
        """Answer with the status as JSON, or 503 before the first reconcile pass."""
        if self.status is None:
            return verdict(["no reconcile pass yet"])
        return Answer(HTTPStatus.OK, status_json(self.status), "application/json")


def status_json(status: NodeAllocationStatus) -> str:
    """Return a status as a JSON document without absent fields."""
    return status.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n"
