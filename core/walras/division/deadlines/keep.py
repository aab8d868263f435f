"""Deadlines that are kept: the plan in which accepted deadlines have their cores.

The objective of the market knows no deadlines. An accepted deadline is a minimum of cores, which
its user's budget pays for before its other jobs, as for ``minCores``. Other users only see the
prices that this user's demand makes, at which each of them can still buy its share of every node:
nobody falls below its entitlement (V-C). A deadline is accepted

1. if the cores that the job can use suffice, by the expected work and the speedup that it bids
   with, which contains what it loses beside others;
2. if the user's budget pays for the cores, at the price to which the reservation itself
   raises them, together with what the user has reserved before (`Budgets.reserve`);
3. and if the market that is cleared with the reservation gives the job these cores.

Accepted deadlines come first, so that no promise is broken for a later one, then the others,
the earliest deadline first. Under auctions, the deadline is the minimum utility of the job's bid
instead, for which its user's money pays. Greedy and UpperBound ignore budgets, so that nothing can
be reserved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walras.division.deadlines.auction import bid_for_deadlines, within_nodes
from walras.division.deadlines.request import Answer, Request, requests_of, with_reserved
from walras.division.deadlines.reserve import accept_new, keep_standing
from walras.market.plan import DeadlineOutcome
from walras.market.snapshot import identity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walras.division.deadlines.request import Decide
    from walras.market.plan import Plan
    from walras.market.snapshot import CoreMechanism, Job, Policy, Snapshot


RESERVING: frozenset[CoreMechanism] = frozenset(
    {"AmdahlBidding", "ProportionalSharing", "BestResponse", "PriceAnticipating"}
)
"""Mechanisms under which cores are reserved for deadlines: those that charge budgets for cores."""


def with_deadlines(
    snapshot: Snapshot, bidding: Iterable[Job], policy: Policy, decide: Decide
) -> Plan:
    """Return the plan in which accepted deadlines have their cores, and the outcome of each.

    Args:
        snapshot: Snapshot in canonical order.
        bidding: Jobs that take part in its market, with the parallel fractions that they bid with,
            by which they also progress: lowered by what they lose beside others.
        policy: Mechanisms.
        decide: Clears a market in which ``deadline.reserved`` is a minimum of cores.
    """
    reach = {node.name: node.cores for node in snapshot.nodes}
    requests = requests_of(snapshot, bidding, reach)
    if not requests:
        return decide(snapshot, policy)
    if policy.cores == "Auction":
        requests = within_nodes(reach, snapshot, requests)
        plan, met, outbid = bid_for_deadlines(snapshot, policy, decide, requests)
        return _with_outcomes(plan, snapshot, requests, met, outbid)
    if policy.cores not in RESERVING:
        plan = decide(with_reserved(snapshot, ()), policy)
        return _with_outcomes(plan, snapshot, requests, (), {})
    chosen, plan = keep_standing(snapshot, policy, decide, requests)
    answers: dict[tuple[str, str], Answer] = {}
    chosen, plan = accept_new(snapshot, policy, decide, requests, chosen, plan, answers)
    return _with_outcomes(plan, snapshot, requests, chosen, answers)


def _with_outcomes(
    plan: Plan,
    snapshot: Snapshot,
    requests: Sequence[Request],
    chosen: Collection[Request],
    answers: Mapping[tuple[str, str], Answer],
) -> Plan:
    """Return the plan with the outcome of every deadline."""
    accepted = {each.job: each for each in chosen}
    outcomes: dict[int, DeadlineOutcome] = {}
    for asked in requests:
        request = accepted.get(asked.job, asked)
        answer = answers.get(request.job, Answer("Forecast"))
        if not request.within_reach:
            answer = Answer("OutOfReach")
        elif not request.reserves:
            answer = Answer("OnTime")
        elif request.job in accepted:
            answer = Answer("Reserved")
        for part in request.parts:
            job = snapshot.jobs[part.number]
            outcomes[part.number] = DeadlineOutcome(
                namespace=job.namespace,
                name=job.name,
                entitlement=job.entitlement,
                node=job.node,
                pod=job.pod,
                needed=part.needed,
                asked=part.cores,
                reserved=part.cores if request.job in accepted else 0.0,
                payable=answer.payable,
                state=answer.state,
            )
    granted = {identity(grant) for grant in plan.grants}
    deadlines = (outcomes[number] for number in sorted(outcomes))
    return replace(plan, deadlines=tuple(each for each in deadlines if identity(each) in granted))
