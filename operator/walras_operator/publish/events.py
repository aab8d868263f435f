"""Pure: build Kubernetes Events, and limit their rate.

A decision has an Event for each transition. A failing cluster has many, and the API server stores
each of them: a token bucket limits their rate, and the rest are counted.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_api.contract import API_VERSION, OPERATOR
from walras_api.kinds import KINDS
from walras_service.kinds import EVENTS

if TYPE_CHECKING:
    from walras_operator.decide.world import Event
    from walras_service.api import Document

_MAX_MESSAGE = 1024  # characters, a limit of the API server
_MAX_NAME = 220
_CLUSTER_SCOPED = "default"  # namespace of Events about cluster-scoped objects


@dataclass(slots=True)
class TokenBucket:
    """A rate limit.

    Attributes:
        size: Most Events at once, and per minute.
    """

    size: int = 60
    _left: float = -1.0
    _last: float = 0.0

    def take(self, now: float) -> bool:
        """Return whether another Event may be sent, and count it if so."""
        if self._left < 0:
            self._left = self.size
        else:
            self._left = min(self.size, self._left + (now - self._last) * self.size / 60)
        self._last = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def namespace_of(event: Event) -> str:
    """Return the namespace in which to create an Event."""
    return event.object.namespace or _CLUSTER_SCOPED


def event_document(event: Event, instance: str, time: str) -> Document:
    """Return an Event in the API's form.

    Args:
        event: The Event to record.
        instance: Identity of the operator that reports it.
        time: Current time (RFC 3339).
    """
    regarding = event.object
    reference: Document = {
        "apiVersion": API_VERSION if _ours(regarding.kind) else "v1",
        "kind": regarding.kind,
        "name": regarding.name,
    }
    if regarding.namespace:
        reference["namespace"] = regarding.namespace
    if regarding.uid:
        reference["uid"] = regarding.uid
    return {
        "apiVersion": EVENTS.api_version,
        "kind": "Event",
        "metadata": {
            "name": f"{regarding.name[:_MAX_NAME].rstrip('.-')}.{uuid.uuid4().hex[:16]}",
            "namespace": namespace_of(event),
        },
        "involvedObject": reference,
        "type": event.type,
        "reason": event.reason[:128],
        "message": event.message[:_MAX_MESSAGE],
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": OPERATOR},
        "reportingComponent": OPERATOR,
        "reportingInstance": instance[:128],
    }


def _ours(kind: str) -> bool:
    return kind in KINDS or kind == "NodeAllocation"
