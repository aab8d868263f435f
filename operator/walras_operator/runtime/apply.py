"""Apply: one write to one object, by server-side apply where there is one.

A NodeAllocation is written under the condition that it is the very version that was last seen
(its resourceVersion and UID), so that the write of a leader whose time is over fails. An apply
cannot demand that there be nothing yet: it is made first by a POST, of epoch 0 and without grants,
which no agent takes that has a plan, and then applied like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.resources.kinds import API_VERSION
from walras_operator.runtime.mirror import Known
from walras_service.api import APPLY
from walras_service.api_errors import ApiError
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from walras_operator.world import NodeWrite, ProfileWrite, Reference
    from walras_service.api import Api, Document
    from walras_service.kinds import Kind

_OWNED = {"fieldManager": "walras-operator"}


class Applier:
    """Writes objects; for several threads.

    Args:
        api: To the API server.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._unsupported: set[str] = set()  # kinds that are not applied

    def status(self, object_: Reference, status: Document, version: str = "") -> Document:
        """Make a status another, and return the object.

        Args:
            object_: Whose.
            status: All of it.
            version: That the object must have (its resourceVersion); empty for any.

        Raises:
            ApiError: It is as it was; a conflict also if the object is another of that name.
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

    def allocation(self, write: NodeWrite, epoch: int, known: Known | None) -> Document:
        """Make a NodeAllocation another, and return it.

        Args:
            write: What it is to be.
            epoch: That it is of.
            known: As it was last seen; None to make it.

        Raises:
            ApiError: It is as it was; a conflict if it is another than the known one.
        """
        kind = OURS["NodeAllocation"]
        if known is None:
            known = Known.read(self._made(write))
        metadata = {
            **_metadata(write),
            "uid": known.uid,
            "resourceVersion": known.version,
        }
        document = {**_head("NodeAllocation", metadata), "spec": {**write.spec, "epoch": epoch}}
        return self._write(kind, kind.path(name=write.node), document)

    def profile(self, write: ProfileWrite) -> Document:
        """Make a SpeedupProfile, and return it; one that is there is left as it is, and returned.

        Raises:
            ApiError: It is not known whether there is one.
        """
        kind, namespace = OURS["SpeedupProfile"], write.object.namespace
        try:
            return self._api.request("POST", kind.path(namespace), write.document, query=_OWNED)
        except ApiError as error:
            if error.reason != "conflict":
                raise
            return self._api.request("GET", kind.path(namespace, write.object.name))

    def read(self, node: str) -> Document | None:
        """The NodeAllocation of a node as it is now; None if there is none.

        Raises:
            ApiError: It is not known.
        """
        return self._api.find(OURS["NodeAllocation"].path(name=node))

    def _made(self, write: NodeWrite) -> Document:
        document = {**_head("NodeAllocation", _metadata(write)), "spec": {"epoch": 0}}
        path = OURS["NodeAllocation"].path()
        return self._api.request("POST", path, document, query=_OWNED)

    def _write(self, kind: Kind, path: str, document: Document, part: str = "") -> Document:
        """Apply; replace where that is not known, or is refused.

        Kubernetes 1.20 makes null of a list that an apply would take the last item from, and then
        refuses that.
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
                raise ApiError(f"{path}: is another one than was decided about", "conflict")
        if part == "spec":
            found["metadata"]["ownerReferences"] = document["metadata"]["ownerReferences"]
        found[part] = document[part]
        return self._api.request("PUT", target, found, query=_OWNED)


def _head(kind: str, metadata: Document) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}


def _metadata(write: NodeWrite) -> Document:
    owner = {"apiVersion": "v1", "kind": "Node", "name": write.node, "uid": write.node_uid}
    return {"name": write.node, "ownerReferences": [owner]}
