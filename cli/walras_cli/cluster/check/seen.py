"""Facts: the objects of a cluster that are checked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_api.contract import GROUP, MARKET_NAME
from walras_api.market_status import MarketStatus
from walras_cli.cluster.connection import ENTITLEMENTS, JOBS, MARKETS, NODE_ALLOCATIONS
from walras_service.api_errors import ApiError
from walras_service.kinds import NAMESPACES, PODS, Kind
from walras_view.facts import ApiObject, operator_namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_cli.cluster.connection import Cluster, Document

AGENTS = "app.kubernetes.io/part-of=walras,app.kubernetes.io/component=agent"


@dataclass(frozen=True, slots=True)
class Seen:
    """Objects of a cluster, as the API server gives them; empty where they may not be seen.

    Attributes:
        jobs: MarketJobs.
        entitlements: Entitlements.
        allocations: NodeAllocations.
        markets: Markets.
        namespaces: Namespaces.
        pods: Pods of the namespaces that are looked at.
        agents: DaemonSets with the labels of Walras's agent; those in other namespaces than the
            operator's do not count.
        autoscalers: HorizontalPodAutoscalers.
        recommenders: VerticalPodAutoscalers.
        withheld: Rights that are missing, such as ``list nodes``.
    """

    jobs: Sequence[Document] = ()
    entitlements: Sequence[Document] = ()
    allocations: Sequence[Document] = ()
    markets: Sequence[Document] = ()
    namespaces: Sequence[Document] = ()
    pods: Sequence[Document] = ()
    agents: Sequence[Document] = ()
    autoscalers: Sequence[Document] = ()
    recommenders: Sequence[Document] = ()
    withheld: Sequence[str] = field(default=())


def seen_of(cluster: Cluster, namespace: str) -> Seen:
    """Ask a cluster for all that is checked.

    Args:
        cluster: Connection to the cluster.
        namespace: Namespace to look at; empty for all.

    Raises:
        ApiError: The API server cannot be asked, or does not know Walras's kinds.
    """
    withheld: list[str] = []

    def every(kinds: Sequence[Kind], where: str = "", labels: str = "") -> list[Document]:
        """Return all objects of the first kind that the cluster has."""
        for kind in kinds:
            try:
                return list(cluster.every(kind, where, labelSelector=labels))
            except ApiError as error:
                if error.reason == "forbidden":
                    withheld.append(f"list {kind.resource}")
                    return []
                if error.reason not in {"missing", "unsupported"} or kind.group == GROUP:
                    raise
        return []

    scaling = [
        Kind("autoscaling", each, "horizontalpodautoscalers", namespaced=True)
        for each in ("v2", "v2beta2")
    ]
    vertical = [Kind("autoscaling.k8s.io", "v1", "verticalpodautoscalers", namespaced=True)]
    daemons = [Kind("apps", "v1", "daemonsets", namespaced=True)]
    with ThreadPoolExecutor() as pool:
        asked = {
            "jobs": pool.submit(every, [JOBS], namespace),
            "entitlements": pool.submit(every, [ENTITLEMENTS]),
            "allocations": pool.submit(every, [NODE_ALLOCATIONS]),
            "markets": pool.submit(every, [MARKETS]),
            "namespaces": pool.submit(every, [NAMESPACES]),
            "pods": pool.submit(every, [PODS], namespace),
            "agents": pool.submit(every, daemons, "", AGENTS),
            "autoscalers": pool.submit(every, scaling, namespace),
            "recommenders": pool.submit(every, vertical, namespace),
        }
        objects = {name: answer.result() for name, answer in asked.items()}
    if namespace:
        objects["namespaces"] = [
            each
            for each in objects["namespaces"]
            if each["metadata"]["name"] in {namespace, operator_namespace_in(objects["markets"])}
        ]
    return Seen(**objects, withheld=sorted(withheld))


def operator_namespace_in(markets: Sequence[Document]) -> str:
    """Return the namespace of the operator, as the Market says."""
    used = (each for each in markets if each["metadata"]["name"] == MARKET_NAME)
    statuses = (ApiObject.read(each, MarketStatus).status for each in used)
    return operator_namespace(next(statuses, MarketStatus()))
