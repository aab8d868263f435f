"""Effects: write single objects, by server-side apply where the API server has it.

A NodeAllocation is written on condition that it still has the UID and resourceVersion last seen, so
that writes of a former leader fail. A server-side apply cannot require that an object does not
exist yet. A new NodeAllocation is therefore first created by POST, with epoch 0 and without grants,
which no agent with a plan accepts, and then applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.resources.contract import API_VERSION, OPERATOR
from walras_operator.runtime.mirror import CachedAllocation
from walras_service.api import APPLY
from walras_service.api_errors import ApiError
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from walras_operator.world import JobWrite, NodeWrite, ProfileWrite, Reference
    from walras_service.api import Api, Document
    from walras_service.kinds import Kind

_OWNED = {"fieldManager": OPERATOR}


class Applier:
    """Writes objects; safe for concurrent use.

    Args:
        api: Connections to the API server.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._unsupported: set[str] = set()  # kinds without server-side apply

    def status(self, object_: Reference, status: Document, version: str = "") -> Document:
        """Replace the status of an object, and return the object.

        Args:
            object_: Object that has the status.
            status: The whole new status.
            version: The resourceVersion that the object must have; empty for any.

        Raises:
            ApiError: The status is unchanged. A conflict also means that the object was recreated.
        """
        kind = OURS[object_.kind]
        metadata: Document = {"name": object_.name}
        if object_.namespace:
            metadata["namespace"] = object_.namespace
        if object_.uid:
            metadata["uid"] = object_.uid
        if version:
            metadata["resourceVersion"] = version
        document = {**_head(object_.kind, metadata), "status": status}
        return self._write(kind, kind.path(object_.namespace, object_.name), document, "status")

    def allocation(self, write: NodeWrite, epoch: int, known: CachedAllocation | None) -> Document:
        """Create or change a NodeAllocation, and return it.

        Args:
            write: The new NodeAllocation.
            epoch: Epoch of the decision.
            known: The NodeAllocation as last seen; None to create it.

        Raises:
            ApiError: It is unchanged; a conflict if it is not the version last seen.
        """
        kind = OURS["NodeAllocation"]
        if known is None:
            known = CachedAllocation.read(self._made(write))
        metadata = {
            **_metadata(write),
            "uid": known.uid,
            "resourceVersion": known.version,
        }
        document = {**_head("NodeAllocation", metadata), "spec": {**write.spec, "epoch": epoch}}
        return self._write(kind, kind.path(name=write.node), document)

    def profile(self, write: ProfileWrite) -> Document:
        """Create a SpeedupProfile unless one of its name exists; return the one that exists then.

        Raises:
            ApiError: The API server cannot be asked, or refuses.
        """
        kind, namespace = OURS["SpeedupProfile"], write.object.namespace
        try:
            return self._api.request("POST", kind.path(namespace), write.document, query=_OWNED)
        except ApiError as error:
            if error.reason != "conflict":
                raise
            return self._api.request("GET", kind.path(namespace, write.object.name))

    def job(self, write: JobWrite) -> Document:
        """Create, change or delete a MarketJob; return it as it is then, or was last.

        Raises:
            ApiError: It is unchanged, because the API server cannot be asked, or refuses, or
                because another object of its name exists.
        """
        kind, object_ = OURS["MarketJob"], write.object
        path = kind.path(object_.namespace, object_.name)
        if write.document is None:
            only_this = {"preconditions": {"uid": object_.uid}}
            return self._api.request("DELETE", path, only_this)
        if not object_.uid:
            collection = kind.path(object_.namespace)
            return self._api.request("POST", collection, write.document, query=_OWNED)
        metadata = {**write.document["metadata"], "uid": object_.uid}
        return self._replaced(path, path, {**write.document, "metadata": metadata}, "spec")

    def read(self, node: str) -> Document | None:
        """Return the current NodeAllocation of a node; None if there is none.

        Raises:
            ApiError: The API server cannot be asked, or refuses.
        """
        return self._api.find(OURS["NodeAllocation"].path(name=node))

    def _made(self, write: NodeWrite) -> Document:
        document = {**_head("NodeAllocation", _metadata(write)), "spec": {"epoch": 0}}
        path = OURS["NodeAllocation"].path()
        return self._api.request("POST", path, document, query=_OWNED)

    def _write(self, kind: Kind, path: str, document: Document, part: str = "") -> Document:
        """Apply a document; replace the object where apply is unsupported or refused.

        Kubernetes 1.20 turns a list into null when an apply removes its last item, and then refuses
        the null.
        """
        target = f"{path}/{part}" if part else path
        if kind.plural not in self._unsupported:
            try:
                return self._api.request(
                    "PATCH", target, document, content_type=APPLY, query=_OWNED | {"force": True}
                )
            except ApiError as error:
                if error.reason == "unsupported":
                    self._unsupported.add(kind.plural)
                elif error.reason != "invalid":
                    raise
        return self._replaced(path, target, document, part or "spec")

    def _replaced(self, path: str, target: str, document: Document, part: str) -> Document:
        found = self._api.request("GET", path)
        for field in ("uid", "resourceVersion"):
            wanted = document["metadata"].get(field)
            if wanted and wanted != found["metadata"][field]:
                raise ApiError(f"{path}: the object has changed since the decision", "conflict")
        if part == "spec":
            found["metadata"]["ownerReferences"] = document["metadata"]["ownerReferences"]
        found[part] = document[part]
        return self._api.request("PUT", target, found, query=_OWNED)


def _head(kind: str, metadata: Document) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}


def _metadata(write: NodeWrite) -> Document:
    owner = {"apiVersion": "v1", "kind": "Node", "name": write.node, "uid": write.node_uid}
    return {"name": write.node, "ownerReferences": [owner]}
