"""The one function that decides: it clears the market of a snapshot and returns a plan.

Pure and deterministic. The local run, the what-if and the operator all call it, so that what one of
them predicts is what the others do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from walras import metrics
from walras.admission import admit, divide_by_shares
from walras.amdahl.market import AmdahlMarket
from walras.apportion import apportion
from walras.auctions import bid_outcomes, hold_auctions, promised_cores
from walras.budgets import credits_from_now, parts_with_credits
from walras.colocation import place_waiting_jobs
from walras.deadlines import with_deadlines
from walras.explain import WithoutHysteresis, apply_charges, explain, explain_node_limit
from walras.floors import bare_entitlement, budgets_above_floors, price_above_floors
from walras.hysteresis import apply_hysteresis, speedups_in_hardware, worth_of_jobs
from walras.interference import add_interference_reasons, lower_fractions
from walras.memory import divide_memory
from walras.plan import Grant, NodeOutcome, Plan, UserOutcome
from walras.rounding_credit import NO_CREDIT, RoundingCredit
from walras.sale_units import (
    UNBOUNDED,
    HeldCores,
    UnitMarket,
    cores_held,
    cores_in_hardware,
    sell_single_sockets,
    sell_whole_nodes,
)
from walras.snapshot import WITHOUT_FLOORS, Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras._arrays import Floats, Integers
    from walras.auctions import AuctionResults
    from walras.hysteresis import HysteresisResult
    from walras.memory import MemoryDivision
    from walras.plan import Refusal
    from walras.pricing import PricingResult
    from walras.snapshot import Job, Snapshot


def clear(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    """Decide how many cores and how much memory each job gets.

    1. Admit jobs to the entitlements that they name, and divide the cluster among entitlements;
       those that have lent cores lately have a larger part, if core credits are kept.
    2. Colocate: place jobs that wait for a node in pairs, and lower the parallel fractions that
       jobs bid with by what they lose to interference.
    3. Price: divide every node's cores by the mechanism, in real numbers.
    4. Round to whole cores for jobs and a shared pool for the small ones; keep promises.
    5. Apply hysteresis: keep the current division of nodes where another gains too little, unless
       it returns cores that rounding has taken.
    6. Divide memory in slices, and charge the jobs that bid for what they got.
    7. Explain every grant to its user.

    Where jobs have deadlines, this is done again with the cores that are reserved for them, until
    all that is reserved is held (`walras.deadlines`).

    The order of entitlements, nodes and jobs does not matter.

    Args:
        snapshot: Entitlements, nodes and jobs.
        policy: Mechanisms; the Amdahl market for cores alone if not given.

    Raises:
        EntitlementError: The entitlements do not form a tree.
        PricingError: The market is too large for the mechanism.
    """
    plan = with_deadlines(in_canonical_order(snapshot), policy or Policy(), _decide)
    return in_order_of(snapshot, plan)


def _decide(snapshot: Snapshot, policy: Policy) -> Plan:
    admitted = admit(snapshot)
    placed = place_waiting_jobs(admitted.jobs, snapshot, policy)
    as_measured = placed.jobs
    adjusted = lower_fractions(as_measured, snapshot.penalties if policy.interference else {})
    placed = placed._replace(jobs=adjusted.jobs)
    bare = divide_by_shares(snapshot.entitlements, {job.entitlement for job in placed.jobs})
    shares = parts_with_credits(snapshot, policy, bare)
    market = build_market(snapshot, placed.jobs, shares)
    auctioned = _hold_auctions(snapshot, market, placed.jobs, policy)
    units = units_for_sale(snapshot, market, placed.jobs, policy, auctioned)
    floors = units.floors_of_jobs(len(placed.jobs))
    limits = most_nodes(snapshot, shares)
    priced = price_above_floors(units, policy, auctioned, limits)
    credit = _relative_credits(snapshot, policy, shares)
    of_part = None if credit is None else credit[units.market.user]
    target = apportion(
        units.market, priced.cores, units.least, units.most, units.promised, units.floors, of_part
    )
    frozen = np.array([n.name in snapshot.frozen for n in snapshot.nodes if n.cores > 0], np.bool_)
    entitled = _bare_entitlement(placed.jobs, market, floors)
    settled = apply_hysteresis(
        snapshot.held, placed.jobs, market, units, target, entitled, policy, frozen, credit
    )
    held = cores_held(units, len(placed.jobs), priced, settled.apportioned)
    without_hysteresis = cores_held(units, len(placed.jobs), priced, target)
    won = None if auctioned is None else auctioned.memory
    memory = divide_memory(snapshot, placed.jobs, policy, won)
    grants = _grants(placed.jobs, market, floors, policy, held, without_hysteresis, memory)
    grants = add_interference_reasons(grants, as_measured, adjusted.losses)
    cores = cores_in_hardware(units, len(placed.jobs), settled.apportioned)
    paid = market.sum_by_user(held.spend) + market.sum_by_user(floors)
    bought = market.sum_by_user(held.cores)
    bids = () if auctioned is None else bid_outcomes(auctioned, cores, memory.granted)
    if policy.cores == "PriceAnticipating":
        grants = explain_node_limit(grants, snapshot.entitlements)
    return Plan(
        grants=apply_charges(grants, bids),
        users=_users(placed.jobs, market, held, cores, entitled, shares),
        nodes=_nodes(snapshot, units, priced, settled),
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
        rounding={} if credit is None else _credits(snapshot, policy, market, held, cores, shares),
        core_credits=credits_from_now(snapshot, policy, bare, market, paid, bought),
    )


def build_market(
    snapshot: Snapshot, jobs: Sequence[Job], shares: Mapping[str, float]
) -> AmdahlMarket:
    """Return the market of jobs as arrays; a budget is the cores that a share is worth.

    Args:
        snapshot: Snapshot whose nodes with cores for sale are the servers.
        jobs: Jobs that are admitted and have a node.
        shares: Part of the cluster of each entitlement with jobs.
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


def _hold_auctions(
    snapshot: Snapshot, market: AmdahlMarket, jobs: Sequence[Job], policy: Policy
) -> AuctionResults | None:
    """Auction cores, memory or both; None if the policy auctions nothing."""
    if "Auction" not in {policy.cores, policy.memory} or not jobs:
        return None
    nodes = [node for node in snapshot.nodes if node.cores > 0]
    return hold_auctions(market, jobs, nodes, policy)


def units_for_sale(
    snapshot: Snapshot,
    market: AmdahlMarket,
    jobs: Sequence[Job],
    policy: Policy,
    auctioned: AuctionResults | None,
) -> UnitMarket:
    """Return the units for sale: whole nodes, or their sockets.

    Nodes are sold whole in auctions, where all have one socket, and where users may bid on a
    limited number of nodes only.
    """
    least = np.array([job.least_cores for job in jobs], np.int64)
    most = np.array([job.max_cores or UNBOUNDED for job in jobs], np.int64)
    keeps = policy.cores not in WITHOUT_FLOORS
    floors = np.array([job.floor if keeps else 0.0 for job in jobs], np.float64)
    nodes = [node for node in snapshot.nodes if node.cores > 0]
    if auctioned is not None and policy.cores == "Auction":
        won = promised_cores(auctioned, market)
        return sell_whole_nodes(market, least, most, floors, won)
    limited = policy.cores == "PriceAnticipating" and any(
        each.max_nodes is not None for each in snapshot.entitlements
    )
    whole = policy.sold_by == "node" or limited
    if whole or all(node.sockets == 1 for node in nodes):
        return sell_whole_nodes(market, least, most, floors)
    return sell_single_sockets(market, nodes, least, most, floors)


def most_nodes(snapshot: Snapshot, shares: Mapping[str, float]) -> Integers | None:
    """Return the most nodes that each user bids on, shape (n,); None if no user has a bound."""
    most = {each.name: each.max_nodes for each in snapshot.entitlements}
    if all(most[name] is None for name in shares):
        return None
    every = max(len(snapshot.nodes), 1)
    return np.array([most[name] or every for name in shares], np.int64)


def _grants(
    jobs: Sequence[Job],
    market: AmdahlMarket,
    floors: Floats,
    policy: Policy,
    held: HeldCores,
    without_hysteresis: HeldCores,
    memory: MemoryDivision,
) -> list[Grant]:
    """Return every job's grant with its reason."""
    # Lists, since reading an array number by number takes three times as long.
    cores, spend, prices = held.cores.tolist(), held.spend.tolist(), held.price.tolist()
    whole, shared, weight = held.whole.tolist(), held.shared.tolist(), held.weight.tolist()
    quota, sharers = held.quota.tolist(), held.sharers.tolist()
    target = zip(without_hysteresis.whole.tolist(), without_hysteresis.shared.tolist(), strict=True)
    averaged = _keeps_credits(policy)
    targets = [WithoutHysteresis(own, part, policy.hysteresis, averaged) for own, part in target]
    speedups = metrics.speedups(market, held.cores).tolist()
    budgets = budgets_above_floors(market, floors)[market.user].tolist()
    kept = floors.tolist()
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
            requested=job.requested,
            floor=kept[k],
            quota=quota[k],
        )
        terms = budgets[k], quota[k], sharers[k]
        grants.append(explain(grant, job, *terms, policy.cores, targets[k]))
    return grants


def _keeps_credits(policy: Policy) -> bool:
    """Return whether rounding gives back what it takes.

    Not in auctions, where the cores that are held decide what bids reach and are charged.
    """
    return policy.averaging > 0 and policy.cores != "Auction"


def _relative_credits(
    snapshot: Snapshot, policy: Policy, shares: Mapping[str, float]
) -> Floats | None:
    """Return users' rounding credits in units of their limits, shape (n,); None if not kept."""
    if not _keeps_credits(policy):
        return None
    known = (snapshot.rounding.get(name, NO_CREDIT) for name in shares)
    return np.array([each.relative(policy.averaging) for each in known], np.float64)


def _credits(
    snapshot: Snapshot,
    policy: Policy,
    market: AmdahlMarket,
    bought: HeldCores,
    held: Floats,
    shares: Mapping[str, float],
) -> dict[str, RoundingCredit]:
    """Return users' rounding credits, with what rounding takes from now on."""
    quota = market.sum_by_user(bought.quota)
    loss = quota - market.sum_by_user(held)
    rows = zip(shares, loss.tolist(), quota.tolist(), strict=True)
    return {
        name: RoundingCredit(snapshot.rounding.get(name, NO_CREDIT).core_seconds, *amounts).clipped(
            policy.averaging
        )
        for name, *amounts in rows
    }


def _bare_entitlement(jobs: Sequence[Job], market: AmdahlMarket, floors: Floats) -> Floats:
    """Return the cores of each job's bare entitlement that it can use, shape (k,)."""
    most = np.array([job.max_cores or np.inf for job in jobs])
    return np.asarray(np.minimum(bare_entitlement(market, floors), most), np.float64)


def _users(
    jobs: Sequence[Job],
    market: AmdahlMarket,
    bought: HeldCores,
    held: Floats,
    bare: Floats,
    shares: Mapping[str, float],
) -> tuple[UserOutcome, ...]:
    most = np.array([job.max_cores or np.inf for job in jobs])
    columns = (
        market.budgets,
        market.sum_by_user(bought.cores),
        market.sum_by_user(held),
        metrics.user_progress(market, bought.cores),
        market.sum_by_user(worth_of_jobs(market) * speedups_in_hardware(market, held, most)),
        metrics.user_progress(market, bare),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(UserOutcome(name, *row) for name, row in zip(shares, rows, strict=True))


def _nodes(
    snapshot: Snapshot, units: UnitMarket, priced: PricingResult, settled: HysteresisResult
) -> tuple[NodeOutcome, ...]:
    """Return the outcome of every node; the price is 0 where no cores are for sale."""
    nodes = sum(node.cores > 0 for node in snapshot.nodes)
    pool = np.zeros(len(units.node), np.int64)
    np.maximum.at(pool, units.market.server, settled.apportioned.shared)
    shared = np.bincount(units.node, pool, nodes).astype(np.int64)
    capacities = units.market.capacities
    worth = np.bincount(units.node, priced.prices * capacities, nodes)
    prices = worth / np.bincount(units.node, capacities, nodes)
    sold = iter(zip(prices.tolist(), shared.tolist(), settled.stays.tolist(), strict=True))
    return tuple(
        NodeOutcome(node.name, node.cores, *(next(sold) if node.cores > 0 else (0.0, 0, False)))
        for node in snapshot.nodes
    )


def in_canonical_order(snapshot: Snapshot) -> Snapshot:
    """Return the same snapshot with everything sorted by name.

    Sums of floating-point numbers, ties, and which of several equilibria is found all depend on
    the order.
    """
    return replace(
        snapshot,
        entitlements=tuple(sorted(snapshot.entitlements, key=lambda each: each.name)),
        nodes=tuple(sorted(snapshot.nodes, key=lambda each: each.name)),
        jobs=tuple(sorted(snapshot.jobs, key=_key)),
    )


def in_order_of(snapshot: Snapshot, plan: Plan) -> Plan:
    """Return the same plan with everything in the order of ``snapshot``."""
    jobs = {_key(job): number for number, job in enumerate(snapshot.jobs)}
    users = _numbers(each.name for each in snapshot.entitlements)
    nodes = _numbers(each.name for each in snapshot.nodes)

    def of_job(each: Grant | Refusal) -> int:
        named = each.namespace, each.name, each.pod
        number = jobs.get((each.node, *named))
        return jobs["", *named] if number is None else number  # the job waited, and has a node now

    return replace(
        plan,
        grants=tuple(sorted(plan.grants, key=of_job)),
        refused=tuple(sorted(plan.refused, key=of_job)),
        users=tuple(sorted(plan.users, key=lambda each: users[each.name])),
        nodes=tuple(sorted(plan.nodes, key=lambda each: nodes[each.name])),
        memory=tuple(sorted(plan.memory, key=lambda each: users[each.name])),
    )


def _key(job: Job) -> tuple[str, str, str, str]:
    return job.node, job.namespace, job.name, job.pod


def _numbers(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}
