"""Pure: rows of ``walras top`` with what the page has beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_api.market import POOL_LABELS
from walras_api.supply import pool_of
from walras_dashboard.models import Lending, NodeSummary, UserSummary
from walras_view.documents import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_api.entitlement import EntitlementStatus
    from walras_view.explain.lending import Partner
    from walras_view.facts import Facts
    from walras_view.rows.nodes import NodeRow
    from walras_view.rows.users import UserRow


def node_summary(facts: Facts, row: NodeRow, starving: int) -> NodeSummary:
    """Return a node with what it has.

    Args:
        facts: Facts about the cluster.
        row: Row of the node.
        starving: Number of its pods that starve.
    """
    node = facts.nodes.get(row.name)
    return NodeSummary(
        **values(row),
        pool=None if node is None else pool_of(node, _pool_labels(facts)),
        memory_for_pods=memory_for_pods(facts, row.name),
        agent_alive=facts.leases.agents.get(row.name, False) if facts.leases.known else None,
        starving=starving,
    )


def _pool_labels(facts: Facts) -> Sequence[str]:
    """Return the labels that name pools, as the Market says."""
    rules = {} if facts.market is None else facts.market.spec.get("nodePools") or {}
    return rules.get("labels") or POOL_LABELS


def memory_for_pods(facts: Facts, name: str) -> float | None:
    """Return the memory that pods may use, or where that may not be seen all of it."""
    node, allocation = facts.nodes.get(name), facts.allocations.get(name)
    if node is not None and node.memory:
        return node.memory
    topology = None if allocation is None else allocation.status.topology
    return float(topology.memory) if topology and topology.memory.isdecimal() else None


def user_summary(facts: Facts, row: UserRow, partners: Sequence[Partner] | None) -> UserSummary:
    """Return an Entitlement with what it trades.

    Args:
        facts: Facts about the cluster.
        row: Row of the Entitlement.
        partners: Users that it lends to or borrows from; None if they are unknown.
    """
    status = facts.entitlements[row.name].status
    return UserSummary(
        **values(row),
        lent=None if partners is None else _sum(each.cores for each in partners),
        borrowed=None if partners is None else _sum(-each.cores for each in partners),
        price=mean_price(status),
        below=is_below(status),
    )


def _sum(cores: Iterable[float]) -> float:
    """Return the sum of the numbers above zero."""
    return sum(each for each in cores if each > 0)


def mean_price(status: EntitlementStatus) -> float | None:
    """Return the mean price of a core that an Entitlement bought."""
    bought = 0.0 if status.cores is None else float(status.cores.bought)
    spend = sum(float(each.spend) for each in status.spend_by_node)
    return (spend + float(status.other_spend or 0)) / bought if bought else None


def is_below(status: EntitlementStatus) -> bool:
    """Return whether an Entitlement's jobs have less than the utility of its share."""
    return any(each.type == "Entitled" and each.status == "False" for each in status.conditions)


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
    loans = [
        Lending(lender=lender, borrower=borrower, cores=cores.get(key), memory=memory.get(key))
        for key in {**cores, **memory}
        for lender, borrower in (key,)
    ]
    return sorted(
        loans,
        key=lambda each: (-(each.cores or 0.0), -(each.memory or 0.0), each.lender, each.borrower),
    )
