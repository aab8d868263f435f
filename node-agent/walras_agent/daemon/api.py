"""Facts and their answer: the agent's objects at the API server, and no others.

It reads one NodeAllocation, that of its node, by a list and a watch with a field selector; it
writes the status of that, and a Lease of its own.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kubernetes.watch import Watch
from urllib3.exceptions import ReadTimeoutError

from walras_service.api import MERGE, OPERATIONS, Document
from walras_service.api import Api as Server
from walras_service.api_errors import ApiError, explained
from walras_service.kinds import LEASES, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kubernetes.client import Configuration

    from walras_service.api import Query

_PLANS = OURS["NodeAllocation"]

_PATIENCE = (5.0, 15.0)  # seconds to connect, and to wait for an answer
_SILENCE = 90.0
"""Seconds in which a watch must say something: since 1.19 a bookmark comes every minute or so."""


class Event(NamedTuple):
    """A change: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``, and the document."""

    kind: str
    document: Document


class Api:
    """What one thread of the agent asks of the API server.

    Args:
        found: Where it is.
        node: Name of this node.
    """

    def __init__(self, found: Configuration, node: str) -> None:
        self.node = node
        self._server = Server(found, "walras-agent", connections=1)
        self._only = {"fieldSelector": f"metadata.name={node}"}
        self._watch: Watch | None = None

    def latest(self) -> tuple[Document | None, str]:
        """The NodeAllocation of this node as it is now, and a version to follow from.

        A list, since that tells a node without a NodeAllocation (nothing in it) from a cluster
        that does not know the kind (404). Without a resourceVersion it is answered from the
        store, never from a cache that may be behind.

        Raises:
            ApiError: It was not answered.
        """
        answer = self._server.request("GET", _PLANS.path(), query=self._only, timeout=_PATIENCE)
        with explained(self._server.host, "GET", _PLANS.path()):
            if answer["kind"] != "NodeAllocationList":
                raise TypeError(f"it answers with a {answer['kind']}")
            found = [each for each in answer["items"] if each["metadata"]["name"] == self.node]
            return (found[0] if found else None), answer["metadata"]["resourceVersion"]

    def changes(self, version: str, seconds: int) -> Iterator[Event]:
        """What happens to the NodeAllocation of this node from now on.

        It ends after the seconds, or when the server is silent for long, since nobody may be there
        any more.

        Args:
            version: To follow from.
            seconds: For which to follow.

        Raises:
            ApiError: It cannot be followed any longer.
        """
        query: Query = {
            **self._only,
            "watch": True,
            "resourceVersion": version,
            "allowWatchBookmarks": True,
            "timeoutSeconds": seconds,
        }

        def opened(**_: Any) -> Any:
            return self._server.opened(_PLANS.path(), query=query, timeout=(_PATIENCE[0], _SILENCE))

        self._watch = Watch()
        follow = self._watch.stream(opened, timeout_seconds=seconds)
        with (
            explained(self._server.host, "GET", _PLANS.path()),
            contextlib.suppress(ReadTimeoutError),
        ):
            for event in follow:
                yield Event(event["type"], event["raw_object"])

    def interrupt(self) -> None:
        """End the present watch; for other threads."""
        if self._watch is not None:
            self._watch.stop()

    def write_status(self, uid: str, status: Document) -> None:
        """Replace the status of a NodeAllocation, if it is still that one.

        Raises:
            ApiError: It is as it was.
        """
        patch: list[Document] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        path = _PLANS.path(name=self.node, subresource="status")
        self._server.request("PATCH", path, patch, content_type=OPERATIONS, timeout=_PATIENCE)

    def renew_lease(self, namespace: str, seconds: int, owners: Sequence[Document]) -> None:
        """Tell that the agent of this node lives; the Lease is made if it is not there.

        Args:
            namespace: Where the Lease is.
            seconds: For how long that is to be believed.
            owners: With whom it is to go.

        Raises:
            ApiError: It was not renewed.
        """
        lease = lease_of(self.node, seconds, owners)
        path = LEASES.path(namespace, lease["metadata"]["name"])
        try:
            self._server.request("PATCH", path, lease, content_type=MERGE, timeout=_PATIENCE)
        except ApiError as error:
            if error.reason != "missing":
                raise
            self._server.request("POST", LEASES.path(namespace), lease, timeout=_PATIENCE)


def lease_of(node: str, seconds: int, owners: Sequence[Mapping[str, Any]]) -> Document:
    """A Lease that says that the agent of a node lives, and from when.

    Args:
        node: Its name.
        seconds: For how long that is to be believed.
        owners: References; it is removed with them.
    """
    return {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {
            "name": f"walras-agent-{node}",
            "labels": {"walras.dev/lease": "agent"},
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
