"""Pure: what every node sells, to how many, at which price, and how its agent is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import computed_field

from walras_api.api_object import quantity
from walras_api.contract import agent_lease
from walras_api.supply import why_closed
from walras_view.documents import Shown
from walras_view.figures import number, used_by_node
from walras_view.text import natural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_api.market_status import NodePrice
    from walras_api.node_allocation_status import NodeAllocationStatus
    from walras_view.facts import ApiObject, Facts


@dataclass(frozen=True, slots=True)
class NodeRow(Shown):
    """A row about a node.

    Attributes:
        name: Name of the node.
        cores: Cores that it sells; None if it sells none.
        sold: Cores that are sold, parts of cores included.
        pods: Number of pods with a grant.
        used: Cores used by everything on the node.
        memory: Memory granted to pods, in bytes.
        memory_used: Memory used by everything on the node, in bytes.
        price: Price of a core; 1 is the average of the cluster. None where nobody buys any.
        mode: Mode of its plan: enforce or observe.
        epoch: Epoch of its plan.
        enforced_epoch: Epoch of the last plan that was enforced in full.
        agent: State of its agent in a word, such as Enforced, Silent or Closed.
        message: State of its agent in a sentence, or why the node sells nothing.
    """

    name: str
    cores: float | None
    sold: float | None
    pods: int
    used: float | None
    memory: int | None
    memory_used: int | None
    price: float | None
    mode: str | None
    epoch: int | None
    enforced_epoch: int | None
    agent: str
    message: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def free(self) -> float | None:
        """Cores for sale that no pod holds."""
        return None if self.cores is None else max(self.cores - (self.sold or 0.0), 0.0)


def node_rows(facts: Facts, *, selected: bool = False) -> list[NodeRow]:
    """Return all nodes by name.

    Args:
        facts: Facts about the cluster.
        selected: Whether Nodes were selected by labels: only those among the facts have rows.
    """
    prices = prices_of(facts)
    names = set(facts.nodes)
    if not selected:
        names |= prices.keys() | facts.allocations.keys()
    return [node_row(facts, name, prices.get(name)) for name in sorted(names, key=natural)]


def prices_of(facts: Facts) -> dict[str, NodePrice]:
    """Return what each node sells, by node."""
    return {} if facts.market is None else {each.node: each for each in facts.market.status.prices}


def node_row(facts: Facts, name: str, sells: NodePrice | None) -> NodeRow:
    """Return the row of a node.

    Args:
        facts: Facts about the cluster.
        name: Name of the node.
        sells: The node's cores for sale and their price (`prices_of`); None if it sells nothing.
    """
    used, memory_used = used_by_node(facts, name)
    allocation = facts.allocations.get(name)
    grants = [] if allocation is None else allocation.spec.get("grants") or []
    agent, message = agent_of(facts, name)
    return NodeRow(
        name=name,
        cores=None if sells is None else float(sells.cores),
        sold=None if allocation is None else float(_sum(grants, "cores")),
        pods=len(grants),
        used=used,
        memory=None if allocation is None else int(_sum(grants, "memory")) or None,
        memory_used=memory_used,
        price=None if sells is None else number(sells.price) or None,
        mode=None if allocation is None else allocation.spec.get("mode"),
        epoch=None if allocation is None else allocation.spec.get("epoch"),
        enforced_epoch=None if allocation is None else allocation.status.enforced_epoch,
        agent=agent,
        message=message,
    )


def agent_of(facts: Facts, name: str) -> tuple[str, str]:
    """Return how a node's agent is: a word, and a sentence."""
    node, allocation = facts.nodes.get(name), facts.allocations.get(name)
    shut = None if node is None else why_closed(node)
    if shut is not None:
        return "Closed", f"the node {shut} and sells no cores"
    if facts.leases.known and not facts.leases.agents.get(name, False):
        silent = "has not renewed its Lease" if name in facts.leases.agents else "never had a Lease"
        return (
            "Silent",
            f"its agent {silent} {agent_lease(name)}; check the agent's pod on that node",
        )
    if allocation is None:
        return "-", "the operator has not decided on it yet"
    return _reported(allocation)


def _reported(allocation: ApiObject[NodeAllocationStatus]) -> tuple[str, str]:
    ready, status = allocation.ready, allocation.status
    if ready is None:
        return "Awaited", "its agent has not reported yet"
    if ready.status == "True" and (status.epoch or 0) < allocation.spec.get("epoch", 0):
        return "Behind", f"its agent still enforces the plan of epoch {status.epoch}"
    return ready.reason, ready.message


def _sum(grants: list[Mapping[str, Any]], field: str) -> Any:
    return sum(quantity(each[field]) for each in grants if each.get(field) is not None)
