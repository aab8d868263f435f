"""Outcomes of a decision: what its division gives every job, user and node, and why.

The last phase of `walras.clearing.clear`: arrays of numbers become values with names, and what the
next decision has to know of this one is noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from walras.division.auctions import bid_outcomes
from walras.division.holdings import THOUSANDTH
from walras.division.requests import SHORT
from walras.market.account import lending, repayment, taken_over
from walras.market.admission import divide_by_shares, leaves_of
from walras.market.balances import Balance, whole_rates
from walras.market.budgets import repays_debts
from walras.market.plan import Grant, NodeOutcome, Plan, Sentence, Shortfall, UserOutcome
from walras.market.snapshot import identity
from walras.mechanisms.amdahl import metrics
from walras.outcome.reasons import Terms, explain, explain_bid, explain_node_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walras.division.hysteresis import HysteresisResult
    from walras.division.memory import MemoryDivision
    from walras.division.pricing import PricingResult
    from walras.division.sale import Sale
    from walras.market.plan import BidOutcome
    from walras.market.snapshot import Job, Policy, Snapshot
    from walras.numerics.arrays import Bools, Floats, Integers
    from walras.placement.colocation import Placed

NEGLIGIBLE = 1e-6
"""Part of a budget that arithmetic may be off by."""

TINY = 1e-300
"""Smallest price by which an infinite number of cores is multiplied."""

MOST_CAUSES = 3
"""Users that are named as the cause of a shortfall, on one node each."""


class Divided(NamedTuple):
    """The division of the cores of a sale to k jobs.

    Attributes:
        priced: Cores of the parts of jobs, with their prices.
        bare: Cores of each job by its user's share alone (V-C), shape (k,).
        within_bounds: Cores of each job within its bounds, shape (k,).
        without_hysteresis: Cores that each job would hold if the policy had no hysteresis,
            shape (k,).
        settled: Cores that each job holds.
    """

    priced: PricingResult
    bare: Floats
    within_bounds: Floats
    without_hysteresis: Floats
    settled: HysteresisResult


def explained_plan(
    snapshot: Snapshot,
    policy: Policy,
    placed: Placed,
    sale: Sale,
    divided: Divided,
    memory: MemoryDivision,
) -> Plan:
    """Return the plan that says what was decided, and explains every grant to its user."""
    market, priced, held = sale.market, divided.priced, divided.settled.held
    auctioned = sale.auctioned
    bids = () if auctioned is None else bid_outcomes(auctioned, held, memory.granted)
    bought = _bought(sale, priced)
    progress = metrics.utilities_in_hardware(market, np.minimum(bought.cores, sale.bounds.most))
    return Plan(
        grants=_grants(snapshot, policy, placed, sale, divided, bought, memory, bids),
        users=_users(snapshot, sale, divided, bought),
        nodes=_nodes(snapshot, sale, divided),
        refused=placed.refused,
        mechanism=policy.cores,
        solver=priced.solver,
        iterations=priced.iterations,
        residual=priced.residual,
        converged=priced.converged,
        system_progress=float(market.budgets @ progress / market.budgets.sum())
        if sale.jobs
        else 0.0,
        pairings=placed.pairings,
        bids=bids,
        memory_mechanism=policy.memory if memory.users and policy.memory else "",
        memory=memory.users,
        ledger=memory.ledger,
        quantum=memory.quantum,
        account=_account_from_now(snapshot, policy, sale, divided, bought),
    )


class _Bought(NamedTuple):
    """What k jobs buy: cores, the mean price of a core, and what is paid, each of shape (k,)."""

    cores: Floats
    price: Floats
    spend: Floats


def _bought(sale: Sale, priced: PricingResult) -> _Bought:
    units = sale.units
    prices = priced.prices[units.market.server]
    spend = prices * priced.cores if priced.spends is None else priced.spends
    return _Bought(units.of_jobs(priced.cores), units.mean_of_jobs(prices), units.of_jobs(spend))


def _grants(
    snapshot: Snapshot,
    policy: Policy,
    placed: Placed,
    sale: Sale,
    divided: Divided,
    bought: _Bought,
    memory: MemoryDivision,
    bids: Sequence[BidOutcome],
) -> tuple[Grant, ...]:
    """Return every job's grant with its reason."""
    market, held = sale.market, divided.settled.held
    limited = policy.cores == "PriceAnticipating"
    limits = {each.name: each.max_nodes if limited else None for each in snapshot.entitlements}
    bid_of = {(bid.namespace, bid.name): bid for bid in bids}
    rows = zip(
        sale.jobs,
        _rows(*bought, held, metrics.speedups_in_hardware(market, held)),
        _rows(
            market.budgets[market.user],
            divided.within_bounds,
            sale.units.of_jobs(sale.bounds_of_units.kept),
            divided.without_hysteresis,
            _left_by_sated(policy, sale, divided, bought)[market.user],
            sale.cut,
        ),
        sale.units.sockets_of_jobs(),
        memory.granted,
        memory.reasons,
        strict=True,
    )
    grants = []
    for job, amounts, terms, sockets, granted, memory_reason in rows:
        limit, loss = limits[job.entitlement], placed.losses.get(identity(job))
        bid = bid_of.get((job.namespace, job.name)) if bid_of else None
        why = Sentence(_reason, (job, amounts, terms, limit, loss, bid, policy))
        grants.append(_grant(job, amounts, terms[2], why, sockets, granted, memory_reason))
    return tuple(grants)


def _grant(
    job: Job,
    amounts: tuple[float, float, float, float, float],
    kept: float,
    reason: Sentence | str = "",
    sockets: tuple[int, ...] = (),
    memory: int | None = None,
    memory_reason: Sentence | str = "",
) -> Grant:
    """Return the grant of a job; arguments by position, as their names cost as much as the grant.

    Args:
        job: The job.
        amounts: Cores that it buys, their price, what it spends, cores that it holds, and speedup.
        kept: Cores that it keeps whatever the market decides.
        reason: Explanation of the cores.
        sockets: Sockets that it runs on.
        memory: Bytes granted.
        memory_reason: Explanation of the memory.
    """
    cores, price, spend, held, speedup = amounts
    return Grant(
        job.namespace,
        job.name,
        job.entitlement,
        job.node,
        cores,
        held,
        price,
        spend,
        speedup,
        reason,
        job.pod,
        sockets,
        memory,
        memory_reason,
        job.fraction,
        job.requested,
        min(kept, job.floor),
    )


def _reason(
    job: Job,
    amounts: tuple[float, float, float, float, float],
    terms: tuple[float, float, float, float, float, bool],
    limit: int | None,
    loss: str | None,
    bid: BidOutcome | None,
    policy: Policy,
) -> str:
    """Return the reason of a grant.

    Args:
        job: The job.
        amounts: As for `_grant`.
        terms: What decided the cores, as `Terms` has it, without the threshold.
        limit: Nodes that its user may bid on at once; None for all.
        loss: What it is expected to lose beside others, in words; None if that is not known.
        bid: Outcome of its bid, if there are auctions.
        policy: Mechanisms.
    """
    grant = _grant(job, amounts, terms[2])
    reasons = (
        explain_node_limit(grant, limit),
        explain(grant, job, Terms(*terms, policy.hysteresis), policy.cores),
        loss,
        None if bid is None else explain_bid(bid),
    )
    return "; ".join(filter(None, reasons))


def _rows(*columns: Floats | Integers | Bools) -> Iterator[tuple[Any, ...]]:
    """Yield arrays row by row as Python's numbers: reading them one by one takes thrice as long."""
    return zip(*(column.tolist() for column in columns), strict=True)


def _users(
    snapshot: Snapshot, sale: Sale, divided: Divided, bought: _Bought
) -> tuple[UserOutcome, ...]:
    market, held, most = sale.market, divided.settled.held, sale.bounds.most
    entitled = metrics.utilities_in_hardware(market, divided.bare)
    holds = metrics.utilities_in_hardware(market, np.minimum(held, most))
    rows = _rows(
        market.budgets,
        market.sum_by_user(bought.cores),
        market.sum_by_user(held),
        market.sum_by_user(bought.spend),
        metrics.utilities_in_hardware(market, np.minimum(bought.cores, most)),
        holds,
        entitled,
    )
    short = np.flatnonzero(holds < SHORT * entitled)
    causes = {user: _short_of(snapshot, sale, divided, user) for user in short.tolist()}
    return tuple(
        UserOutcome(*(name, *row, causes.get(user, ())))
        for user, (name, row) in enumerate(zip(sale.parts, rows, strict=True))
    )


def _short_of(snapshot: Snapshot, sale: Sale, divided: Divided, user: int) -> tuple[Shortfall, ...]:
    """Return whose bounds exceed their share of a unit, those first where the user itself lacks.

    The user may be one of them: what its own requests keep is not where it would buy it.
    """
    units, names, nodes = sale.units, tuple(sale.parts), snapshot.selling
    market, bounds = units.market, sale.bounds_of_units
    lacks = np.zeros(len(nodes))
    mine = sale.market.user == user
    np.add.at(lacks, sale.market.server[mine], (divided.bare - divided.settled.held)[mine])
    pairs, pair = np.unique(market.pair, return_inverse=True)
    owner, server = np.divmod(pairs, len(market.capacities))
    share = market.budgets / market.budgets.sum()
    needed = np.bincount(pair, np.maximum(bounds.own, bounds.least))
    excess = needed - share[owner] * market.capacities[server]
    shortfalls = sorted(
        (not lacks[node] > 0, -cores, names[one], nodes[node].name)
        for cores, one, node in _rows(excess, owner, units.node[server])
        if cores > THOUSANDTH
    )
    return tuple(Shortfall(one, node, -cores) for _, cores, one, node in shortfalls[:MOST_CAUSES])


def _nodes(snapshot: Snapshot, sale: Sale, divided: Divided) -> tuple[NodeOutcome, ...]:
    """Return the outcome of every node; the price is 0 where no cores are for sale."""
    units, settled, nodes = sale.units, divided.settled, len(sale.market.capacities)
    own = sale.market.sum_by_server(np.floor(settled.held + THOUSANDTH / 2))
    shared = np.rint((sale.market.capacities - own) / THOUSANDTH) / (1 / THOUSANDTH)
    capacities = units.market.capacities
    worth = np.bincount(units.node, divided.priced.prices * capacities, nodes)
    prices = worth / np.bincount(units.node, capacities, nodes)
    sold = _rows(prices, shared, settled.stays)
    return tuple(
        NodeOutcome(node.name, node.cores, *(next(sold) if node.cores > 0 else (0.0, 0.0, False)))
        for node in snapshot.nodes
    )


def _account_from_now(
    snapshot: Snapshot, policy: Policy, sale: Sale, divided: Divided, buys: _Bought
) -> dict[str, Balance]:
    """Return the balances of entitlements without children, with what they lend from now on."""
    known = taken_over(snapshot.account, snapshot.entitlements, snapshot.account)
    known = {name: each._replace(rate=0) for name, each in known.items()}
    if not repays_debts(policy):
        return known
    leaves = sorted(leaves_of(snapshot.entitlements))
    market, row_of = sale.market, {name: row for row, name in enumerate(leaves)}
    here = np.array([row_of[name] for name in sale.parts], np.int64)

    def of_all(users: Floats) -> Floats:
        values = np.zeros(len(leaves))
        values[here] = users
        return values

    parts = divide_by_shares(snapshot.entitlements, leaves)
    cores = sum(node.cores for node in snapshot.nodes)
    entitled = np.array([parts[name] * cores for name in leaves])
    by_shares = np.array(list(sale.by_shares.values())) * market.budgets.sum()
    spent, bought = market.sum_by_user(buys.spend), market.sum_by_user(buys.cores)
    paid = np.minimum(spent, market.budgets)
    if policy.lending:
        total = float(paid.sum())
        worth = paid * (bought.sum() / total if total > 0 else 0.0)
        worth = np.maximum(worth, paid + _left_by_sated(policy, sale, divided, buys))
        rates = lending(entitled, of_all(worth), of_all(bought))
    else:
        rates = of_all(repayment(by_shares, market.budgets, paid))
    rates += of_all(_for_requests(sale, divided, spent > market.budgets * (1 + NEGLIGIBLE)))
    factors = np.ones(len(leaves))
    factors[here] = market.budgets / by_shares
    rows = zip(leaves, whole_rates(rates), entitled.tolist(), factors.tolist(), strict=True)
    return known | {
        name: known[name]._replace(rate=rate, entitled=cores, factor=factor)
        for name, rate, cores, factor in rows
    }


def _left_by_sated(policy: Policy, sale: Sale, divided: Divided, bought: _Bought) -> Floats:
    """Return what each user leaves of its budget although its jobs could use more, shape (n,)."""
    if policy.cores != "AmdahlBidding":
        return np.zeros(len(sale.market.budgets))
    units, most = sale.units.market, sale.bounds_of_units.most
    price = divided.priced.prices[units.server]
    wanted = np.where(divided.priced.cores < most * (1 - NEGLIGIBLE), np.inf, 0.0)
    usable = units.sum_by_user(np.where(price > 0, np.maximum(price, TINY) * most, wanted))
    could = np.minimum(sale.market.budgets, usable)
    left = np.maximum(could - sale.market.sum_by_user(bought.spend), 0.0)
    return np.where(left > NEGLIGIBLE * sale.market.budgets, left, 0.0)


def _for_requests(sale: Sale, divided: Divided, above_budget: Bools) -> Floats:
    """Return what users lack, less what requests beyond budgets take, node by node, shape (n,).

    Args:
        sale: The market.
        divided: What jobs hold, and what they would by the bare entitlement of their users.
        above_budget: Whether what each user's pods requested costs more than its budget.
    """
    market, held, most = sale.market, divided.settled.held, sale.bounds.most
    holds = metrics.utilities_in_hardware(market, np.minimum(held, most))
    short = holds < SHORT * metrics.utilities_in_hardware(market, divided.bare)
    nodes = len(market.capacities)
    pairs, pair = np.unique(market.user * nodes + market.server, return_inverse=True)
    user, node = np.divmod(pairs, max(nodes, 1))
    more = np.bincount(pair, held - divided.bare, len(pairs))
    taken = np.where(above_budget[user], np.maximum(more, 0.0), 0.0)
    lacking = np.where(short[user], np.maximum(-more, 0.0), 0.0)
    takes = np.asarray(np.bincount(node, taken, nodes), np.float64)
    lacks = np.asarray(np.bincount(node, lacking, nodes), np.float64)
    passed = np.minimum(takes, lacks)
    parts = lacking * _ratio(passed, lacks)[node] - taken * _ratio(passed, takes)[node]
    return np.asarray(np.bincount(user, parts, len(market.budgets)), np.float64)


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0), np.float64)
