"""Facts: a whole cluster as the operator knows it, for decisions that nobody carries out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from walras_api.contract import GROUP
from walras_api.market_status import MarketStatus
from walras_cli.cluster.asking import leases_of
from walras_cli.cluster.connection import CONNECTIONS
from walras_operator.watch.kinds import Scope
from walras_operator.watch.mirror import Mirror
from walras_service.api_errors import ApiError
from walras_service.failures import Failure
from walras_service.kinds import NAMESPACES, NODES, PODS, WORKLOADS, Kind
from walras_service.times import rfc3339

if TYPE_CHECKING:
    from walras_cli.cluster.connection import Cluster
    from walras_operator.decide.world import World
    from walras_operator.watch.kinds import Watched


QUOTAS = Kind("", "v1", "resourcequotas", namespaced=True)
CLUSTER_QUEUES = Kind("kueue.x-k8s.io", "v1beta1", "clusterqueues")
LOCAL_QUEUES = Kind("kueue.x-k8s.io", "v1beta1", "localqueues", namespaced=True)

_NEEDED = (NODES, PODS, NAMESPACES)
_OPTIONAL = (QUOTAS, CLUSTER_QUEUES, LOCAL_QUEUES)


def knows_walras(cluster: Cluster) -> bool:
    """Return whether a cluster serves kinds of Walras.

    Raises:
        ApiError: It cannot be asked.
    """
    try:
        cluster.get(f"/apis/{GROUP}")
    except ApiError as error:
        if error.reason not in {"missing", "forbidden"}:
            raise
        return error.reason == "forbidden"
    return True


def documents_of_cluster(cluster: Cluster) -> list[dict[str, Any]]:
    """Return nodes, pods and namespaces of any cluster, and quotas and queues as far as it has any.

    Raises:
        Failure: Nodes, pods or namespaces may not be listed.
        ApiError: The cluster cannot be asked.
    """

    def ask(kind: Kind) -> list[dict[str, Any]]:
        try:
            return list(cluster.every(kind))
        except ApiError as error:
            if kind in _OPTIONAL and error.reason in {"missing", "forbidden"}:
                return []
            if error.reason != "forbidden":
                raise
            raise Failure(
                f"{cluster.host}: you have no right to list {kind.resource} in all namespaces; ask "
                f"an administrator for it, or for the output of `kubectl get nodes,pods,ns -A -o "
                f"yaml` to use with -f"
            ) from error

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return [each for documents in pool.map(ask, (*_NEEDED, *_OPTIONAL)) for each in documents]


def world_of(cluster: Cluster) -> World:
    """Read all that a decision depends on.

    Raises:
        Failure: some of it may not be seen; a market cannot be cleared on a part of it.
        ApiError: the cluster cannot be asked.
    """
    # MarketJobs of labelled workloads are there already.
    kinds = {
        kind: each
        for kind, each in Scope("").kinds.items()
        if kind != "Lease" and kind not in WORKLOADS
    }
    mirror = Mirror(kinds, lambda _: None, lambda: 0.0)

    def receive(watched: Watched) -> str | None:
        try:
            for document in cluster.every(watched.kind, **watched.selectors):
                mirror.receive(watched.name, document)
        except ApiError as error:
            if error.reason != "forbidden":
                raise
            return f"list {watched.kind.resource}"
        return None

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        withheld = [right for right in pool.map(receive, kinds.values()) if right is not None]
    if withheld:
        raise Failure(
            f"{cluster.host}: you have no right to {', '.join(withheld)} in all namespaces, which "
            f"what-if needs; ask an administrator of the cluster for these rights, or for a dump "
            f"to use with --from (see walras what-if -h)"
        )
    world = mirror.world(rfc3339(cluster.now))
    agents = _agents(cluster, world)
    return replace(world, agents=_reporting(world) if agents is None else agents)


def _agents(cluster: Cluster, world: World) -> frozenset[str] | None:
    """Return nodes whose agent lives; None if one cannot see that."""
    try:
        leases = leases_of(cluster, _market_status(world))
    except ApiError as error:
        if error.reason not in {"forbidden", "missing"}:
            raise
        return None
    if not leases.known:
        return None
    return frozenset(node for node, alive in leases.agents.items() if alive)


def _market_status(world: World) -> MarketStatus:
    """Return the status of the Market; an empty one if it cannot be read."""
    try:
        return MarketStatus.read((world.market.status if world.market else None) or {})
    except ValidationError:
        return MarketStatus()


def _reporting(world: World) -> frozenset[str]:
    """Return nodes whose agent has ever reported anything."""
    return frozenset(node for node, each in world.allocations.items() if each.status)
