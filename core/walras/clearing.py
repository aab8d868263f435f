"""The one way to a decision: clear the market of a snapshot into a plan.

Pure and deterministic. The local run, the what-if and the operator all decide here, so that what
one of them predicts is what the others do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras import metrics
from walras.admission import admit, divide
from walras.amdahl.market import AmdahlMarket
from walras.apportion import apportion
from walras.auctions import hold_auctions
from walras.colocation import place
from walras.explain import Due, charged, explain, passed_over
from walras.hysteresis import settle
from walras.interference import disturb, explained
from walras.memory import divide_memory
from walras.ordering import in_canonical_order, in_order_of
from walras.plan import Grant, NodeOutcome, Plan, UserOutcome
from walras.pricing import Bounds, Priced, price
from walras.promises import judge, promised_cores
from walras.sale import (
    UNBOUNDED,
    Held,
    Sale,
    collect,
    cores_in_hardware,
    sell_nodes,
    sell_sockets,
)
from walras.snapshot import Policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from walras.auctions import Auctioned
    from walras.hysteresis import Settled
    from walras.memory import Divided
    from walras.snapshot import Job, Snapshot


def clear(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    """Decide who gets how many cores and how much memory.

    1. Admit: which jobs may draw on which entitlement, and what each entitlement is worth.
    2. Colocate: jobs that wait for a node are placed in pairs; what jobs lose beside others is
       taken off the parallel fractions that they bid with.
    3. Price: the mechanism divides every node's cores in real numbers.
    4. Round: whole cores for jobs, shared pools for the small ones; promises are kept.
    5. Settle: nodes stay as they are where that gains too little.
    6. Divide memory, in slices, and charge who bid for what it got.
    7. Explain: to every user, why.

    The order of entitlements, nodes and jobs does not matter.

    Args:
        snapshot: entitlements, nodes and jobs.
        policy: how to decide; the Amdahl market for cores alone if not given.

    Raises:
        EntitlementError: the entitlements form no tree.
        PricingError: the mechanism cannot take a market of this size.
    """
    plan = _decide(in_canonical_order(snapshot), policy or Policy())
    return in_order_of(snapshot, plan)


def _decide(snapshot: Snapshot, policy: Policy) -> Plan:
    admitted = admit(snapshot)
    placed = place(admitted.jobs, snapshot, policy)
    calm = placed.jobs
    disturbed = disturb(calm, snapshot.penalties if policy.interference else {})
    placed = placed._replace(jobs=disturbed.jobs)
    shares = divide(snapshot.entitlements, {job.entitlement for job in placed.jobs})
    market = lay_out(snapshot, placed.jobs, shares)
    auctioned = _auctions(snapshot, market, placed.jobs, policy)
    sale = _offer(snapshot, market, placed.jobs, policy, auctioned)
    limits = _most_nodes(snapshot, shares)
    priced = price(sale.market, _in_market(sale), policy, auctioned, limits)
    due = apportion(sale.market, priced.cores, sale.least, sale.most, sale.promised)
    settled = settle(snapshot.held, placed.jobs, market, sale, due, policy)
    held = collect(sale, len(placed.jobs), priced, settled.portions)
    otherwise = collect(sale, len(placed.jobs), priced, due)
    memory = divide_memory(snapshot, placed.jobs, policy, auctioned)
    grants = _grants(placed.jobs, market, policy, held, otherwise, memory)
    grants = explained(grants, calm, disturbed.losses)
    cores = cores_in_hardware(sale, len(placed.jobs), settled.portions)
    bids = () if auctioned is None else judge(auctioned, cores, memory.granted)
    if policy.cores == "PriceAnticipating":
        grants = passed_over(grants, snapshot.entitlements)
    return Plan(
        grants=charged(grants, bids),
        users=_users(placed.jobs, market, held, shares),
        nodes=_nodes(snapshot, sale, priced, settled),
        refused=admitted.refused + placed.waiting,
        mechanism=policy.cores,
        solver=priced.solver,
        iterations=priced.iterations,
        price_error=priced.price_error,
        residual=priced.residual,
        converged=priced.converged,
        system_progress=metrics.system_progress(market, held.cores) if grants else 0.0,
        pairings=placed.pairings,
        bids=bids,
        memory_mechanism=policy.memory if memory.users and policy.memory else "",
        memory=memory.users,
        ledger=memory.ledger,
        quantum=memory.quantum,
    )


def lay_out(snapshot: Snapshot, jobs: Sequence[Job], shares: Mapping[str, float]) -> AmdahlMarket:
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
    return AmdahlMarket(
        np.array(list(shares.values())) * (capacities.sum() or 1.0),
        capacities,
        np.array([user[job.entitlement] for job in jobs], np.int64),
        np.array([server[job.node] for job in jobs], np.int64),
        np.array([job.fraction for job in jobs]),
        np.array([job.work for job in jobs]),
    )


def _auctions(
    snapshot: Snapshot, market: AmdahlMarket, jobs: Sequence[Job], policy: Policy
) -> Auctioned | None:
    """Auction cores, memory or both, if anything is to be auctioned."""
    if "Auction" not in {policy.cores, policy.memory} or not jobs:
        return None
    nodes = [node for node in snapshot.nodes if node.cores > 0]
    return hold_auctions(market, jobs, nodes, policy)


def _offer(
    snapshot: Snapshot,
    market: AmdahlMarket,
    jobs: Sequence[Job],
    policy: Policy,
    auctioned: Auctioned | None,
) -> Sale:
    """Offer nodes as wholes, or by socket.

    Auctions, single sockets, and nodes that users may bid on a few of are always whole.
    """
    least = np.array([job.min_cores for job in jobs], np.int64)
    most = np.array([job.max_cores or UNBOUNDED for job in jobs], np.int64)
    nodes = [node for node in snapshot.nodes if node.cores > 0]
    if auctioned is not None and policy.cores == "Auction":
        return sell_nodes(market, least, most, promised_cores(auctioned, market))
    limited = policy.cores == "PriceAnticipating" and any(
        each.max_nodes is not None for each in snapshot.entitlements
    )
    whole = policy.sold_by == "node" or limited
    if whole or all(node.sockets == 1 for node in nodes):
        return sell_nodes(market, least, most)
    return sell_sockets(market, nodes, least, most)


def _most_nodes(snapshot: Snapshot, shares: Mapping[str, float]) -> NDArray[np.int64] | None:
    """Return how many nodes each user bids on at most, shape (n,); None where there is no bound."""
    most = {each.name: each.max_nodes for each in snapshot.entitlements}
    if all(most[name] is None for name in shares):
        return None
    every = max(len(snapshot.nodes), 1)
    return np.array([most[name] or every for name in shares], np.int64)


def _in_market(sale: Sale) -> Bounds:
    """Return the bounds that a market takes.

    One core is what any job has a use for, and no bound, as is all of a server. Where jobs ask for
    more than their server has, no minimum on it holds.
    """
    market = sale.market
    lower = np.where(sale.least > 1, sale.least, 0).astype(np.float64)
    crowded = market.sum_by_server(lower) > market.capacities
    lower[crowded[market.server]] = 0.0
    capacity = market.capacities[market.server]
    return Bounds(lower, np.where(sale.most < capacity, sale.most, np.inf))


def _grants(
    jobs: Sequence[Job],
    market: AmdahlMarket,
    policy: Policy,
    held: Held,
    otherwise: Held,
    memory: Divided,
) -> list[Grant]:
    """Say what every job gets, and why; ``otherwise`` is what it would get if no node stayed."""
    # As lists: to take number after number out of an array takes three times as long.
    cores, spend, prices = held.cores.tolist(), held.spend.tolist(), held.price.tolist()
    whole, shared, weight = held.whole.tolist(), held.shared.tolist(), held.weight.tolist()
    quota, sharers = held.quota.tolist(), held.sharers.tolist()
    due = zip(otherwise.whole.tolist(), otherwise.shared.tolist(), strict=True)
    dues = [Due(own, part, policy.hysteresis) for own, part in due]
    speedups = metrics.speedups(market, held.cores).tolist()
    budgets = market.budgets[market.user].tolist()
    grants = []
    for k, job in enumerate(jobs):
        grant = Grant(
            namespace=job.namespace,
            name=job.name,
            entitlement=job.entitlement,
            node=job.node,
            cores=cores[k],
            granted_cores=whole[k],
            shared_cores=shared[k],
            weight=weight[k],
            price=prices[k],
            spend=spend[k],
            speedup=speedups[k],
            reason="",
            pod=job.pod,
            sockets=held.sockets[k],
            memory=memory.granted[k],
            memory_reason=memory.reasons[k],
            fraction=job.fraction,
        )
        terms = budgets[k], quota[k], sharers[k]
        grants.append(explain(grant, job, *terms, policy.cores, dues[k]))
    return grants


def _users(
    jobs: Sequence[Job], market: AmdahlMarket, held: Held, shares: Mapping[str, float]
) -> tuple[UserOutcome, ...]:
    cores = market.sum_by_user(held.cores)
    utility = metrics.user_progress(market, held.cores)
    most = np.array([job.max_cores or np.inf for job in jobs])
    bare = metrics.user_progress(market, np.minimum(metrics.bare_entitlement(market), most))
    return tuple(
        UserOutcome(
            name, float(market.budgets[i]), float(cores[i]), float(utility[i]), float(bare[i])
        )
        for i, name in enumerate(shares)
    )


def _nodes(
    snapshot: Snapshot, sale: Sale, priced: Priced, settled: Settled
) -> tuple[NodeOutcome, ...]:
    """Describe every node, those that sell no cores at price 0."""
    nodes = sum(node.cores > 0 for node in snapshot.nodes)
    pool = np.zeros(len(sale.node), np.int64)
    np.maximum.at(pool, sale.market.server, settled.portions.shared)
    shared = np.bincount(sale.node, pool, nodes).astype(np.int64)
    capacities = sale.market.capacities
    worth = np.bincount(sale.node, priced.prices * capacities, nodes)
    prices = worth / np.bincount(sale.node, capacities, nodes)
    sold = iter(zip(prices.tolist(), shared.tolist(), settled.stays.tolist(), strict=True))
    return tuple(
        NodeOutcome(node.name, node.cores, *(next(sold) if node.cores > 0 else (0.0, 0, False)))
        for node in snapshot.nodes
    )
