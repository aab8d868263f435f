"""Pure: average the signals of node pools over time, and report them in the Market's status.

Prices follow every pod that comes or goes, and nobody should add a node for a pod of a minute. Each
signal is therefore an exponentially weighted mean: a sample that comes t seconds after the last one
counts 1 - exp(-t / 600), and the first sample counts alone. Numbers of nodes and cores are facts,
and users that gain or lose are those of the last sample; neither is averaged.

The gain by one more node errs by what the market differs from the model, whose pods are spread
evenly, and by what the average is late.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from walras_api.market_status import NodePoolReport, NodesEffectReport, UserChangeReport
from walras_operator.decide.numbers import figure, thousandths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.analysis.node_pools import NodePool, NodePools
    from walras.analysis.pool_effects import NodesEffect, UserChange
    from walras_api.market_status import NodeGain

TIME_CONSTANT = 600.0
"""Seconds after which a change of a signal shows by 63 %."""


LEAST_ERROR = 0.01
"""Error that every gain has at least, as a part of progress: which pods meet on a node differs by
chance, as it does in `tests/operator/test_node_gains.py`."""


class PoolAverage(NamedTuple):
    """Averages of one pool.

    Attributes:
        pool: Signals with their averages, and the facts and users of the last sample.
        recommended: Average of the recommended number of nodes; None as in the last sample.
        error: Standard error of the relative gain by one more node.
    """

    pool: NodePool
    recommended: float | None
    error: float

    def report(self, widened: float) -> NodePoolReport:
        """Return the averages as they stand in the Market's status, with errors widened so far."""
        pool = self.pool
        return NodePoolReport(
            name=pool.name,
            nodes=pool.nodes,
            cores=thousandths(pool.cores),
            price=figure(pool.price),
            core_value=_figure(pool.core_value),
            one_more=_effect(pool.one_more, self.error * widened),
            one_less=_effect(pool.one_less),
            recommended_nodes=None if self.recommended is None else round(self.recommended),
            unmet_memory=None if pool.unmet_memory is None else str(pool.unmet_memory),
            memory_value=_figure(pool.memory_value),
        )


class PoolAverages(NamedTuple):
    """Averages of all pools that have been sampled.

    Attributes:
        pools: Averages by name of the pool; none before the first sample.
        others: Number of pools that the last sample left out.
    """

    pools: Mapping[str, PoolAverage]
    others: int = 0

    def after(self, sample: NodePools, seconds: float) -> PoolAverages:
        """Return the averages with another sample.

        Args:
            sample: Signals of all pools now; pools that are not in it are forgotten.
            seconds: Time since the last sample.
        """
        weight = -math.expm1(-seconds / TIME_CONSTANT)
        pools = {
            each.name: _averaged(self.pools.get(each.name), each, weight, sample.unevenness)
            for each in sample.pools
        }
        return PoolAverages(pools, sample.others)

    def reports(self, widened: float = 1.0) -> NodePoolReports:
        """Return the averages as they stand in the Market's status, with errors widened so far."""
        pools = tuple(each.report(widened) for each in self.pools.values())
        return NodePoolReports(pools, self.others, widened)


class NodePoolReports(NamedTuple):
    """Signals of node pools for the Market's status.

    Attributes:
        pools: Signals of the pools that are listed.
        others: Number of pools that are left out.
        widened: Factor in the errors of gains by one more node.
        gains: What nodes brought that were added since this operator leads.
    """

    pools: tuple[NodePoolReport, ...]
    others: int = 0
    widened: float = 1.0
    gains: tuple[NodeGain, ...] = ()


def _averaged(
    before: PoolAverage | None, now: NodePool, weight: float, unevenness: float
) -> PoolAverage:
    if before is None:
        return PoolAverage(now, now.recommended, max(abs(unevenness), LEAST_ERROR))
    averages = before.pool
    unmet = _mean(averages.unmet_memory, now.unmet_memory, weight)
    pool = replace(
        now,
        price=averages.price + weight * (now.price - averages.price),
        core_value=_mean(averages.core_value, now.core_value, weight),
        one_more=_mean_effect(averages.one_more, now.one_more, weight),
        one_less=_mean_effect(averages.one_less, now.one_less, weight),
        unmet_memory=None if unmet is None else round(unmet),
        memory_value=_mean(averages.memory_value, now.memory_value, weight),
    )
    late = 0.0
    if pool.one_more is not None and now.one_more is not None:
        late = now.one_more.progress - pool.one_more.progress
    error = max(math.hypot(unevenness, late), LEAST_ERROR)
    return PoolAverage(pool, _mean(before.recommended, now.recommended, weight), error)


def _mean(before: float | None, now: float | None, weight: float) -> float | None:
    """Return the mean of two values; the new one alone where the old one is unknown."""
    if before is None or now is None:
        return now
    return before + weight * (now - before)


def _mean_effect(
    before: NodesEffect | None, now: NodesEffect | None, weight: float
) -> NodesEffect | None:
    if before is None or now is None:
        return now
    return replace(
        now,
        progress=before.progress + weight * (now.progress - before.progress),
        speedup=before.speedup + weight * (now.speedup - before.speedup),
    )


def _figure(value: float | None) -> str | None:
    return None if value is None else figure(value)


def _effect(effect: NodesEffect | None, error: float | None = None) -> NodesEffectReport | None:
    if effect is None:
        return None
    return NodesEffectReport(
        progress=figure(effect.progress),
        progress_error=_figure(error),
        speedup=figure(effect.speedup),
        gaining=_changes(effect.gaining),
        losing=_changes(effect.losing),
    )


def _changes(users: Iterable[UserChange]) -> list[UserChangeReport]:
    return [
        UserChangeReport(user=each.user, utility=figure(each.utility), part=figure(each.part))
        for each in users
    ]
