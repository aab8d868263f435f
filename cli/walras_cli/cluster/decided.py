"""Pure: what an operator would say of documents that none has decided on yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walras_api import kinds
from walras_api.contract import API_VERSION
from walras_cli.cluster_documents import default_market, documents_from
from walras_cli.documents import time_of
from walras_operator.decide.decision import decide
from walras_operator.decide.world import Reference, World
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_operator.decide.world import Writes

Document = dict[str, Any]

DERIVED = (
    "the files have no statuses of an operator: the figures are what the market would decide for "
    "this cluster, and no agent has reported on its CPUs"
)

_DECIDED = frozenset({"Entitlement", "MarketJob"})


def is_decided(documents: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether an operator has decided on documents, so that they have its statuses."""
    return any(each.get("kind") in _DECIDED and each.get("status") for each in documents)


def decided(documents: Sequence[Document]) -> list[Document]:
    """Return documents of a cluster with the statuses that the operator would give them."""
    found = documents_from(documents)
    world = World(
        now=rfc3339(time_of(documents)),
        objects=found.objects,
        markets=found.markets or (default_market(),),
        allocations=found.allocations,
        agents=frozenset(node.metadata.name for node in found.objects.nodes),
    )
    return with_statuses(documents, decide(world).writes())


def with_statuses(documents: Iterable[Document], writes: Writes) -> list[Document]:
    """Add to documents what a decision would write: statuses and NodeAllocations (pure)."""
    statuses = {each.object: each.status for each in writes.statuses}
    written = []
    for each in documents:
        status = statuses.pop(_reference(each), None)
        written.append(each if status is None else {**each, "status": status})
    for reference, status in statuses.items():
        written.append(
            {
                "apiVersion": API_VERSION,
                "kind": reference.kind,
                "metadata": {"name": reference.name},
                "status": status,
            }
        )
    written += [
        {
            "apiVersion": API_VERSION,
            "kind": "NodeAllocation",
            "metadata": {"name": each.node},
            "spec": {"epoch": 1, **each.spec},
        }
        for each in writes.nodes
    ]
    return written


def _reference(document: Mapping[str, Any]) -> Reference:
    metadata = document["metadata"]
    namespaced = document["kind"] in kinds.NAMESPACED
    return Reference(
        document["kind"],
        metadata["name"],
        metadata.get("namespace", "default") if namespaced else "",
    )
