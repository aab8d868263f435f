"""Metrics of the market equal the figures in statuses."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from full_statuses import FULL
from kind_documents import document
from walras_api.assembly import Objects
from walras_api.parse import parse_object
from walras_operator.decide.world import World
from walras_operator.metrics.market_metrics import MarketGauges


def told(entitlement: dict[str, Any] | None, market: dict[str, Any] | None) -> CollectorRegistry:
    """A registry that has read a world of one Entitlement, `team`, and the Market `default`."""
    claim: Any = parse_object(
        {**document("Entitlement"), "metadata": {"name": "team"}, "status": entitlement}
    )
    rules: Any = parse_object(
        {**document("Market"), "metadata": {"name": "default"}, "status": market}
    )
    world = World("", objects=Objects(entitlements=[claim]), markets=[rules])
    registry = CollectorRegistry()
    registry.register(MarketGauges(lambda: world))
    return registry


def test_claims_and_prices_are_those_of_the_statuses() -> None:
    claim, market = FULL["Entitlement"].document(), FULL["Market"].document()
    registry = told(claim, market)
    team = {"entitlement": "team"}
    for metric, value in {
        "entitled_cores": claim["cores"]["entitled"],
        "bought_cores": claim["cores"]["bought"],
        "held_cores": claim["cores"]["held"],
        "entitled_memory_bytes": claim["memory"]["entitled"],
        "granted_memory_bytes": claim["memory"]["granted"],
        "utility": claim["utility"]["now"],
        "entitlement_utility": claim["utility"]["atEntitlement"],
        "credits": claim["credits"]["balance"],
        "core_credit_hours": claim["coreCredits"]["coreHours"],
        "budget_factor": claim["coreCredits"]["budgetFactor"],
        "spent_cores": float(claim["spendByNode"][0]["spend"]) + float(claim["otherSpend"]),
        "lent_memory_bytes": claim["credits"]["lent"][0]["memory"],
        "borrowed_memory_bytes": claim["credits"]["borrowed"][0]["memory"],
    }.items():
        assert registry.get_sample_value(f"walras_operator_{metric}", team) == float(value), metric
    price = market["prices"][0]
    sold = registry.get_sample_value("walras_operator_core_price", {"node": price["node"]})
    assert sold == float(price["price"])
    predictions = {
        "of": "Finish",
        "number": 9,
        "coverage": "0.5",
        "width": "0.1",
        "crps": "0.07",
        "widening": "1.4",
    }
    scored = told(claim, {**market, "predictions": [predictions]})
    for metric, field in {
        "predictions": "number",
        "prediction_coverage": "coverage",
        "prediction_width": "width",
        "prediction_crps": "crps",
        "prediction_widening": "widening",
    }.items():
        value = scored.get_sample_value(f"walras_operator_{metric}", {"of": "Finish"})
        assert value == float(predictions[field]), metric  # type: ignore[arg-type]
    (pool,) = market["nodePools"]
    for metric, value in {
        "nodes": pool["nodes"],
        "cores": pool["cores"],
        "core_price": pool["price"],
        "core_value": pool["coreValue"],
        "node_progress": pool["oneMore"]["progress"],
        "node_speedup": pool["oneMore"]["speedup"],
        "recommended_nodes": pool["recommendedNodes"],
        "unmet_memory_bytes": pool["unmetMemory"],
        "memory_value": pool["memoryValue"],
    }.items():
        name = f"walras_operator_node_pool_{metric}"
        assert registry.get_sample_value(name, {"pool": pool["name"]}) == float(value), metric
    progress = registry.get_sample_value("walras_operator_system_progress")
    assert progress == float(market["scores"]["systemProgress"])


@pytest.mark.parametrize(
    "claim",
    [None, {"cores": None}, {"cores": {"entitled": "much"}}, {"cores": {"entitled": "NaN"}}],
)
def test_what_is_not_known_is_not_told(claim: dict[str, Any] | None) -> None:
    pools = [{"name": "p", "oneMore": None, "price": "?"}, "q"]
    registry = told(claim, {"prices": [{"node": "a"}], "nodePools": pools})
    team = {"entitlement": "team"}
    assert registry.get_sample_value("walras_operator_entitled_cores", team) is None
    assert registry.get_sample_value("walras_operator_core_price", {"node": "a"}) is None
    for metric in ("core_price", "node_progress", "recommended_nodes"):
        name = f"walras_operator_node_pool_{metric}"
        assert registry.get_sample_value(name, {"pool": "p"}) is None
