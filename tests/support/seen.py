"""The `Facts` that the command line would read in a world, made of its objects and statuses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from walras_api.entitlement import EntitlementStatus
from walras_api.market_job_status import MarketJobStatus
from walras_api.market_status import MarketStatus
from walras_api.node_allocation_status import NodeAllocationStatus
from walras_view.facts import ApiObject, Facts, Leases
from whole_decisions import decide
from worlds import outcome, world

if TYPE_CHECKING:
    from walras_api.model import Resource
    from walras_operator.decide.world import Document, World

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def decided(*documents: Document, **fields: Any) -> World:
    """Return a world after the real decision about it was written."""
    before = world(*documents, **fields)
    return outcome(before, decide(before))


def seen(of: World, **more: Any) -> Facts:
    """Return the facts that a user with all rights would read in a world."""
    known: dict[str, Any] = {
        "now": NOW,
        "entitlements": {
            each.name: each
            for each in (
                ApiObject.read(_document(x), EntitlementStatus) for x in of.objects.entitlements
            )
        },
        "jobs": {
            (each.namespace, each.name): each
            for each in (
                ApiObject.read(_document(x, x.metadata.namespace), MarketJobStatus)
                for x in of.objects.jobs
            )
        },
        "allocations": {
            name: ApiObject.read(_document(x), NodeAllocationStatus)
            for name, x in of.allocations.items()
        },
        "market": next((ApiObject.read(_document(x), MarketStatus) for x in of.markets), None),
        "nodes": {x.metadata.name: x for x in of.objects.nodes},
        "leases": Leases(known=True, operator=NOW, operator_alive=True, agents=_alive(of)),
    }
    return Facts(**{**known, **more})


def _alive(of: World) -> dict[str, bool]:
    return dict.fromkeys(of.agents, True)


def _document(resource: Resource, namespace: str = "") -> Document:
    """Return an object as the API server gives it."""
    spec = resource.model_dump(mode="json", by_alias=True, exclude_unset=True).get("spec", {})
    metadata = {"name": resource.metadata.name, "generation": resource.metadata.generation}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, "spec": spec, "status": _whole(resource.status)}


def _whole(status: Document | None) -> Document | None:
    """Return a status with the fields that `worlds` leaves out, as no decision depends on them."""
    if status is None:
        return None
    stamp = {"epoch": {"durationMilliseconds": 5, **status["epoch"]}} if "leader" in status else {}
    told = status["pods"] if isinstance(status.get("pods"), list) else []
    pods = [{"namespace": "lab", "name": "", **each} for each in told]
    return {**status, **stamp, **({"pods": pods} if pods else {})}
