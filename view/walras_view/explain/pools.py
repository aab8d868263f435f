"""Pure: what more or fewer nodes of each pool would change, and how many are worth their price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras.analysis.pool_effects import WITHOUT_VALUES, NodesEffect, UserChange
from walras_view.figures import amount, number, ready_condition
from walras_view.notes import headline_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_api.market_status import (
        MarketStatus,
        NodePoolReport,
        NodesEffectReport,
        UserChangeReport,
    )
    from walras_view.facts import ApiObject, Facts


@dataclass(frozen=True, slots=True)
class PricedEffect(NodesEffect):
    """The effect of one node more or less, with its worth.

    Attributes:
        worth_per_hour: Worth of the change of speedup for an hour; None without
            ``valuePerCoreHour``.
        progress_error: Standard error of the change of progress; None for one node less.
    """

    worth_per_hour: float | None = None
    progress_error: float | None = None


@dataclass(frozen=True, slots=True)
class PoolExplanation:
    """A node pool; all figures but counts are averaged over time.

    Attributes:
        name: Name of the pool.
        nodes: Number of nodes that sell cores.
        cores: Number of cores that they sell.
        price: Mean price of a core, where 1 is the cluster's average; 0 if nobody pays.
        core_value: Total speedup that one more core would add; None if it cannot be computed.
        one_more: Effect of one more node; None likewise.
        one_less: Effect of one node less; None likewise, and for the only node.
        recommended_nodes: Number of nodes that are worth their price; None if that is unknown.
        price_per_node_hour: Price of one node for one hour; None if it is not set.
        advice: Reason why no number is recommended, and how to get one; empty if one is.
        unmet_memory: Bytes that jobs could use beyond their grants; None if memory is not divided.
        memory_value: Part of one more GiB that jobs would use at once; None likewise.
    """

    name: str
    nodes: int
    cores: float
    price: float
    core_value: float | None
    one_more: PricedEffect | None
    one_less: PricedEffect | None
    recommended_nodes: int | None
    price_per_node_hour: float | None
    advice: str
    unmet_memory: int | None
    memory_value: float | None


@dataclass(frozen=True, slots=True)
class PredictionsExplanation:
    """How good predictions of one kind were that came true.

    Attributes:
        of: What was predicted: ``Finish`` (ends of jobs), ``Gain`` (of moved cores), ``Penalty``
            (beside a co-runner), ``Speedup`` (by F) or ``Node`` (of one more node).
        number: Number of predictions.
        coverage: Part of them that came within one stated error.
        width: Mean stated error, as a part of the time that ends looked ahead, or of progress.
        crps: Mean continuous ranked probability score, as a part of the same.
        widening: Factor by which errors were too small, at least 1.
    """

    of: str
    number: int
    coverage: float
    width: float
    crps: float
    widening: float


@dataclass(frozen=True, slots=True)
class ClusterExplanation:
    """The whole market, by node pool.

    Attributes:
        headline: The market in a line; empty where it is not known.
        value_per_core_hour: Worth of the work of one core in an hour; None if it is not set.
        pools: Node pools by name.
        other_pools: Number of further pools, which the status does not list.
        predictions: How good predictions were that came true.
        ready: Status of the condition ``Ready``.
        reason: Reason of the condition ``Ready``.
        message: Message of the condition ``Ready``.
    """

    headline: str
    value_per_core_hour: float | None
    pools: tuple[PoolExplanation, ...]
    other_pools: int
    predictions: tuple[PredictionsExplanation, ...]
    ready: str
    reason: str
    message: str


def explain_cluster(facts: Facts, market: ApiObject[MarketStatus]) -> ClusterExplanation:
    """Explain the market of a cluster by its node pools.

    Args:
        facts: Facts about the cluster, with its Market.
        market: The Market that is used.
    """
    ready, status = ready_condition(market), market.status
    rules = market.spec.get("nodePools") or {}
    mechanism = "" if status.solver is None else status.solver.mechanism
    return ClusterExplanation(
        headline=headline_of(facts),
        value_per_core_hour=number(rules.get("valuePerCoreHour")),
        pools=explain_pools(status.node_pools, mechanism, rules),
        other_pools=status.other_node_pools or 0,
        predictions=explain_predictions(status),
        ready=ready.status,
        reason=ready.reason,
        message=ready.message,
    )


def explain_predictions(status: MarketStatus) -> tuple[PredictionsExplanation, ...]:
    """Return how good the predictions of each kind were that came true."""
    return tuple(
        PredictionsExplanation(
            each.of,
            each.number,
            *map(float, (each.coverage, each.width, each.crps, each.widening)),
        )
        for each in status.predictions
    )


def explain_pools(
    pools: Sequence[NodePoolReport], mechanism: str, rules: Mapping[str, Any]
) -> tuple[PoolExplanation, ...]:
    """Explain the signals of node pools.

    Args:
        pools: Signals as they stand in the Market's status.
        mechanism: Mechanism that divided the cores.
        rules: The Market's ``spec.nodePools``, as the API server gives it.
    """
    worth = number(rules.get("valuePerCoreHour"))
    prices = {each["pool"]: float(each["perNodeHour"]) for each in rules.get("prices") or ()}
    return tuple(_pool(each, mechanism, worth, prices.get(each.name)) for each in pools)


def _pool(
    pool: NodePoolReport, mechanism: str, worth: float | None, price: float | None
) -> PoolExplanation:
    return PoolExplanation(
        name=pool.name,
        nodes=pool.nodes,
        cores=float(pool.cores),
        price=float(pool.price),
        core_value=number(pool.core_value),
        one_more=_effect(pool.one_more, worth),
        one_less=_effect(pool.one_less, worth),
        recommended_nodes=pool.recommended_nodes,
        price_per_node_hour=price,
        advice=_advice(pool, mechanism, worth, price),
        unmet_memory=amount(pool.unmet_memory),
        memory_value=number(pool.memory_value),
    )


def _advice(pool: NodePoolReport, mechanism: str, worth: float | None, price: float | None) -> str:
    if pool.recommended_nodes is not None:
        return ""
    if pool.core_value is None:
        if mechanism in WITHOUT_VALUES:
            return (
                f"{mechanism} does not say what more nodes would bring; `walras what-if -m "
                f"AmdahlBidding --node-pools` shows what they would bring in a market of speedups"
            )
        return "the market of this pool could not be solved exactly enough to tell"
    missing = [
        *(["valuePerCoreHour"] if worth is None else []),
        *([f"a price of pool {pool.name}"] if price is None else []),
    ]
    if missing:
        return f"for a recommended number of nodes, set {' and '.join(missing)} in spec.nodePools"
    return "the operator has not used the prices yet; it will within a few minutes"


def _effect(effect: NodesEffectReport | None, worth: float | None) -> PricedEffect | None:
    if effect is None:
        return None
    speedup = float(effect.speedup)
    return PricedEffect(
        progress=float(effect.progress),
        speedup=speedup,
        worth_per_hour=None if worth is None else worth * speedup,
        progress_error=number(effect.progress_error),
        gaining=_users(effect.gaining),
        losing=_users(effect.losing),
    )


def _users(users: Sequence[UserChangeReport]) -> tuple[UserChange, ...]:
    return tuple(UserChange(each.user, float(each.utility), float(each.part)) for each in users)
