"""Effects: the agent's requests to the API server.

The agent reads one object, the NodeAllocation of its node, by a list and a watch with a field
selector. It writes the status of that object, and a Lease of its own.
"""

from __future__ import annotations

import contextlib
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kubernetes.watch import Watch
from urllib3.exceptions import ReadTimeoutError

from walras_api.contract import AGENT, AGENT_LEASE, LEASE_LABEL, agent_lease
from walras_service.api import MERGE, OPERATIONS, Document
from walras_service.api import Api as Server
from walras_service.api_errors import ApiError, explained
from walras_service.kinds import LEASES, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kubernetes.client import Configuration

    from walras_service.api import Query

_log = logging.getLogger(__name__)

_PLANS = OURS["NodeAllocation"]

_TIMEOUTS = (5.0, 15.0)  # seconds to connect, and to wait for an answer
_SILENCE = 90.0
"""Seconds after which a silent watch counts as dead; bookmarks come about every minute."""


class WatchEvent(NamedTuple):
    """An event of a watch.

    Attributes:
        kind: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``.
        document: The object after the change.
    """

    kind: str
    document: Document


class AgentClient:
    """Client of the API server for one thread of the agent.

    Args:
        configuration: Address and credentials of the API server.
        node: Name of this node.
    """

    def __init__(self, configuration: Configuration, node: str) -> None:
        self.node = node
        self._server = Server(configuration, AGENT, connections=1)
        self._only = {"fieldSelector": f"metadata.name={node}"}
        self._watch: Watch | None = None
        self._owned = True

    def latest(self) -> tuple[Document | None, str]:
        """Return the NodeAllocation of this node, and the resourceVersion to watch from.

        The document is None if there is no such object. It is read by a list, because a list tells
        a missing object (an empty list) from a cluster that lacks the kind (404). Without a
        resourceVersion the list is answered from the store, never from a stale cache.

        Raises:
            ApiError: The request failed.
        """
        answer = self._server.request("GET", _PLANS.path(), query=self._only, timeout=_TIMEOUTS)
        with explained(self._server.host, "GET", _PLANS.path()):
            if answer["kind"] != "NodeAllocationList":
                raise TypeError(f"the response is a {answer['kind']}")
            found = [each for each in answer["items"] if each["metadata"]["name"] == self.node]
            return (found[0] if found else None), answer["metadata"]["resourceVersion"]

    def watch(self, version: str, seconds: int) -> Iterator[WatchEvent]:
        """Yield the changes of this node's NodeAllocation.

        The watch ends after ``seconds``, or when the server has been silent for too long.

        Args:
            version: The resourceVersion after which to begin.
            seconds: Duration of the watch.

        Raises:
            ApiError: The watch failed.
        """
        query: Query = {
            **self._only,
            "watch": True,
            "resourceVersion": version,
            "allowWatchBookmarks": True,
            "timeoutSeconds": seconds,
        }

        def opened(**_: Any) -> Any:
            return self._server.opened(_PLANS.path(), query=query, timeout=(_TIMEOUTS[0], _SILENCE))

        self._watch = Watch()
        follow = self._watch.stream(opened, timeout_seconds=seconds)
        with (
            explained(self._server.host, "GET", _PLANS.path()),
            contextlib.suppress(ReadTimeoutError),
        ):
            for event in follow:
                yield WatchEvent(event["type"], event["raw_object"])

    def interrupt(self) -> None:
        """End the present watch; for calls from other threads."""
        if self._watch is not None:
            self._watch.stop()

    def write_status(self, uid: str, status: Document) -> None:
        """Replace the status of this node's NodeAllocation if the object still has this UID.

        Raises:
            ApiError: The status was not written.
        """
        patch: list[Document] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        path = _PLANS.path(name=self.node, subresource="status")
        self._server.request("PATCH", path, patch, content_type=OPERATIONS, timeout=_TIMEOUTS)

    def renew_lease(self, namespace: str, seconds: int, owners: Sequence[Document]) -> None:
        """Renew the Lease by which the agent proves that it is alive; create it if missing.

        Where the API server lets only those set the owners of an object who may delete it, the
        Lease is renewed with the owners that it has.

        Args:
            namespace: Namespace of the Lease.
            seconds: Duration of the Lease.
            owners: Owner references of the Lease.

        Raises:
            ApiError: The Lease was not renewed.
        """
        lease = lease_document(self.node, seconds, owners)
        if not self._owned:
            del lease["metadata"]["ownerReferences"]
        try:
            self._put_lease(namespace, lease)
        except ApiError as error:
            if error.reason != "forbidden" or not self._owned:
                raise
            del lease["metadata"]["ownerReferences"]
            self._put_lease(namespace, lease)
            self._owned = False  # until the process ends, so that each renewal is one request
            _log.warning("the Lease cannot be owned by its node, and will outlive it: %s", error)

    def _put_lease(self, namespace: str, lease: Document) -> None:
        """Change the Lease, or create it.

        Raises:
            ApiError: The Lease is as it was.
        """
        path = LEASES.path(namespace, lease["metadata"]["name"])
        try:
            self._server.request("PATCH", path, lease, content_type=MERGE, timeout=_TIMEOUTS)
        except ApiError as error:
            if error.reason != "missing":
                raise
            self._server.request("POST", LEASES.path(namespace), lease, timeout=_TIMEOUTS)


def lease_document(node: str, seconds: int, owners: Sequence[Mapping[str, Any]]) -> Document:
    """Return the Lease of a node's agent, renewed now.

    Args:
        node: Name of the node.
        seconds: Duration of the Lease.
        owners: Owner references; the Lease is deleted with its owners.
    """
    return {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {
            "name": agent_lease(node),
            "labels": {LEASE_LABEL: AGENT_LEASE},
            "ownerReferences": [
                {each: owner[each] for each in ("apiVersion", "kind", "name", "uid")}
                for owner in owners
            ],
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": seconds,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
