"""Outcomes of a decision: what its division gives every job, user and node, and why.

The last phase of `walras.clearing.clear`: arrays of numbers become values with names, and what the
next decision has to know of this one is noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from walras import metrics
from walras.auctions import bid_outcomes
from walras.budgets import bounded_credits, keeps_core_credits
from walras.core_credits import lending
from walras.explain import WithoutHysteresis, explain, explain_bid, explain_node_limit
from walras.floors import budgets_above_floors
from walras.hysteresis import speedups_in_hardware, worth_of_jobs
from walras.plan import Grant, NodeOutcome, Plan, UserOutcome
from walras.rounding_credit import NO_CREDIT, RoundingCredit
from walras.snapshot import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walras._arrays import Bools, Floats, Integers
    from walras.colocation import Placed
    from walras.core_credits import CoreCredit
    from walras.hysteresis import HysteresisResult
    from walras.memory import MemoryDivision
    from walras.plan import BidOutcome
    from walras.pricing import PricingResult
    from walras.sale import Sale
    from walras.sale_units import HeldCores
    from walras.snapshot import Policy, Snapshot


class Divided(NamedTuple):
    """The division of the cores of a sale to k jobs.

    Attributes:
        priced: Cores of the parts of jobs in real numbers, with their prices.
        bare: Cores of each job's bare entitlement that it can use (V-C), shape (k,).
        settled: Whole cores and shared pools of the parts of jobs, after hysteresis.
        held: What each job bought, and what it holds of it.
        without_hysteresis: The same if the policy had no hysteresis.
        cores: Cores that each job has in hardware: its own, or its part of a pool, shape (k,).
    """

    priced: PricingResult
    bare: Floats
    settled: HysteresisResult
    held: HeldCores
    without_hysteresis: HeldCores
    cores: Floats


def explained_plan(
    snapshot: Snapshot,
    policy: Policy,
    placed: Placed,
    sale: Sale,
    divided: Divided,
    memory: MemoryDivision,
) -> Plan:
    """Return the plan that says what was decided, and explains every grant to its user."""
    market, priced, held = sale.market, divided.priced, divided.held
    auctioned = sale.auctioned
    bids = () if auctioned is None else bid_outcomes(auctioned, divided.cores, memory.granted)
    return Plan(
        grants=_grants(snapshot, policy, placed, sale, divided, memory, bids),
        users=_users(sale, divided),
        nodes=_nodes(snapshot, sale, divided),
        refused=placed.refused,
        mechanism=policy.cores,
        solver=priced.solver,
        iterations=priced.iterations,
        price_error=priced.price_error,
        residual=priced.residual,
        converged=priced.converged,
        system_progress=metrics.system_progress(market, held.cores) if sale.jobs else 0.0,
        pairings=placed.pairings,
        bids=bids,
        memory_mechanism=policy.memory if memory.users and policy.memory else "",
        memory=memory.users,
        ledger=memory.ledger,
        quantum=memory.quantum,
        rounding=_rounding_from_now(snapshot, policy, sale, divided),
        core_credits=_core_credits_from_now(snapshot, policy, sale, held),
    )


def _grants(
    snapshot: Snapshot,
    policy: Policy,
    placed: Placed,
    sale: Sale,
    divided: Divided,
    memory: MemoryDivision,
    bids: Sequence[BidOutcome],
) -> tuple[Grant, ...]:
    """Return every job's grant with its reason."""
    market, held, target = sale.market, divided.held, divided.without_hysteresis
    budgets = budgets_above_floors(market, sale.floors)[market.user]
    speedups = metrics.speedups(market, held.cores)
    limited = policy.cores == "PriceAnticipating"
    limits = {each.name: each.max_nodes if limited else None for each in snapshot.entitlements}
    bid_of = {(bid.namespace, bid.name): bid for bid in bids}
    rows = zip(
        sale.jobs,
        _rows(held.cores, held.whole, held.shared, held.weight, held.price, held.spend, speedups),
        _rows(budgets, held.quota, held.sharers),
        _rows(target.whole, target.shared),
        sale.floors.tolist(),
        held.sockets,
        memory.granted,
        memory.reasons,
        strict=True,
    )
    grants = []
    for job, amounts, terms, due, floor, sockets, granted, memory_reason in rows:
        cores, whole, shared, weight, price, spend, speedup = amounts
        budget, quota, sharers = terms
        own, pool = due
        grant = Grant(
            namespace=job.namespace,
            name=job.name,
            entitlement=job.entitlement,
            node=job.node,
            cores=cores,
            granted_cores=whole,
            shared_cores=shared,
            weight=weight,
            price=price,
            spend=spend,
            speedup=speedup,
            reason="",
            pod=job.pod,
            sockets=sockets,
            memory=granted,
            memory_reason=memory_reason,
            fraction=job.fraction,
            requested=job.requested,
            floor=floor,
            quota=quota,
        )
        other = WithoutHysteresis(own, pool, policy.hysteresis, policy.returns_rounding)
        grant = explain(grant, job, budget, quota, sharers, policy.cores, other)
        bid = bid_of.get((job.namespace, job.name))
        reasons = (
            explain_node_limit(grant, limits[job.entitlement]),
            grant.reason,
            placed.losses.get(identity(job)),
            None if bid is None else explain_bid(bid),
        )
        spend = spend if bid is None or bid.charge else 0.0
        grants.append(grant._replace(reason="; ".join(filter(None, reasons)), spend=spend))
    return tuple(grants)


def _rows(*columns: Floats | Integers | Bools) -> Iterator[tuple[Any, ...]]:
    """Yield arrays row by row as Python's numbers: reading them one by one takes thrice as long."""
    return zip(*(column.tolist() for column in columns), strict=True)


def _users(sale: Sale, divided: Divided) -> tuple[UserOutcome, ...]:
    market, bought, held = sale.market, divided.held.cores, divided.cores
    rows = _rows(
        market.budgets,
        market.sum_by_user(bought),
        market.sum_by_user(held),
        metrics.user_progress(market, bought),
        market.sum_by_user(worth_of_jobs(market) * speedups_in_hardware(market, held, sale.most)),
        metrics.user_progress(market, divided.bare),
    )
    return tuple(UserOutcome(name, *row) for name, row in zip(sale.parts, rows, strict=True))


def _nodes(snapshot: Snapshot, sale: Sale, divided: Divided) -> tuple[NodeOutcome, ...]:
    """Return the outcome of every node; the price is 0 where no cores are for sale."""
    units, settled, nodes = sale.units, divided.settled, len(sale.market.capacities)
    pool = np.zeros(len(units.node), np.int64)
    np.maximum.at(pool, units.market.server, settled.apportioned.shared)
    shared = np.bincount(units.node, pool, nodes).astype(np.int64)
    capacities = units.market.capacities
    worth = np.bincount(units.node, divided.priced.prices * capacities, nodes)
    prices = worth / np.bincount(units.node, capacities, nodes)
    sold = _rows(prices, shared, settled.stays)
    return tuple(
        NodeOutcome(node.name, node.cores, *(next(sold) if node.cores > 0 else (0.0, 0, False)))
        for node in snapshot.nodes
    )


def _rounding_from_now(
    snapshot: Snapshot, policy: Policy, sale: Sale, divided: Divided
) -> dict[str, RoundingCredit]:
    """Return users' rounding credits, with what rounding takes from now on."""
    if not policy.returns_rounding:
        return {}
    quota = sale.market.sum_by_user(divided.held.quota)
    loss = quota - sale.market.sum_by_user(divided.cores)
    return {
        name: RoundingCredit(snapshot.rounding.get(name, NO_CREDIT).core_seconds, *amounts).clipped(
            policy.averaging
        )
        for name, amounts in zip(sale.parts, _rows(loss, quota), strict=True)
    }


def _core_credits_from_now(
    snapshot: Snapshot, policy: Policy, sale: Sale, held: HeldCores
) -> dict[str, CoreCredit]:
    """Return the core credits of entitlements without children, with what they lend from now on."""
    if not keeps_core_credits(policy):
        return {}
    market, bounded = sale.market, bounded_credits(snapshot, policy)
    paid = market.sum_by_user(held.spend) + market.sum_by_user(sale.floors)
    bought = market.sum_by_user(held.cores)
    rows = {name: row for row, name in enumerate(bounded)}
    here = np.array([rows[name] for name in sale.parts], np.int64)
    pays, buys, factors = np.zeros(len(rows)), np.zeros(len(rows)), np.ones(len(rows))
    total = float(paid.sum())
    pays[here], buys[here] = paid * (bought.sum() / total if total > 0 else 0.0), bought
    factors[here] = market.budgets / (
        np.array(list(sale.by_shares.values())) * market.budgets.sum()
    )
    entitled = np.array([each.entitled for each in bounded.values()])
    rates = lending(entitled, pays, buys).tolist()
    known = zip(bounded.items(), rates, factors.tolist(), strict=True)
    return {name: each._replace(rate=rate, factor=factor) for (name, each), rate, factor in known}
