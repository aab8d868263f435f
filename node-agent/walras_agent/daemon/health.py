"""Facts: what the agent answers by HTTP besides its metrics.

``/healthz`` for a liveness probe, which fails when the node has not been looked at for long;
``/readyz``, which fails until a plan has come and been taken; ``/status`` as the status of a
NodeAllocation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from walras_service.probes import Answer, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras.resources.node_status import NodeAllocationStatus


@dataclass(slots=True)
class Health:
    """What probes are answered from.

    Attributes:
        patience: Seconds without a look after which the agent counts as dead.
        status: The last that was told.
    """

    patience: float
    status: NodeAllocationStatus | None = None
    _looked: float = field(default_factory=time.monotonic)

    def tell(self, status: NodeAllocationStatus) -> None:
        """Take the status after a look."""
        self.status, self._looked = status, time.monotonic()

    def lives(self) -> bool:
        """Whether the node is being looked at."""
        return time.monotonic() - self._looked <= self.patience

    @property
    def pages(self) -> dict[str, Callable[[], Answer]]:
        """What is answered, by path."""
        return {"/healthz": self.alive, "/readyz": self.ready, "/status": self.shown}

    def alive(self) -> Answer:
        """Whether the node is being looked at, and when that was."""
        text = f"last look {time.monotonic() - self._looked:.1f} s ago"
        return verdict([] if self.lives() else [text], text)

    def ready(self) -> Answer:
        """Whether a plan is in force."""
        if self.status is None or self.status.epoch is None:
            return verdict(["no plan has come yet"])
        return verdict([], f"epoch {self.status.epoch}")

    def shown(self) -> Answer:
        """The status, as JSON."""
        if self.status is None:
            return verdict(["the node has not been looked at yet"])
        return Answer(HTTPStatus.OK, status_json(self.status), "application/json")


def status_json(status: NodeAllocationStatus) -> str:
    """A status as a document."""
    return status.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n"
