"""Effects: write single objects.

What the operator decides is replaced as a whole, a NodeAllocation's spec or an object's status, by
JSON patches on condition that it is still the object, and the version, that the decision knew: so
writes of a former leader fail. Server-side apply would merge instead, and keep a field that was
once written in another way, such as the file of the last measurement beside the page of the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_api.contract import API_VERSION, OPERATOR
from walras_operator.watch.cached_objects import CachedAllocation
from walras_service.api import OPERATIONS
from walras_service.api_errors import ApiError
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from typing import Any

    from walras_operator.decide.world import AutomaticWrite, NodeWrite, ProfileWrite, Reference
    from walras_service.api import Api, Document

_OWNED = {"fieldManager": OPERATOR}

_UNTRACKED: Document = {"/metadata/managedFields": [{}]}
"""A change after which the API server no longer tracks who wrote which field of an object.

For a NodeAllocation, which only the operator and its node's agent write, that would be more than
half of the object, and a third of the API server's time for a write.
"""


class ObjectWriter:
    """Writes objects; safe for concurrent use.

    Args:
        api: Connections to the API server.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    def status(self, object_: Reference, status: Document, version: str = "") -> Document:
        """Replace the status of an object, and return the object.

        Args:
            object_: Object that has the status.
            status: The whole new status.
            version: The resourceVersion that the object must have; empty for any.

        Raises:
            ApiError: The status is unchanged. If the object was recreated, that is a conflict, or
                without a version, it is missing.
        """
        path = OURS[object_.kind].path(object_.namespace, object_.name)
        return self._patched(path, object_.uid, version, {"/status": status}, "/status")

    def allocation(self, write: NodeWrite, epoch: int, known: CachedAllocation | None) -> Document:
        """Create or change a NodeAllocation, and return it.

        Args:
            write: The new NodeAllocation.
            epoch: Epoch of the decision.
            known: The NodeAllocation as last seen; None to create it.

        Raises:
            ApiError: It is unchanged; a conflict if it is not the version last seen.
        """
        if known is None:
            known = CachedAllocation.read(self._made(write))
        spec = {**write.spec, "epoch": epoch}
        changes = {"/metadata/ownerReferences": [_owner(write)], "/spec": spec, **_UNTRACKED}
        path = OURS["NodeAllocation"].path(name=write.node)
        return self._patched(path, known.uid, known.version, changes)

    def profile(self, write: ProfileWrite) -> Document | None:
        """Create a SpeedupProfile, and return it; None if one of its name exists.

        Raises:
            ApiError: The API server cannot be asked, or refuses.
        """
        kind, namespace = OURS["SpeedupProfile"], write.object.namespace
        try:
            return self._api.request("POST", kind.path(namespace), write.document, query=_OWNED)
        except ApiError as error:
            if error.reason != "conflict":
                raise
            return None

    def automatic(self, write: AutomaticWrite, version: str = "") -> Document:
        """Create, change or delete an object of the operator's own; return it as it is or was last.

        Args:
            write: The object.
            version: The resourceVersion that it must have if it exists; empty for any.

        Raises:
            ApiError: It is unchanged, because the API server cannot be asked, or refuses, or
                because another object of its name exists.
        """
        object_ = write.object
        kind = OURS[object_.kind]
        path = kind.path(object_.namespace, object_.name)
        if write.document is None:
            known = {"uid": object_.uid, **({"resourceVersion": version} if version else {})}
            only_this = {"preconditions": known}
            return self._api.request("DELETE", path, only_this)
        if not object_.uid:
            collection = kind.path(object_.namespace)
            return self._api.request("POST", collection, write.document, query=_OWNED)
        owners = write.document["metadata"].get("ownerReferences")
        changes = {} if owners is None else {"/metadata/ownerReferences": owners}
        changes["/spec"] = write.document["spec"]
        return self._patched(path, object_.uid, version, changes)

    def read(self, node: str) -> Document | None:
        """Return the current NodeAllocation of a node; None if there is none.

        Raises:
            ApiError: The API server cannot be asked, or refuses.
        """
        return self._api.find(OURS["NodeAllocation"].path(name=node))

    def _made(self, write: NodeWrite) -> Document:
        """Create a NodeAllocation without grants, whose epoch no agent with a plan accepts."""
        document = {
            "apiVersion": API_VERSION,
            "kind": "NodeAllocation",
            "metadata": {"name": write.node, "ownerReferences": [_owner(write)]},
            "spec": {"epoch": 0},
        }
        path = OURS["NodeAllocation"].path()
        return self._api.request("POST", path, document, query=_OWNED)

    def _patched(
        self,
        path: str,
        uid: str,
        version: str,
        changes: dict[str, Any],
        subresource: str = "",
    ) -> Document:
        """Replace parts of an object, and return it.

        Args:
            path: Path of the object.
            uid: UID that the object must have; empty for any.
            version: The resourceVersion that it must have; empty for any.
            changes: New values, by JSON pointer.
            subresource: Subresource that they are of, with a slash.

        Raises:
            ApiError: The object is unchanged; a conflict if it is another version. If it is another
                object, that is a conflict, or without a version, it is missing.
        """
        operations: list[Document] = []
        if uid:
            operations.append({"op": "test", "path": "/metadata/uid", "value": uid})
        if version:  # unlike a test that fails, an old version is told from a bad value
            pointer = "/metadata/resourceVersion"
            operations.append({"op": "replace", "path": pointer, "value": version})
        operations += (
            {"op": "add", "path": pointer, "value": value} for pointer, value in changes.items()
        )
        try:
            return self._api.request(
                "PATCH", path + subresource, operations, content_type=OPERATIONS, query=_OWNED
            )
        except ApiError as error:
            if error.reason == "invalid" and uid:
                present = self._api.request("GET", path)["metadata"]["uid"]
                if present != uid:
                    text = f"{path}: the object has been recreated since the decision"
                    raise ApiError(text, "conflict" if version else "missing") from error
            raise


def _owner(write: NodeWrite) -> Document:
    return {"apiVersion": "v1", "kind": "Node", "name": write.node, "uid": write.node_uid}
