"""Pure: what nodes brought that were added, beside what their pools had told that one more would.

What one more node brings is told of the pods that run, once they have spread over it, and of a node
with the mean of its pool's cores. So it has come true once the same pods, of the same entitlements,
are spread over the same nodes and such a new one, as pods spread in the model. Where anything else
has changed as well, nothing is scored.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from walras.analysis.predictions import Prediction
from walras.market.admission import admit
from walras_api.market_status import MOST_NODE_GAINS, NodeGain
from walras_operator.decide.conditions import listed
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.market.snapshot import Job, Node, Snapshot
    from walras_api.kinds import MarketSpec
    from walras_api.market_status import NodePoolReport
    from walras_operator.decide.pool_averages import NodePoolReports

PATIENCE = 3600.0
"""Seconds within which pods must have spread over a new node."""

SIZES = 0.05
"""Most by which a new node's cores may differ from the mean of its pool, as a part of that: a gain
of a fifth of progress then differs by the least error of all (`pool_averages.LEAST_ERROR`)."""


class _Forecast(NamedTuple):
    """What was told at one moment, and the market then.

    Attributes:
        nodes: Nodes that sold cores, by name.
        market: Rules, entitlements, penalties, and the number of pods of each kind on each pool.
        progress: System progress.
        pools: Signals of pools as they were told, by name.
        widened: Factor in their errors.
    """

    nodes: Mapping[str, Node]
    market: tuple[object, ...]
    progress: float
    pools: Mapping[str, NodePoolReport]
    widened: float


@dataclass(slots=True)
class AddedNodes:
    """Follows the nodes of a market from one sample of its pools to the next."""

    _forecast: _Forecast | None = None
    _waited: float = 0.0

    def after(
        self,
        snapshot: Snapshot,
        rules: MarketSpec,
        progress: float,
        reports: NodePoolReports,
        seconds: float,
    ) -> NodeGain | None:
        """Return what a node brought that was added since something was told; None if not yet.

        Args:
            snapshot: The market now.
            rules: Its rules.
            progress: System progress of its plan.
            reports: Signals of its pools, as they are told now.
            seconds: Time since the last call.
        """
        forecast = self._forecast
        jobs = [job for job in admit(snapshot).jobs if job.node]
        latest = _Forecast(
            {node.name: node for node in snapshot.selling},
            (rules, snapshot.entitlements, snapshot.penalties, _kinds_of_pods(snapshot, jobs)),
            progress,
            {each.name: each for each in reports.pools},
            reports.widened,
        )
        node = None if forecast is None else _added(forecast.nodes, latest.nodes)
        self._waited = 0.0 if node is None else self._waited + seconds
        if forecast is None or node is None:
            self._forecast = latest
            return None
        if forecast.market == latest.market and _has_its_pods(snapshot, jobs, node):
            self._forecast, self._waited = latest, 0.0
            return _gain(forecast, node, progress)
        if self._waited > PATIENCE:
            self._forecast, self._waited = latest, 0.0
        return None


def with_gains(before: Mapping[str, object], gains: Sequence[NodeGain]) -> list[NodeGain]:
    """Return the gains in the Market's status with further ones, each node's once, the latest last.

    Args:
        before: Status as last written; what cannot be read is left out.
        gains: Gains of this operator's term, also such as are in the status.
    """
    by_node = {(each.pool, each.node): each for each in _read(before)}
    for gain in gains:
        by_node.pop((gain.pool, gain.node), None)
    by_node |= {(gain.pool, gain.node): gain for gain in gains}
    return list(by_node.values())[-MOST_NODE_GAINS:]


def came_true(gains: Iterable[NodeGain]) -> list[Prediction]:
    """Return gains as predictions in parts of the progress before; those without sense left out."""
    predictions = []
    for gain in gains:
        expected, error, came = float(gain.expected), float(gain.error), float(gain.came)
        if error > 0 and float(gain.widened) >= 1:
            predictions.append(Prediction(1.0, expected, error, came, float(gain.widened)))
    return predictions


def _read(status: Mapping[str, object]) -> list[NodeGain]:
    gains = []
    for each in listed(status, "nodeGains"):
        try:
            gains.append(NodeGain.read(each))
        except ValueError:
            continue
    return gains


def _added(before: Mapping[str, Node], after: Mapping[str, Node]) -> Node | None:
    """Return the node that was added, if that is all that has changed."""
    more = after.keys() - before.keys()
    same = all(
        name in after and (after[name].cores, after[name].pool) == (node.cores, node.pool)
        for name, node in before.items()
    )
    return after[more.pop()] if same and len(more) == 1 else None


def _kinds_of_pods(snapshot: Snapshot, jobs: Iterable[Job]) -> Counter[tuple[object, ...]]:
    pools = {node.name: node.pool for node in snapshot.selling}
    return Counter(
        (
            *(job.namespace, job.name, job.entitlement, pools[job.node]),
            *(job.fraction, job.work, job.min_cores, job.max_cores),
        )
        for job in jobs
    )


def _has_its_pods(snapshot: Snapshot, jobs: Iterable[Job], node: Node) -> bool:
    """Return whether no pod of its pool would move to a node in the model (`pool_spread`)."""
    pods = Counter(job.node for job in jobs)
    return all(
        (pods[node.name] + 1) / node.cores >= pods[each.name] / each.cores
        for each in snapshot.selling
        if each.pool == node.pool
    )


def _gain(forecast: _Forecast, node: Node, progress: float) -> NodeGain | None:
    pool = forecast.pools.get(node.pool)
    effect = None if pool is None else pool.one_more
    if effect is None or effect.progress_error is None or not forecast.progress:
        return None
    mean = fmean(each.cores for each in forecast.nodes.values() if each.pool == node.pool)
    if abs(node.cores - mean) > SIZES * mean:
        return None
    return NodeGain(
        pool=node.pool,
        node=node.name,
        expected=effect.progress,
        error=effect.progress_error,
        widened=figure(forecast.widened),
        came=figure(progress / forecast.progress - 1),
    )
