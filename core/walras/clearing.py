"""The one way to a decision: clear the market of a snapshot into a plan.

Pure and deterministic. The local run, the what-if and the operator all decide here, so that what
one of them predicts is what the others do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras import metrics
from walras.admission import admit
from walras.amdahl.equilibrium import find_equilibrium
from walras.amdahl.market import Market
from walras.amdahl.proportional import share_proportionally
from walras.apportion import Portions, apportion
from walras.explain import explain
from walras.plan import Grant, NodeOutcome, Plan, UserOutcome
from walras.snapshot import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from walras.admission import Admitted
    from walras.snapshot import Node, Snapshot

UNBOUNDED = 2**31
"""Stands for no maximum of cores: more than any machine has."""


class Priced(NamedTuple):
    """What a mechanism decided: cores of every job, price of every node, and how sure it is."""

    cores: NDArray[np.float64]
    prices: NDArray[np.float64]
    solver: str
    iterations: int
    price_error: float
    residual: float
    converged: bool


def clear(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    """Decide who gets how many cores.

    1. Admit: which jobs may draw on which entitlement, and what each entitlement is worth.
    2. Price: the mechanism divides every node's cores in real numbers.
    3. Round: whole cores for jobs, shared pools for the small ones.
    4. Explain: to every user, why.

    Args:
        snapshot: entitlements, nodes and jobs.
        policy: how to decide; the Amdahl market if not given.

    Raises:
        EntitlementError: the entitlements form no tree.
    """
    policy = policy or Policy()
    admitted = admit(snapshot)
    nodes = [node for node in snapshot.nodes if node.cores > 0]
    market = _market(nodes, admitted)
    priced = _price(market, policy)
    portions = apportion(market, priced.cores, *_bounds(admitted))
    return _describe(snapshot, admitted, market, policy, priced, portions)


def _market(nodes: Sequence[Node], admitted: Admitted) -> Market:
    """Lay the admitted jobs out as arrays; a budget is the cores that an entitlement is worth."""
    user = {name: index for index, name in enumerate(admitted.shares)}
    server = {node.name: index for index, node in enumerate(nodes)}
    jobs = admitted.jobs
    capacities = np.array([node.cores for node in nodes], np.float64)
    return Market(
        np.array(list(admitted.shares.values())) * (capacities.sum() or 1.0),
        capacities,
        np.array([user[job.entitlement] for job in jobs], np.int64),
        np.array([server[job.node] for job in jobs], np.int64),
        np.array([job.fraction for job in jobs]),
        np.array([job.work for job in jobs]),
    )


def _bounds(admitted: Admitted) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    jobs = admitted.jobs
    most = [UNBOUNDED if job.max_cores is None else job.max_cores for job in jobs]
    return np.array([job.min_cores for job in jobs], np.int64), np.array(most, np.int64)


def _price(market: Market, policy: Policy) -> Priced:
    if policy.cores == "ProportionalSharing":
        cores = share_proportionally(market)
        return Priced(cores, np.ones(len(market.capacities)), "closed form", 1, 0.0, 0.0, True)
    found = find_equilibrium(market, tolerance=policy.tolerance)
    return Priced(
        found.cores,
        found.prices,
        found.solver,
        found.iterations,
        found.price_error,
        found.residual,
        found.converged,
    )


def _describe(
    snapshot: Snapshot,
    admitted: Admitted,
    market: Market,
    policy: Policy,
    priced: Priced,
    portions: Portions,
) -> Plan:
    speedups = metrics.speedups(market, priced.cores)
    held = market.sum_by_user(priced.cores)
    utility = metrics.user_progress(market, priced.cores)
    bare = metrics.user_progress(market, metrics.bare_entitlement(market))
    pool = np.zeros(len(market.capacities), np.int64)
    np.maximum.at(pool, market.server, portions.shared)
    sharers = np.bincount(market.server[portions.whole == 0], minlength=len(pool))
    grants = []
    for k, job in enumerate(admitted.jobs):
        node = int(market.server[k])
        price = float(priced.prices[node])
        cores = float(priced.cores[k])
        grant = Grant(
            namespace=job.namespace,
            name=job.name,
            entitlement=job.entitlement,
            node=job.node,
            cores=cores,
            granted_cores=int(portions.whole[k]),
            shared_cores=int(portions.shared[k]),
            weight=int(portions.weight[k]),
            price=price,
            spend=price * cores,
            speedup=float(speedups[k]),
            reason="",
        )
        budget = float(market.budgets[market.user[k]])
        quota = float(portions.quota[k])
        grants.append(explain(grant, job, budget, quota, int(sharers[node]), policy.cores))
    users = tuple(
        UserOutcome(
            name, float(market.budgets[i]), float(held[i]), float(utility[i]), float(bare[i])
        )
        for i, name in enumerate(admitted.shares)
    )
    progress = metrics.system_progress(market, priced.cores) if admitted.jobs else 0.0
    return Plan(
        grants=tuple(grants),
        users=users,
        nodes=_outcomes(snapshot, priced.prices, pool),
        refused=admitted.refused,
        mechanism=policy.cores,
        solver=priced.solver,
        iterations=priced.iterations,
        price_error=priced.price_error,
        residual=priced.residual,
        converged=priced.converged,
        system_progress=progress,
    )


def _outcomes(
    snapshot: Snapshot, prices: NDArray[np.float64], pool: NDArray[np.int64]
) -> tuple[NodeOutcome, ...]:
    """Describe every node, those that sell no cores at price 0."""
    sold = iter(zip(prices.tolist(), pool.tolist(), strict=True))
    return tuple(
        NodeOutcome(node.name, node.cores, *(next(sold) if node.cores > 0 else (0.0, 0)))
        for node in snapshot.nodes
    )
