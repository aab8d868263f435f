"""Node pools: what one more node of each would bring, and how many are worth their price.

**The model.** Jobs run where they are, so an empty node brings nothing by itself. It helps once the
jobs of its pool have spread over it, as they do when pods end and new ones start
(`walras.analysis.pool_spread`). So the market is solved once with the jobs of every pool spread
over its nodes, and once more with the node added and the jobs of its pool spread over all of them.
Entitlements are shares of the cluster, so budgets grow with it. Core credits are left out: they
fade, while nodes stay. Pods that wait for a node are not counted, since they are what a cluster
autoscaler itself looks at.

**Units.** *Total speedup* is the number of jobs times the system progress (eq. 10), so that a job
alone on one core counts as 1, and users count as their entitlements say. What a core or a node is
worth is the total speedup that it adds: 0.3 for a core means that it does three tenths of the work
that it would do for a job that has no other.

**More is not always better.** An equilibrium does not maximize system progress. A user whose jobs
on a pool can use no more of it spends on other pools what it saves on this one, and outbids users
there whose jobs would do more with the cores. In a small market, another node can therefore lower
the progress of all together. The figures say so, with the users that lose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.analysis.pool_effects import WITHOUT_VALUES, NodesEffect, UserChange
from walras.analysis.pool_spread import SpreadPool, spread
from walras.clearing import in_canonical_order
from walras.division.auctions import PricingError
from walras.division.interference import losses_beside
from walras.division.pricing import price
from walras.division.sale import bidders_of, sell
from walras.market.admission import admit
from walras.market.bounds import bounds_of
from walras.market.snapshot import MOST_POOLS, MOST_USERS, PoolPrices, identity
from walras.mechanisms.amdahl import metrics
from walras.mechanisms.amdahl.market import AmdahlMarket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from walras.division.sale import Sale
    from walras.market.plan import Plan
    from walras.market.snapshot import Job, Node, Policy, Snapshot
    from walras.numerics.arrays import Floats

LEAST_PART = 0.01
"""Part of all changes, counted with budgets, below which a user is not named."""

GIB = 2**30

_TOLERANCE = 1e-9  # a node among thousands changes progress by 1e-4
_PRESENT = "", 0  # key of the outcome with the nodes that there are
_STEP = 0.01  # relative change of a pool's cores by which a derivative is computed


@dataclass(frozen=True, slots=True)
class NodePool:
    """Signals of one node pool.

    Attributes:
        nodes: Number of nodes that sell cores.
        cores: Cores that they sell.
        price: Mean price of a core, over the nodes on which somebody pays, where 1 is the cluster's
            average; 0 if nobody pays anywhere.
        core_value: Total speedup that a core adds: the derivative. None if the market has no
            equilibrium that could be found, and under the mechanisms `WITHOUT_VALUES`.
        one_more: Effect of one more node; None as for ``core_value``.
        one_less: Effect of one node less; None for the only node, or as for ``core_value``.
        recommended: Number of nodes from half to twice the present one, at which the last one is
            worth its price and one more is not; None if a price is unknown, or as above.
        unmet_memory: Bytes that jobs could use on the pool's nodes beyond what they are granted;
            None unless Karma or MaxMin divides memory.
        memory_value: Part of one more GiB, spread over the nodes, that jobs would use at once, from
            0 to 1; None as for ``unmet_memory``.
    """

    name: str
    nodes: int
    cores: float
    price: float
    core_value: float | None = None
    one_more: NodesEffect | None = None
    one_less: NodesEffect | None = None
    recommended: int | None = None
    unmet_memory: int | None = None
    memory_value: float | None = None


class NodePools(NamedTuple):
    """Signals of all node pools.

    Attributes:
        pools: The largest pools, sorted by name.
        others: Number of pools that are left out.
        unevenness: Relative difference of the plan's system progress from that with the jobs
            spread; 0 if the market could not be solved.
    """

    pools: tuple[NodePool, ...]
    others: int = 0
    unevenness: float = 0.0


def node_pools(
    snapshot: Snapshot, plan: Plan, policy: Policy, prices: PoolPrices | None = None
) -> NodePools:
    """Return the signals of all node pools with cores for sale.

    Args:
        snapshot: Snapshot that was cleared.
        plan: Plan that clearing returned.
        policy: Policy that it was cleared by.
        prices: Prices of nodes, and the worth of work; unknown if not given.
    """
    prices = prices or PoolPrices()
    nodes: dict[str, list[Node]] = {}
    for node in snapshot.nodes:
        if node.cores > 0:
            nodes.setdefault(node.pool, []).append(node)
    cores = {pool: sum(node.cores for node in of) for pool, of in nodes.items()}
    largest = sorted(sorted(nodes, key=lambda pool: (-cores[pool], pool))[:MOST_POOLS])
    core_prices = {node.name: node.price for node in plan.nodes}
    unmet = _unmet_memory(snapshot, plan)
    market = _spread_market(snapshot, policy)
    all_signals = []
    for pool in largest:
        here = nodes[pool]
        signals = NodePool(pool, len(here), cores[pool], _mean_price(here, core_prices))
        if unmet is not None:
            signals = replace(
                signals,
                unmet_memory=sum(unmet.get(node.name, 0) for node in here),
                memory_value=_memory_value(here, unmet),
            )
        all_signals.append(_with_values(signals, market, prices.least_speedup(pool)))
    spread_out = 0.0 if market is None else market.progress
    unevenness = plan.system_progress / spread_out - 1 if spread_out else 0.0
    return NodePools(tuple(all_signals), len(nodes) - len(all_signals), unevenness)


def _mean_price(nodes: Sequence[Node], prices: Mapping[str, float]) -> float:
    """Return the mean price of a core, over the nodes on which somebody pays."""
    sold = [node for node in nodes if prices.get(node.name, 0.0) > 0]
    paid = sum(prices[node.name] * node.cores for node in sold)
    return paid / sum(node.cores for node in sold) if sold else 0.0


def _with_values(
    pool: NodePool, market: _SpreadMarket | None, least_speedup: float | None
) -> NodePool:
    """Return a pool with what cores and nodes of it are worth, unless that cannot be found."""
    if market is None:
        return pool
    try:
        more = market.effect(pool, pool.nodes + 1)
        less = market.effect(pool, pool.nodes - 1) if pool.nodes > 1 else None
        value = market.core_value(pool)
        recommended = None
        if least_speedup is not None:
            recommended = recommend(
                pool.nodes,
                lambda nodes: market.speedup(pool, nodes) - market.speedup(pool, nodes - 1),
                least_speedup,
            )
    except (_UnsolvedError, PricingError):
        return pool
    return replace(pool, core_value=value, one_more=more, one_less=less, recommended=recommended)


def recommend(nodes: int, gain: Callable[[int], float], least: float) -> int:
    """Return a number of nodes at which the last one gains enough and one more does not.

    Where every node gains less than the one before, as it does in most markets, there is one such
    number, and its net worth is the largest. Elsewhere it is the present one if that is such a
    number, so that an autoscaler that has followed it rests. Numbers from half to twice the present
    one, and of at least 1, are considered: the smallest always counts as enough, and one more than
    the largest as too many.

    Args:
        nodes: Present number of nodes.
        gain: Returns what the n-th node gains.
        least: Least gain that is enough.
    """
    low, high = max(-(-nodes // 2), 1), 2 * nodes + 1
    untried = [nodes, nodes + 1]  # their gains are known, and the number is often right already
    while high - low > 1:
        number = untried.pop() if untried else (low + high) // 2
        if low < number < high:
            low, high = (number, high) if gain(number) >= least else (low, number)
    return low


class _UnsolvedError(Exception):
    """The market has no equilibrium that could be found."""


class _Outcome(NamedTuple):
    """Outcome of the market: the utility of each user, shape (n,), and system progress."""

    utility: Floats
    progress: float


class _SpreadMarket:
    """The market once the jobs of every pool have spread over its nodes.

    Args:
        snapshot: Snapshot in canonical order.
        jobs: Admitted jobs that have a node; at least one.
        policy: Policy that names the mechanism.
    """

    def __init__(self, snapshot: Snapshot, jobs: Sequence[Job], policy: Policy) -> None:
        tolerance = min(policy.tolerance, _TOLERANCE)
        self._policy = replace(policy, tolerance=tolerance, memory=None, core_half_life=0.0)
        self._snapshot = snapshot
        self._bidders = bidders_of(snapshot, self._policy, jobs)
        self._job_of = [(job.namespace, job.name) for job in jobs]
        on_node: dict[str, list[int]] = {node.name: [] for node in snapshot.selling}
        for pod, job in enumerate(jobs):
            on_node[job.node].append(pod)
        nodes: dict[str, list[Node]] = {}
        for node in snapshot.selling:
            nodes.setdefault(node.pool, []).append(node)
        self._spread = {}
        for pool, here in sorted(nodes.items()):
            now = SpreadPool(tuple(here), tuple(tuple(on_node[node.name]) for node in here))
            self._spread[pool] = spread(now, len(here), self._job_of)
        self._present = self._sale(self._spread)
        self._users = tuple(self._present.parts)
        self._known: dict[tuple[str, int], _Outcome] = {}

    def effect(self, pool: NodePool, nodes: int) -> NodesEffect:
        """Return the effect of another number of nodes in a pool."""
        now, then = self._with(pool, pool.nodes), self._with(pool, nodes)
        change = then.progress - now.progress
        budgets = self._present.market.budgets
        worth = budgets / budgets.sum() * (then.utility - now.utility)
        relative = np.divide(
            then.utility, now.utility, out=np.ones(len(worth)), where=now.utility > 0
        )
        relative -= 1
        return NodesEffect(
            change / now.progress if now.progress else 0.0,
            change * len(self._job_of),
            self._most(worth, relative),
            self._most(-worth, relative),
        )

    @property
    def progress(self) -> float:
        """System progress with the nodes that there are; 0 before anything was asked of them."""
        known = self._known.get(_PRESENT)
        return 0.0 if known is None else known.progress

    def core_value(self, pool: NodePool) -> float:
        """Return the total speedup that a core adds to a pool: the derivative."""
        if not any(self._spread[pool.name].pods):
            return 0.0
        above, below = self._scaled(pool, 1 + _STEP), self._scaled(pool, 1 - _STEP)
        change = (above.progress - below.progress) * len(self._job_of)
        return change / (2 * _STEP * pool.cores)

    def speedup(self, pool: NodePool, nodes: int) -> float:
        """Return the total speedup with a number of nodes in a pool."""
        return self._with(pool, nodes).progress * len(self._job_of)

    def _most(self, worth: Floats, relative: Floats) -> tuple[UserChange, ...]:
        """Return the users with the largest positive worth, unless it is too little to name."""
        total, least = worth[worth > 0].sum(), LEAST_PART * np.abs(worth).sum()
        order = np.lexsort((np.arange(len(worth)), -worth))[:MOST_USERS]
        return tuple(
            UserChange(self._users[user], float(relative[user]), float(worth[user] / total))
            for user in order.tolist()
            if worth[user] > max(least, _TOLERANCE)
        )

    def _with(self, pool: NodePool, nodes: int) -> _Outcome:
        """Return the outcome with a number of nodes in a pool.

        Raises:
            PricingError: The market is too large for the mechanism.
            _UnsolvedError: The market has no equilibrium that could be found.
        """
        now = self._spread[pool.name]
        present = nodes == pool.nodes or not any(now.pods)
        key = _PRESENT if present else (pool.name, nodes)
        if key not in self._known:
            changed = {} if present else {pool.name: spread(now, nodes, self._job_of)}
            sale = self._sale({**self._spread, **changed}) if changed else self._present
            self._known[key] = self._solve(sale)
        return self._known[key]

    def _scaled(self, pool: NodePool, factor: float) -> _Outcome:
        """Return the outcome with a pool whose nodes have ``factor`` times as many cores."""
        pools = np.array([each.pool for of in self._spread.values() for each in of.nodes])
        here = (pools == pool.name)[self._present.units.node]
        units, bounds = self._present.units, self._present.bounds_of_units
        now = units.market
        capacities = now.capacities * np.where(here, factor, 1.0)
        market = AmdahlMarket(
            now.budgets * (capacities.sum() / now.capacities.sum()),
            capacities,
            now.user,
            now.server,
            now.fraction,
            now.work,
        )
        fitting = bounds_of(market, bounds.own, bounds.least, bounds.most, self._policy.least_part)
        scaled = replace(units, market=market)
        return self._solve(self._present._replace(units=scaled, bounds_of_units=fitting))

    def _sale(self, pools: Mapping[str, SpreadPool]) -> Sale:
        """Open the sale with the nodes and pods of pools.

        Pods bid with fractions that are lowered by what they lose beside the others there.
        """
        nodes = tuple(node for pool in pools.values() for node in pool.nodes)
        pods = [there for pool in pools.values() for there in pool.pods]
        order = np.fromiter(chain.from_iterable(pods), np.int64, len(self._job_of))
        server = np.repeat(np.arange(len(pods)), [len(there) for there in pods])
        bidders = self._bidders.ordered(order)
        if self._snapshot.penalties and self._policy.interference:
            lost = losses_beside(bidders.jobs, server.tolist(), self._snapshot.penalties)
            fraction = [
                job.fraction if loss is None else loss.lowered(job.fraction)
                for job, loss in zip(bidders.jobs, lost, strict=True)
            ]
            bidders = bidders._replace(fraction=np.array(fraction))
        return sell(replace(self._snapshot, nodes=nodes), self._policy, bidders, server)

    def _solve(self, sale: Sale) -> _Outcome:
        units = sale.units
        priced = price(
            units.market, sale.bounds_of_units, self._policy, sale.auctioned, sale.limits
        )
        if not priced.converged:
            raise _UnsolvedError
        cores = np.minimum(units.of_jobs(priced.cores), sale.bounds.most)
        utility = metrics.utilities_in_hardware(sale.market, cores)
        budgets = sale.market.budgets
        return _Outcome(utility, float(budgets @ utility / budgets.sum()))


def _spread_market(snapshot: Snapshot, policy: Policy) -> _SpreadMarket | None:
    """Return the spread market; None if no job has a node, or if it cannot be solved at all."""
    snapshot = in_canonical_order(snapshot)
    running = [job for job in admit(snapshot).jobs if job.node]
    if not running or policy.cores in WITHOUT_VALUES:
        return None
    return _SpreadMarket(snapshot, running, policy)


def _unmet_memory(snapshot: Snapshot, plan: Plan) -> dict[str, int] | None:
    """Return the bytes that jobs lack, by node; None if they do not measure what more is worth.

    Under Strict, memory may be free although jobs lack it; in auctions, bids decide, not demands.
    """
    if plan.memory_mechanism not in {"Karma", "MaxMin"}:
        return None
    usable = {identity(job): job.memory.usable for job in snapshot.jobs if job.memory is not None}
    lacking: dict[str, int] = {}
    for grant in plan.grants:
        wanted = usable.get(identity(grant), 0)
        lacking[grant.node] = lacking.get(grant.node, 0) + max(wanted - (grant.memory or 0), 0)
    return lacking


def _memory_value(nodes: Sequence[Node], unmet: Mapping[str, int]) -> float:
    """Return the part of one more GiB, spread in proportion to memory, that would be used."""
    memory = sum(node.memory for node in nodes)
    if not memory:
        return 0.0
    used = sum(min(node.memory / memory, unmet.get(node.name, 0) / GIB) for node in nodes)
    return min(used, 1.0)
