"""Pure: the API's answer about a node, with who has which of its CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walras_dashboard.node_models import NodeDetail, NodeGrant, Owner
from walras_dashboard.topology import Ownership
from walras_view.documents import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_dashboard.models import NodeSummary
    from walras_dashboard.state import Moved
    from walras_view.explain.node import Holder, NodeExplanation
    from walras_view.facts import Facts


def node_detail(
    facts: Facts,
    explanation: NodeExplanation,
    row: NodeSummary,
    moved: tuple[Moved, ...],
    notes: list[str],
) -> NodeDetail:
    """Return everything about a node.

    Args:
        facts: Facts about the cluster.
        explanation: What ``walras explain`` says of the node.
        row: The node in a list.
        moved: Last changes of who has which CPUs, newest first.
        notes: Figures that are left out, and the way out.
    """
    allocation = facts.allocations.get(row.name)
    placed = None
    if allocation is not None:
        owners = _owners(allocation.spec.get("grants") or (), explanation.holders)
        placed = Ownership(allocation.status, owners)
    return NodeDetail(
        row=row,
        topology=None if placed is None else placed.topology(),
        pools=[] if placed is None else placed.pools(),
        grants=_grants(facts, row.name, explanation.holders),
        moved=moved,
        supply=explanation.supply,
        faults=explanation.faults,
        notes=notes,
    )


def _owners(grants: Iterable[Mapping[str, Any]], holders: Iterable[Holder]) -> dict[str, Owner]:
    """Return pods with a grant by UID."""
    by_pod = {(each.namespace, each.pod): each for each in holders}
    owners = {}
    for grant in grants:
        holder = by_pod.get((grant.get("namespace", "default"), grant["name"]))
        if holder is not None:
            owners[str(grant.get("podUID"))] = Owner(
                namespace=holder.namespace, pod=holder.pod, job=holder.job, user=holder.user
            )
    return owners


def _grants(facts: Facts, node: str, holders: Iterable[Holder]) -> list[NodeGrant]:
    allocation, used = facts.allocations.get(node), facts.use.pods or {}
    reports = () if allocation is None else allocation.status.pods
    limits = {(each.namespace, each.name): each.memory for each in reports}
    grants = []
    for each in holders:
        pod = each.namespace, each.pod
        use = used.get(pod)
        grants.append(
            NodeGrant(
                **values(each),
                memory_limit=_bytes(limits.get(pod)),
                memory_used=None if use is None else use.memory,
            )
        )
    return grants


def _bytes(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
