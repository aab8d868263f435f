"""Facts: the kinds that the commands ask a cluster for, besides those of `walras_service.kinds`."""

from __future__ import annotations

from walras_service.kinds import OURS, Kind

ENTITLEMENTS = OURS["Entitlement"]
JOBS = OURS["MarketJob"]
MARKETS = OURS["Market"]
NODE_ALLOCATIONS = OURS["NodeAllocation"]

NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "nodes")
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "pods", namespaced=True)


def resource(kind: Kind) -> str:
    """Return what kubectl calls a kind."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural
