"""Effects: freezes the grants of nodes where they are, or lets them change again.

A pause is a field of each NodeAllocation, the object that an agent follows. While it is set, the
API server refuses every later plan of the node, whoever writes one, so a pause needs no operator,
and holds against one that has not heard of it. The Market's own field keeps nodes that have no plan
yet from getting one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from walras_api.contract import MARKET_NAME
from walras_cli.cluster.connection import CONNECTIONS, MARKETS, NODE_ALLOCATIONS
from walras_service.api import MERGE
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import RenderableType

    from walras_cli.cluster.connection import Cluster, Document

_SAID = frozenset({"Changed", "Unchanged"})

ROUNDS = 5
"""Times that the nodes are listed, until none is left that has to change."""


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What became of a node.

    Attributes:
        name: Name of the node.
        grants: Pods with a grant.
        state: Changed; Unchanged if it was so before; Failed.
        problem: Why it failed; empty otherwise.
    """

    name: str
    grants: int
    state: Literal["Changed", "Unchanged", "Failed"]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PauseOutcome:
    """What a pause, or its end, has done.

    Attributes:
        paused: Whether grants are paused now, where nothing has failed.
        market: What became of the Market; empty where only some nodes were named.
        nodes: What became of nodes, by name.
    """

    paused: bool
    market: Literal["", "Changed", "Unchanged", "Missing"]
    nodes: Sequence[NodeOutcome]

    @property
    def failed(self) -> list[NodeOutcome]:
        """Nodes that could not be changed."""
        return [each for each in self.nodes if each.state == "Failed"]

    def document(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "paused": self.paused,
            "market": self.market or None,
            "nodes": [asdict(each) for each in self.nodes],
        }

    def render(self, *, wide: bool) -> list[RenderableType]:  # noqa: ARG002 - there are no columns
        """Return it for people."""
        return [self._sentence(), *(f"{each.name}: {each.problem}" for each in self.failed)]

    def _sentence(self) -> str:
        right = [each for each in self.nodes if each.state != "Failed"]
        same = sum(each.state == "Unchanged" for each in right)
        grants = sum(each.grants for each in right)
        already = f" ({same} of them already)" if same else ""
        if self.paused:
            new = "; nodes without a plan get none" if self.market in _SAID else ""
            return (
                f"{len(right)} nodes are paused{already}: the grants of {grants} pods stay{new}. "
                "Go on with: walras resume"
            )
        return f"{len(right)} nodes go on{already}: the operator decides anew on {grants} grants"


def set_paused(
    cluster: Cluster, *, paused: bool, nodes: Collection[str] = frozenset()
) -> PauseOutcome:
    """Pause nodes, or let them go on, and say what became of each.

    Nodes that get their first plan meanwhile, or whose plan changes at the same moment, are seen
    when the nodes are listed again.

    Args:
        cluster: The cluster.
        paused: Whether to pause.
        nodes: Names of the nodes; all nodes, and the Market, if not given.

    Raises:
        ApiError: The cluster cannot be asked, or the Market may not be changed.
    """
    market: Literal["", "Changed", "Unchanged", "Missing"] = ""
    if not nodes:
        market = _set_market(cluster, paused=paused)
    outcomes: dict[str, NodeOutcome] = {}
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for _ in range(ROUNDS):
            there = [
                each
                for each in cluster.every(NODE_ALLOCATIONS)
                if not nodes or each["metadata"]["name"] in nodes
            ]
            late = [each for each in there if _is_paused(each) != paused]
            for each in there:
                name, grants = each["metadata"]["name"], len(each["spec"].get("grants") or ())
                outcomes.setdefault(name, NodeOutcome(name, grants, "Unchanged"))
            if not late:
                break
            for outcome in pool.map(lambda each: _set_node(cluster, each, paused=paused), late):
                outcomes[outcome.name] = outcome
    missing = {name: NodeOutcome(name, 0, "Failed", "has no NodeAllocation") for name in nodes}
    return PauseOutcome(paused, market, [each for _, each in sorted((missing | outcomes).items())])


def _set_market(cluster: Cluster, *, paused: bool) -> Literal["Changed", "Unchanged", "Missing"]:
    path = MARKETS.path(name=MARKET_NAME)
    try:
        market = cluster.get(path)
    except ApiError as error:
        if error.reason != "missing":
            raise
        return "Missing"
    if _is_paused(market) == paused:
        return "Unchanged"
    _patch(cluster, path, paused=paused)
    return "Changed"


def _set_node(cluster: Cluster, allocation: Document, *, paused: bool) -> NodeOutcome:
    name, grants = allocation["metadata"]["name"], len(allocation["spec"].get("grants") or ())
    try:
        _patch(cluster, NODE_ALLOCATIONS.path(name=name), paused=paused)
    except ApiError as error:
        return NodeOutcome(name, grants, "Failed", str(error))
    return NodeOutcome(name, grants, "Changed")


def _patch(cluster: Cluster, path: str, *, paused: bool) -> None:
    change = {"spec": {"paused": True if paused else None}}
    cluster.api.request("PATCH", path, change, content_type=MERGE)


def _is_paused(document: Document) -> bool:
    return bool((document.get("spec") or {}).get("paused"))
