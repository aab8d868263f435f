"""Pure: what the mirror keeps of an object, and which changes of it matter to a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras_api.market_job import JobData, MarketJob
from walras_api.model import Resource
from walras_api.parse import ResourceError, parse_allocation, parse_object
from walras_operator.decide.conditions import clipped
from walras_operator.decide.status.objects import OWN_KINDS
from walras_operator.decide.world import MOST_REPORTED, Broken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_service.api import Document

_MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 1000
_MEASURES = frozenset({"memoryDemand", "usedCpus"})


@dataclass(frozen=True, slots=True)
class CachedObject:
    """An object in the mirror.

    Attributes:
        name: Namespace and name of the object.
        version: The resourceVersion.
        value: A model of `walras_api`, or `Broken` if the object is invalid.
        epoch: Epoch of a NodeAllocation; 0 for other kinds.
        reported: Epoch that the node's agent reports to enforce; 0 for other kinds.
        size: Bytes that it takes, if users write such objects; 0 for other kinds.
    """

    name: tuple[str, str]
    version: str
    value: Any
    epoch: int = 0
    reported: int = 0
    size: int = 0

    @classmethod
    def read(cls, kind: str, document: Document) -> CachedObject:
        """Parse an object from the API server, or note what is wrong with it."""
        metadata = document["metadata"]
        epochs = _epoch(document), _reported(document)
        name, version = name_of(metadata), metadata["resourceVersion"]
        return cls(name, version, _understood(kind, document), *epochs)


@dataclass(frozen=True, slots=True)
class CachedAllocation:
    """Identity and epochs of a NodeAllocation as last seen.

    Attributes:
        uid: UID of the object.
        version: The resourceVersion.
        epoch: Epoch in its spec; 0 if the object is invalid.
        reported: Epoch that the node's agent reports to enforce; 0 if it reports none.
    """

    uid: str
    version: str
    epoch: int = 0
    reported: int = 0

    @classmethod
    def read(cls, document: Document) -> CachedAllocation:
        """Parse a NodeAllocation from the API server."""
        metadata = document["metadata"]
        uid, version = metadata["uid"], metadata["resourceVersion"]
        return cls(uid, version, _epoch(document), _reported(document))


def is_news(kind: str, before: Any, after: Any, *, own_status: bool) -> bool:
    """Return whether a change of an object may matter to a decision.

    Args:
        kind: Kind of the object.
        before: What was kept of it.
        after: What is kept of it now.
        own_status: Whether only the operator writes its status.
    """
    if own_status and isinstance(before, Resource) and isinstance(after, Resource):
        return without_status(before) != without_status(after)
    if kind == "NodeAllocation":
        return bool(_without_measures(before) != _without_measures(after))
    return bool(before != after)


def sharing(before: Any, after: Any) -> Any:
    """Return an object of Walras's kinds with what is equal of its spec and metadata from before.

    What follows from these alone then need not be computed again after a change of the status
    (`walras_api.kept`).
    """
    if not isinstance(after, Resource) or type(before) is not type(after):
        return after
    fields = ("metadata", "spec")
    same = {each: getattr(before, each) for each in fields if hasattr(before, each)}
    same = {each: value for each, value in same.items() if value == getattr(after, each)}
    return after.model_copy(update=same)


def as_broken(problems: Sequence[str], document: Document) -> Broken:
    """Return what is kept of an invalid object; its owner can make it have any number of faults."""
    shown = tuple(clipped(each, _LONGEST_PROBLEM) for each in problems[:_MOST_PROBLEMS])
    status = document.get("status") if document["kind"] in OWN_KINDS else None
    return Broken(shown, document["metadata"].get("generation", 0), status)


def without_own_status(value: Any) -> Any:
    """Return an object without its status if it is of Walras's kinds."""
    return value.model_copy(update={"status": None}) if isinstance(value, Resource) else value


def without_status(resource: Resource | Broken) -> tuple[Any, ...]:
    """Return what users can change of an object."""
    if isinstance(resource, Broken):
        return resource.problems, resource.generation
    metadata = resource.metadata
    return metadata.labels, metadata.generation, getattr(resource, "spec", None)


def is_older(version: str, known: str) -> bool:
    """Return whether one resourceVersion of an object is known to come before another of it."""
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)


def name_of(metadata: Document) -> tuple[str, str]:
    """Return the namespace and name in an object's metadata."""
    return metadata.get("namespace", ""), metadata["name"]


def _understood(kind: str, document: Document) -> Any:
    try:
        if kind == "NodeAllocation":
            parsed: Any = parse_allocation(document, "ignore")
        else:
            parsed = parse_object(document)
    except ResourceError as error:
        return as_broken(error.problems, document)
    if isinstance(parsed, MarketJob) and parsed.spec.command is not None:
        unread = {"command": parsed.spec.command[:1], "env": [], "data": JobData()}
        return parsed.model_copy(update={"spec": parsed.spec.model_copy(update=unread)})
    return parsed


def _without_measures(allocation: Any) -> Any:
    """Return a NodeAllocation without memory demands, which wait, and without CPUs in use.

    They change on all nodes at any time; to clear the market for each would never end.
    """
    status = allocation.status if isinstance(allocation, Resource) else None
    if not isinstance(status, dict) or not isinstance(status.get("pods"), list):
        return allocation
    pods = [
        {field: value for field, value in pod.items() if field not in _MEASURES}
        for pod in status["pods"]
        if isinstance(pod, dict)
    ]
    return allocation.model_copy(update={"status": {**status, "pods": pods}})


def _epoch(document: Document, part: str = "spec") -> int:
    content = document.get(part)
    epoch = content.get("epoch") if isinstance(content, dict) else None
    return epoch if isinstance(epoch, int) else 0


def _reported(document: Document) -> int:
    epoch = _epoch(document, "status")
    return epoch if epoch <= MOST_REPORTED else 0
