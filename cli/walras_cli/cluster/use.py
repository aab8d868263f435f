"""Facts: the memory of pods, and what nodes use, where something in a cluster or its files has it.

The metrics API (``metrics.k8s.io``, which metrics-server and others serve) is the only source: the
agents of nodes count the CPU time of pods with a grant, and nothing else.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from walras_api.api_object import quantity
from walras_service.api_errors import ApiError
from walras_service.kinds import Kind
from walras_view.facts import Use, Used

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_cli.cluster.connection import Cluster

NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "nodes")
_GROUP = "metrics.k8s.io/"
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "pods", namespaced=True)

_UNKNOWN = "use of memory and by nodes is unknown"


def use_of(cluster: Cluster, namespace: str) -> Use:
    """Ask a cluster for what its pods and nodes use.

    Args:
        cluster: Connection to the cluster.
        namespace: Namespace of the pods; empty for all.

    Raises:
        ApiError: the API server cannot be reached.
    """
    with ThreadPoolExecutor(2) as pool:
        asked = [
            pool.submit(_items, cluster, POD_METRICS, namespace),
            pool.submit(_items, cluster, NODE_METRICS, ""),
        ]
    pods, nodes = (each.result() for each in asked)
    missing = dict.fromkeys(each for each in (pods, nodes) if isinstance(each, str))
    return Use(
        None if isinstance(pods, str) else _of_pods(pods),
        None if isinstance(nodes, str) else _of_nodes(nodes),
        tuple(missing),
        "" if isinstance(pods, str) else "the metrics API",
    )


def use_in(documents: Iterable[Mapping[str, Any]]) -> Use:
    """Return what pods and nodes use by the PodMetrics and NodeMetrics among documents."""
    measured = [each for each in documents if str(each.get("apiVersion")).startswith(_GROUP)]
    pods = [each for each in measured if each.get("kind") == "PodMetrics"]
    nodes = [each for each in measured if each.get("kind") == "NodeMetrics"]
    return Use(
        _of_pods(pods) if pods else None,
        _of_nodes(nodes) if nodes else None,
        source="PodMetrics" if pods else "",
    )


def _items(cluster: Cluster, kind: Kind, namespace: str) -> list[Any] | str:
    """Return all objects of a kind, or of one's own namespace, or why there are none to be had."""
    try:
        return list(cluster.every(kind, namespace))
    except ApiError as error:
        if error.reason == "missing":
            return f"{_UNKNOWN}: the cluster does not serve metrics.k8s.io; install metrics-server"
        if error.reason == "forbidden" and kind.namespaced and not namespace:
            return _items(cluster, kind, cluster.namespace)
        if error.reason == "forbidden":
            where = f" in namespace {namespace}" if namespace else ""
            return (
                f"{_UNKNOWN}: you have no right to list {kind.plural}.{kind.group}{where}; ask an "
                f"administrator of the cluster for it"
            )
        if error.reason == "unreachable":
            raise
        return f"{_UNKNOWN}: {error}; check that metrics-server runs"


def _of_pods(measured: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Used]:
    """Return what pods use, without those of which that cannot be read: files may hold anything."""
    used = {}
    for each in measured:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            metadata, containers = each["metadata"], each.get("containers") or ()
            used[metadata.get("namespace", "default"), metadata["name"]] = _sum(containers)
    return used


def _of_nodes(measured: Iterable[Mapping[str, Any]]) -> dict[str, Used]:
    used = {}
    for each in measured:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            used[each["metadata"]["name"]] = _sum([each])
    return used


def _sum(measured: Iterable[Mapping[str, Any]]) -> Used:
    usages = [each.get("usage") or {} for each in measured]
    return Used(
        float(sum(quantity(each.get("cpu", 0)) for each in usages)),
        int(sum(quantity(each.get("memory", 0)) for each in usages)),
    )
