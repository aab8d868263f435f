"""Facts: metrics of the market, for Prometheus: entitlements, allocations and prices.

All values are read from statuses. A standby operator therefore exposes the same values as the
leader, and deleted entitlements and nodes leave nothing behind.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from prometheus_client.core import GaugeMetricFamily

from walras_operator.decide.conditions import conditions_of, listed, number_at
from walras_operator.metrics.market_sample import loans, spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from walras_operator.decide.world import World

_OF_ENTITLEMENTS = {
    "entitled_cores": ("Cores that the entitlement is worth.", ("cores", "entitled")),
    "bought_cores": ("Cores that the entitlement bought.", ("cores", "bought")),
    "held_cores": ("Cores that jobs of the entitlement hold.", ("cores", "held")),
    "entitled_memory_bytes": ("Memory that the entitlement is worth.", ("memory", "entitled")),
    "granted_memory_bytes": (
        "Memory granted to jobs of the entitlement.",
        ("memory", "granted"),
    ),
    "utility": (
        "Weighted mean of the predicted speedups of the entitlement's jobs on the cores they hold.",
        ("utility", "now"),
    ),
    "entitlement_utility": (
        "Utility that the entitlement would have without any trade.",
        ("utility", "atEntitlement"),
    ),
    "credits": ("Karma credits of the entitlement.", ("credits", "balance")),
    "core_credit_hours": (
        "Core-hours that others owe the entitlement; negative if it owes.",
        ("coreCredits", "coreHours"),
    ),
    "budget_factor": (
        "Budget of the entitlement relative to the one by its shares alone.",
        ("coreCredits", "budgetFactor"),
    ),
}
_COMPUTED: dict[str, tuple[str, Callable[[Mapping[str, Any]], float | None]]] = {
    "spent_cores": (
        "What the entitlement pays for its cores, in cores at the mean price.",
        spent,
    ),
    "lent_memory_bytes": (
        "Memory that the entitlement lends.",
        lambda status: loans(status, "lent"),
    ),
    "borrowed_memory_bytes": (
        "Memory that the entitlement borrows.",
        lambda status: loans(status, "borrowed"),
    ),
}
_OF_THE_MARKET = {
    "system_progress": (
        "Mean utility of all entitlements, weighted by budget.",
        ("scores", "systemProgress"),
    ),
    "proportional_progress": (
        "Mean utility if every node were divided by shares alone, weighted by budget.",
        ("scores", "proportionalProgress"),
    ),
}
_OF_NODE_POOLS = {
    "node_pool_nodes": ("Nodes of the pool that sell cores.", ("nodes",)),
    "node_pool_cores": ("Cores that nodes of the pool sell.", ("cores",)),
    "node_pool_core_price": (
        "Averaged price of a core of the pool; 1 is the average of the cluster.",
        ("price",),
    ),
    "node_pool_core_value": (
        "Averaged total speedup that one more core would add; a job alone on a core has 1.",
        ("coreValue",),
    ),
    "node_pool_node_progress": (
        "Averaged relative gain in system progress by one more node of the pool.",
        ("oneMore", "progress"),
    ),
    "node_pool_node_speedup": (
        "Averaged total speedup that one more node of the pool would add.",
        ("oneMore", "speedup"),
    ),
    "node_pool_recommended_nodes": (
        "Averaged number of nodes of the pool that are worth their price.",
        ("recommendedNodes",),
    ),
    "node_pool_unmet_memory_bytes": (
        "Averaged memory that jobs on nodes of the pool could use beyond their grants.",
        ("unmetMemory",),
    ),
    "node_pool_memory_value": (
        "Averaged part of one more GiB in the pool that jobs would use at once.",
        ("memoryValue",),
    ),
}


_OF_PREDICTIONS = {
    "predictions": ("Predictions that came true, of objects that exist.", ("number",)),
    "prediction_coverage": (
        "Part of the predictions that came within one stated error; 0.68 if these are right.",
        ("coverage",),
    ),
    "prediction_width": (
        "Mean stated error, as a part of the time looked ahead, or of a progress.",
        ("width",),
    ),
    "prediction_crps": (
        "Mean continuous ranked probability score, as a part of the same; 0 is perfect.",
        ("crps",),
    ),
    "prediction_widening": (
        "Factor by which stated errors were too small.",
        ("widening",),
    ),
}


class MarketGauges:
    """Gauges that are computed at each scrape (``prometheus_client.registry.Collector``).

    Args:
        world: Returns everything that the operator knows.
    """

    def __init__(self, world: Callable[[], World]) -> None:
        self._world = world

    def collect(self) -> Iterator[Metric]:
        """Yield all gauges."""
        world = self._world()
        claims = {each.metadata.name: each.status or {} for each in world.objects.entitlements}
        for name, (meaning, path) in _OF_ENTITLEMENTS.items():
            family = _family(name, meaning, "entitlement")
            for entitlement, status in claims.items():
                _add(family, [entitlement], number_at(status, *path))
            yield family
        for name, (meaning, compute) in _COMPUTED.items():
            family = _family(name, meaning, "entitlement")
            for entitlement, status in claims.items():
                _add(family, [entitlement], compute(status))
            yield family
        yield _deadlines(world)
        if world.market is not None:
            yield from _of_the_market(world.market.status or {})


def _deadlines(world: World) -> Metric:
    """Return the number of jobs with a deadline, by the reason of their condition OnTime."""
    reasons = Counter(
        str(on_time.get("reason"))
        for job in world.objects.jobs
        if job.status is not None and "deadline" in job.status
        if (on_time := conditions_of(job.status).get("OnTime")) is not None
    )
    family = _family("deadlines", "Jobs with a deadline, by what is expected of it.", "reason")
    for reason, number in sorted(reasons.items()):
        _add(family, [reason], number)
    return family


def _of_the_market(status: Mapping[str, Any]) -> Iterator[Metric]:
    prices = _family(
        "core_price", "Price of a core on the node; 1 is the average of the cluster.", "node"
    )
    for each in status.get("prices") or ():
        _add(prices, [str(each.get("node"))], number_at(each, "price"))
    yield prices
    pools = list(listed(status, "nodePools"))
    for name, (meaning, path) in _OF_NODE_POOLS.items():
        family = _family(name, meaning, "pool")
        for each in pools:
            _add(family, [str(each.get("name"))], number_at(each, *path))
        yield family
    for name, (meaning, path) in _OF_PREDICTIONS.items():
        family = _family(name, meaning, "of")
        for each in listed(status, "predictions"):
            _add(family, [str(each.get("of"))], number_at(each, *path))
        yield family
    for name, (meaning, path) in _OF_THE_MARKET.items():
        family = _family(name, meaning)
        _add(family, [], number_at(status, *path))
        yield family


def _family(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"walras_operator_{name}", meaning, labels=labels)


def _add(family: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)
