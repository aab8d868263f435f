"""Pure: rows of ``walras top`` as rows of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_dashboard.models import JobFigures, JobSummary, Lending, NodeSummary, User

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from walras_api.entitlement import EntitlementStatus
    from walras_view.explain.lending import Partner
    from walras_view.facts import Facts
    from walras_view.rows.jobs import JobRow
    from walras_view.rows.nodes import NodeRow
    from walras_view.rows.users import UserRow as TopUser

POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.cluster.x-k8s.io/pool",
    "pool",
)
"""Labels by which providers name the pool of a node, in order of precedence."""


def job_figures(row: JobRow) -> dict[str, Any]:
    """Return the figures of a job by field of `JobFigures`."""
    enforced = bool(row.pods) and row.enforced == row.pods
    return {
        "namespace": row.namespace,
        "name": row.name,
        "user": row.entitlement,
        "state": "Enforced" if enforced else row.reason,
        "reason": row.message,
        "node": node_of(row),
        "bought": row.cores,
        "held": row.held,
        "used": row.used,
        "speedup": row.speedup,
        "price": row.price,
        "spend": row.spend,
        "memory": row.memory,
        "memory_used": row.memory_used,
        "parallel_fraction": row.parallel_fraction,
        "source": row.source,
    }


def node_of(row: JobRow) -> str:
    """Return the node of a job's pods, or how many nodes they have."""
    nodes = {pod.node for pod in row.each if pod.node}
    return next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else ""


def job_of(row: JobRow) -> JobSummary:
    """Return a job in a list."""
    return JobSummary(**job_figures(row), pods=row.pods)


SORTED_BY = frozenset({*JobFigures.model_fields, "pods"})
"""Fields of a job that a list can be sorted by."""


def figure_of(row: JobRow, field: str) -> Any:
    """Return one figure of a job, without making its row."""
    return row.pods if field == "pods" else job_figures(row)[field]


def node_figures(facts: Facts, row: NodeRow) -> dict[str, Any]:
    """Return the figures of a node by field of `NodeSummary`."""
    node = facts.nodes.get(row.name)
    free = None if row.cores is None else max(row.cores - (row.sold or 0.0), 0.0)
    return {
        "name": row.name,
        "pool": None if node is None else _pool(node.metadata.labels),
        "state": row.agent,
        "message": row.message,
        "cores": row.cores,
        "sold": row.sold,
        "free": free,
        "used": row.used,
        "price": row.price,
        "memory": _memory(facts, row.name),
        "memory_granted": row.memory,
        "agent_alive": facts.leases.agents.get(row.name, False) if facts.leases.known else None,
        "pods": row.pods,
    }


def node_of_top(facts: Facts, row: NodeRow) -> NodeSummary:
    """Return a node in a list."""
    return NodeSummary(**node_figures(facts, row))


def _pool(labels: Mapping[str, str]) -> str | None:
    return next((labels[each] for each in POOL_LABELS if labels.get(each)), None)


def _memory(facts: Facts, name: str) -> float | None:
    """Return the memory that pods may use, or where that may not be seen all of it."""
    node, allocation = facts.nodes.get(name), facts.allocations.get(name)
    if node is not None and node.memory:
        return node.memory
    topology = None if allocation is None else allocation.status.topology
    return float(topology.memory) if topology and topology.memory.isdecimal() else None


def user_figures(facts: Facts, row: TopUser, partners: Sequence[Partner] | None) -> dict[str, Any]:
    """Return the figures of an Entitlement by field of `UserFigures`.

    Args:
        facts: Facts about the cluster.
        row: Row of the Entitlement.
        partners: Users that it lends to or borrows from; None if they are unknown.
    """
    status = facts.entitlements[row.name].status
    return {
        "name": row.name,
        "parent": row.parent,
        "depth": row.depth,
        "shares": row.shares,
        "budget_share": row.budget_share,
        "state": row.reason,
        "message": row.message,
        "entitled": row.cores.entitled,
        "bought": row.cores.allocated,
        "held": row.cores.held,
        "used": row.cores.used,
        "lent": None if partners is None else _sum(each.cores for each in partners),
        "borrowed": None if partners is None else _sum(-each.cores for each in partners),
        "memory_entitled": row.memory.entitled,
        "memory_granted": row.memory.allocated,
        "memory_used": row.memory.used,
        "credits": row.credits_above_mean,
        "utility": row.utility,
        "entitlement_utility": row.entitlement_utility,
        "gain": row.gain,
        "price": mean_price(status),
        "pods": row.pods,
        "below": is_below(status),
    }


def _sum(cores: Iterable[float]) -> float:
    """Return the sum of the numbers above zero."""
    return sum(each for each in cores if each > 0)


def mean_price(status: EntitlementStatus) -> float | None:
    """Return the mean price of a core that an Entitlement bought."""
    bought = 0.0 if status.cores is None else float(status.cores.allocated)
    spend = sum(float(each.spend) for each in status.spend_by_node)
    return (spend + float(status.other_spend or 0)) / bought if bought else None


def is_below(status: EntitlementStatus) -> bool:
    """Return whether an Entitlement's jobs have less than the utility of its share."""
    return any(each.type == "Entitled" and each.status == "False" for each in status.conditions)


def user_of(facts: Facts, row: TopUser, partners: Sequence[Partner] | None) -> User:
    """Return an Entitlement in a list."""
    return User(**user_figures(facts, row, partners), jobs=row.jobs)


def loans_of(
    facts: Facts, partners: Mapping[str, Sequence[Partner]], memory_of: Iterable[str]
) -> list[Lending]:
    """Return what Entitlements lend, the most cores first.

    Args:
        facts: Facts about the cluster.
        partners: Cores lent to others (positive), by lender.
        memory_of: Entitlements whose loans of memory are counted.
    """
    cores = {
        (lender, each.name): each.cores
        for lender, of_lender in partners.items()
        for each in of_lender
        if each.cores > 0
    }
    memory: dict[tuple[str, str], float] = {}
    for lender in memory_of:
        credits_ = facts.entitlements[lender].status.credits
        for loan in () if credits_ is None else credits_.lent:
            memory[lender, loan.entitlement or ""] = float(loan.memory)
    found = [
        Lending(lender=lender, borrower=borrower, cores=cores.get(key), memory=memory.get(key))
        for key in {**cores, **memory}
        for lender, borrower in (key,)
    ]
    return sorted(
        found,
        key=lambda each: (-(each.cores or 0.0), -(each.memory or 0.0), each.lender, each.borrower),
    )
