"""Facts: a cluster in files, which answers the questions that an API server is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from walras_api.cluster import group_of
from walras_cli.cluster.connection import Cluster, Document, connect
from walras_cli.cluster.decided import DERIVED, decided, is_decided
from walras_cli.documents import InputError, read, time_of
from walras_service.api_errors import ApiError
from walras_service.failures import BadInput
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from walras_cli.cluster.options import Target
    from walras_service.kinds import Kind

_TO_MAKE_IT = (
    "make the file by `kubectl get ent,mj,sp,mkt,na,nodes,pods,ns,ds,leases -A -o yaml`; of a "
    "cluster without Walras, `walras what-if -f` says what it would have"
)


class DumpedCluster(Cluster):
    """The objects in files, as kubectl prints them, at the time of the newest of them.

    Args:
        documents: The objects.
        names: Names of the files.
        namespace: Default namespace.
        notes: Lines for people about the objects.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        names: str,
        namespace: str = "default",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.namespace, self.notes = namespace, notes
        self._files, self._documents = names, documents
        self.now = time_of(documents)

    @classmethod
    def read(cls, target: Target) -> DumpedCluster:
        """Read the files of a target.

        Raises:
            BadInput: They cannot be read, or have no object of Walras.
        """
        names, documents = ", ".join(map(str, target.files)), _documents_of(target.files)
        groups = {kind.group for kind in OURS.values()}
        if not any(group_of(str(each.get("apiVersion"))) in groups for each in documents):
            raise BadInput(f"{names}: contains no object of Walras; {_TO_MAKE_IT}")
        notes: tuple[str, ...] = ()
        if not is_decided(documents):
            documents, notes = decided(documents), (DERIVED,)
        return cls(documents, names, target.namespace or "default", notes)

    @property
    def host(self) -> str:
        """Names of the files."""
        return self._files

    def get(self, path: str, query: Mapping[str, str | int] | None = None) -> Document:  # noqa: ARG002 - an object needs none
        """Return the object at a path.

        Raises:
            ApiError: There is none in the files.
        """
        *_, plural, name = path.split("/")
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        for each in self._documents:
            if (_plural(each), _name(each)) == (plural, (namespace, name)):
                return each
        raise ApiError(f"{self._files}: contains no {plural} {name}", "missing")

    def every(self, kind: Kind, namespace: str = "", **selectors: str) -> Iterator[Document]:
        """Yield all objects of a kind, as `Cluster.every` does.

        Raises:
            ApiError: The files have none of a kind whose absence would say something else.
        """
        of_kind = [
            each
            for each in self._documents
            if _plural(each) == kind.plural and group_of(str(each.get("apiVersion"))) == kind.group
        ]
        if not of_kind and kind not in OURS.values() and kind.group:
            raise ApiError(f"{self._files}: contains no {kind.plural}", "missing")
        labels = _requirements(selectors.get("labelSelector", ""))
        fields = _requirements(selectors.get("fieldSelector", ""))
        for each in of_kind:
            if namespace and _name(each)[0] != namespace:
                continue
            own = each["metadata"].get("labels") or {}
            if all(_holds(own.get(key), *wanted) for key, *wanted in labels) and all(
                _holds(_field(each, key), *wanted) for key, *wanted in fields
            ):
                yield each


def cluster_of(target: Target) -> Cluster:
    """Return the cluster that is meant: in files, or a live one.

    Raises:
        BadInput: The files cannot be used, or there is no such kubeconfig or context.
        Failure: This is a pod without a ServiceAccount.
    """
    return DumpedCluster.read(target) if target.files else connect(target)


def _documents_of(files: Sequence[Path]) -> list[Document]:
    def kept(document: object) -> Document | None:
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(metadata, dict):
            return None
        if not metadata.get("name"):
            return None
        # An API server gives every object a UID; what people write has none.
        name = f"{document.get('kind')}/{metadata.get('namespace', '')}/{metadata['name']}"
        uid = str(uuid5(NAMESPACE_URL, name))
        return {**document, "metadata": {"uid": uid, **metadata}}

    try:
        return [each.resource for each in read(files, kept)]
    except InputError as error:
        raise BadInput(*error.problems) from error


def _plural(document: Document) -> str:
    kind = str(document.get("kind"))
    return {"PodMetrics": "pods", "NodeMetrics": "nodes"}.get(kind, f"{kind.lower()}s")


def _name(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _field(document: Document, path: str) -> str | None:
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return None if value is None else str(value)


def _requirements(selector: str) -> list[tuple[str, str, str]]:
    """Return keys, comparisons and values of a selector such as ``a=b,c!=d,e,!f``.

    Raises:
        BadInput: It is of another form.
    """
    requirements = []
    for part in filter(None, selector.split(",")):
        key, comparison, value = part, "exists", ""
        for sign in ("!=", "==", "="):
            if sign in part:
                key, _, value = part.partition(sign)
                comparison = "!=" if sign == "!=" else "="
                break
        else:
            if part.startswith("!"):
                key, comparison = part[1:], "absent"
        if not key.strip() or " " in key.strip():
            raise BadInput(f"-l {selector}: of files, write labels such as a=b,c!=d,e")
        requirements.append((key.strip(), comparison, value.strip()))
    return requirements


def _holds(value: str | None, comparison: str, wanted: str) -> bool:
    if comparison == "exists":
        return value is not None
    if comparison == "absent":
        return value is None
    return (value == wanted) == (comparison == "=")
