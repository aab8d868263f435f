"""Effects: what the agent writes at the API server.

It writes the status of the NodeAllocation of its node, and a Lease of its own.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from walras_api.contract import AGENT, AGENT_LEASE, LEASE_LABEL, agent_lease
from walras_service.api import MERGE, OPERATIONS, Document
from walras_service.api import Api as Server
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES, OURS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kubernetes.client import Configuration

_log = logging.getLogger(__name__)

_PLANS = OURS["NodeAllocation"]

_TIMEOUTS = (5.0, 15.0)  # seconds to connect, and to wait for an answer


class AgentClient:
    """Client of the API server for one thread of the agent.

    Args:
        configuration: Address and credentials of the API server.
        node: Name of this node.
    """

    def __init__(self, configuration: Configuration, node: str) -> None:
        self.node = node
        self._server = Server(configuration, AGENT, connections=1)
        self._owned = True

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
