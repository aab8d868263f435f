"""Pure choice: which Kubernetes Events are told, and their form.

It is the older one, of the core: that of events.k8s.io is refused by servers as old as 1.20 where
it is about an object of a CustomResourceDefinition that is in no namespace.

A decision has an Event for every transition. A cluster that falls apart has many, and Events are
objects that the API server keeps: no more are told than fit in a bucket, the others are counted.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras.resources.kinds import API_VERSION, KINDS
from walras_service.kinds import EVENTS

if TYPE_CHECKING:
    from walras_operator.world import Event
    from walras_service.api import Document

COMPONENT = "walras-operator"
"""Who tells."""

_LONGEST = 1024  # characters of a message, as the API server has it
_LONGEST_NAME = 220
_ELSEWHERE = "default"  # where Events about objects without a namespace belong


@dataclass(slots=True)
class Bucket:
    """Lets through so many at once, and so many a minute.

    Attributes:
        size: How many at once, and a minute.
    """

    size: int = 60
    _left: float = -1.0
    _last: float = 0.0

    def take(self, now: float) -> bool:
        """Whether another one may go."""
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
    """Where an Event belongs."""
    return event.object.namespace or _ELSEWHERE


def event_document(event: Event, instance: str, time: str) -> Document:
    """An Event as the API server takes it.

    Args:
        event: What happened.
        instance: Which operator tells.
        time: RFC 3339.
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
            "name": f"{regarding.name[:_LONGEST_NAME].rstrip('.-')}.{uuid.uuid4().hex[:16]}",
            "namespace": namespace_of(event),
        },
        "involvedObject": reference,
        "type": event.type,
        "reason": event.reason[:128],
        "message": event.message[:_LONGEST],
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance[:128],
    }


def _ours(kind: str) -> bool:
    return kind in KINDS or kind == "NodeAllocation"
