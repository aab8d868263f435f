"""The one way to a decision: clear the market of a snapshot into a plan.

Pure and deterministic. The local run, the what-if and the operator all decide here, so that what
one of them predicts is what the others do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from walras import metrics
from walras.admission import admit, divide
from walras.amdahl.market import Market
from walras.apportion import Portions, apportion
from walras.auctions import hold_auctions
from walras.colocation import place
from walras.explain import explain
from walras.memory import divide_memory
from walras.plan import Grant, NodeOutcome, Plan, UserOutcome
from walras.pricing import Bounds, Priced, price
from walras.snapshot import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from walras.auctions import Auctioned
    from walras.snapshot import Job, Snapshot

UNBOUNDED = 2**31
"""Stands for no maximum of cores: more than any machine has."""


def clear(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    """Decide who gets how many cores and how much memory.

    1. Admit: which jobs may draw on which entitlement, and what each entitlement is worth.
    2. Colocate: jobs that wait for a node are placed in pairs.
    3. Price: the mechanism divides every node's cores in real numbers.
    4. Round: whole cores for jobs, shared pools for the small ones.
    5. Divide memory, in slices.
    6. Explain: to every user, why.

    Args:
        snapshot: entitlements, nodes and jobs.
        policy: how to decide; the Amdahl market for cores alone if not given.

    Raises:
        EntitlementError: the entitlements form no tree.
        PricingError: the mechanism cannot take a market of this size.
    """
    policy = policy or Policy()
    admitted = admit(snapshot)
    placed = place(admitted.jobs, snapshot.nodes, snapshot.penalties, policy)
    shares = divide(snapshot.entitlements, {job.entitlement for job in placed.jobs})
    market = lay_out(snapshot, placed.jobs, shares)
    least, most = _bounds(placed.jobs)
    bounds = _in_market(market, least, most)
    auctioned = _auctions(snapshot, market, placed.jobs, policy)
    priced = price(market, bounds, policy, auctioned)
    portions = apportion(market, priced.cores, least, most)
    grants = _grants(placed.jobs, market, policy, priced, portions)
    memory = divide_memory(snapshot, placed.jobs, policy, auctioned)
    return Plan(
        grants=tuple(
            replace(grant, memory=granted, memory_reason=reason)
            for grant, granted, reason in zip(grants, memory.granted, memory.reasons, strict=True)
        ),
        users=_users(market, priced, bounds, shares),
        nodes=_nodes(snapshot, market, priced, portions),
        refused=admitted.refused + placed.waiting,
        mechanism=policy.cores,
        solver=priced.solver,
        iterations=priced.iterations,
        price_error=priced.price_error,
        residual=priced.residual,
        converged=priced.converged,
        system_progress=metrics.system_progress(market, priced.cores) if grants else 0.0,
        pairings=placed.pairings,
        memory_mechanism=policy.memory if memory.users and policy.memory else "",
        memory=memory.users,
        ledger=memory.ledger,
    )


def lay_out(snapshot: Snapshot, jobs: Sequence[Job], shares: Mapping[str, float]) -> Market:
    """Lay jobs out as arrays; a budget is the cores that an entitlement's share is worth.

    Args:
        snapshot: whose nodes are the servers, those that sell cores.
        jobs: admitted and placed.
        shares: part of the whole of each entitlement that has jobs.
    """
    nodes = [node for node in snapshot.nodes if node.cores > 0]
    user = {name: index for index, name in enumerate(shares)}
    server = {node.name: index for index, node in enumerate(nodes)}
    capacities = np.array([node.cores for node in nodes], np.float64)
    return Market(
        np.array(list(shares.values())) * (capacities.sum() or 1.0),
        capacities,
        np.array([user[job.entitlement] for job in jobs], np.int64),
        np.array([server[job.node] for job in jobs], np.int64),
        np.array([job.fraction for job in jobs]),
        np.array([job.work for job in jobs]),
    )


def _auctions(
    snapshot: Snapshot, market: Market, jobs: Sequence[Job], policy: Policy
) -> Auctioned | None:
    """Auction cores, memory or both, if anything is to be auctioned."""
    if "Auction" not in {policy.cores, policy.memory} or not jobs:
        return None
    nodes = [node for node in snapshot.nodes if node.cores > 0]
    return hold_auctions(market, jobs, nodes, policy)


def _bounds(jobs: Sequence[Job]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    most = [UNBOUNDED if job.max_cores is None else job.max_cores for job in jobs]
    return np.array([job.min_cores for job in jobs], np.int64), np.array(most, np.int64)


def _in_market(market: Market, least: NDArray[np.int64], most: NDArray[np.int64]) -> Bounds:
    """Return the bounds that a market takes.

    One core is what any job has a use for, and no bound, as is all of a server. Where jobs ask for
    more than their server has, no minimum on it holds.
    """
    lower = np.where(least > 1, least, 0).astype(np.float64)
    crowded = market.sum_by_server(lower) > market.capacities
    lower[crowded[market.server]] = 0.0
    capacity = market.capacities[market.server]
    return Bounds(lower, np.where(most < capacity, most, np.inf))


def _grants(
    jobs: Sequence[Job], market: Market, policy: Policy, priced: Priced, portions: Portions
) -> list[Grant]:
    """Say what every job gets, and why."""
    speedups = metrics.speedups(market, priced.cores)
    sharers = np.bincount(market.server[portions.whole == 0], minlength=len(market.capacities))
    grants = []
    for k, job in enumerate(jobs):
        node = int(market.server[k])
        price_here = float(priced.prices[node])
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
            price=price_here,
            spend=price_here * cores if priced.spends is None else float(priced.spends[k]),
            speedup=float(speedups[k]),
            reason="",
            pod=job.pod,
        )
        budget = float(market.budgets[market.user[k]])
        quota = float(portions.quota[k])
        grants.append(explain(grant, job, budget, quota, int(sharers[node]), policy.cores))
    return grants


def _users(
    market: Market, priced: Priced, bounds: Bounds, shares: Mapping[str, float]
) -> tuple[UserOutcome, ...]:
    held = market.sum_by_user(priced.cores)
    utility = metrics.user_progress(market, priced.cores)
    usable = np.minimum(metrics.bare_entitlement(market), bounds.most)
    bare = metrics.user_progress(market, usable)
    return tuple(
        UserOutcome(
            name, float(market.budgets[i]), float(held[i]), float(utility[i]), float(bare[i])
        )
        for i, name in enumerate(shares)
    )


def _nodes(
    snapshot: Snapshot, market: Market, priced: Priced, portions: Portions
) -> tuple[NodeOutcome, ...]:
    """Describe every node, those that sell no cores at price 0."""
    pool = np.zeros(len(market.capacities), np.int64)
    np.maximum.at(pool, market.server, portions.shared)
    sold = iter(zip(priced.prices.tolist(), pool.tolist(), strict=True))
    return tuple(
        NodeOutcome(node.name, node.cores, *(next(sold) if node.cores > 0 else (0.0, 0)))
        for node in snapshot.nodes
    )
