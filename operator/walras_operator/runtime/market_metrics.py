"""Facts: how the market does, as Prometheus wants it told: who claims and holds what, and prices.

All of it is in statuses, so that an operator that stands by tells the same as the one that leads,
and nothing is left of an entitlement or a node that is gone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prometheus_client.core import GaugeMetricFamily

from walras_operator.market_statuses import USED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from walras_operator.world import World

_OF_ENTITLEMENTS = {
    "entitled_cores": ("Cores that an entitlement's share of all is.", ("cores", "entitled")),
    "allocated_cores": ("Cores that an entitlement bought.", ("cores", "allocated")),
    "held_cores": ("Cores that an entitlement's jobs hold.", ("cores", "held")),
    "entitled_memory_bytes": ("Memory that its share of all is.", ("memory", "entitled")),
    "allocated_memory_bytes": ("Memory granted to its jobs.", ("memory", "allocated")),
    "utility": ("Weighted mean of its jobs' predicted speedups.", ("utility", "now")),
    "entitlement_utility": ("The same at bare entitlement.", ("utility", "atEntitlement")),
    "credits": ("Karma's credits.", ("credits", "balance")),
}
_OF_THE_MARKET = {
    "system_progress": ("Budget-weighted mean of utilities.", ("scores", "systemProgress")),
    "proportional_progress": (
        "The same if every node were divided by shares.",
        ("scores", "proportionalProgress"),
    ),
}


class MarketPresent:
    """What is so at the moment of a scrape (``prometheus_client.registry.Collector``).

    Args:
        world: Everything that the operator knows.
    """

    def __init__(self, world: Callable[[], World]) -> None:
        self._world = world

    def collect(self) -> Iterator[Metric]:
        """Look."""
        world = self._world()
        claims = {each.metadata.name: each.status or {} for each in world.objects.entitlements}
        for name, (meaning, path) in _OF_ENTITLEMENTS.items():
            family = _family(name, meaning, "entitlement")
            for entitlement, status in claims.items():
                _add(family, [entitlement], _number(status, path))
            yield family
        for market in world.markets:
            if market.metadata.name == USED:
                yield from _of_the_market(market.status or {})


def _of_the_market(status: Mapping[str, Any]) -> Iterator[Metric]:
    prices = _family("core_price", "Of a core of a node; 1 is the cluster's average.", "node")
    for each in status.get("prices") or ():
        _add(prices, [str(each.get("node"))], _number(each, ("price",)))
    yield prices
    for name, (meaning, path) in _OF_THE_MARKET.items():
        family = _family(name, meaning)
        _add(family, [], _number(status, path))
        yield family


def _family(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"walras_operator_{name}", meaning, labels=labels)


def _add(family: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _number(status: Any, path: tuple[str, ...]) -> float | None:
    """A number in a status, to which others than the operator may have written; None if none."""
    for name in path:
        status = status.get(name) if isinstance(status, dict) else None
    try:
        value = float(status)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
