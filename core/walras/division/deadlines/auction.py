"""Deadlines as minimum utilities of bids, in auctions."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from walras.division.deadlines.need import NEGLIGIBLE
from walras.division.deadlines.request import Answer, Request, with_reserved
from walras.division.deadlines.reserve import ROUNDS, not_held
from walras.market.admission import admit, divide_by_shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras.division.deadlines.request import Decide
    from walras.market.plan import Plan
    from walras.market.snapshot import Policy, Snapshot


def bid_for_deadlines(
    snapshot: Snapshot, policy: Policy, decide: Decide, requests: Sequence[Request]
) -> tuple[Plan, list[Request], dict[tuple[str, str], Answer]]:
    """Return the plan of an auction in which deadlines are minimums of utilities.

    Beside it, it returns the requests that are met, and the answer to each job that is outbid.

    A job that misses such a minimum bids without it, if it cannot do with fewer cores to spare. So
    does one that reaches it by more cores on one node than it needs, and fewer on another.
    """
    users = {job.entitlement for job in admit(snapshot).jobs}
    shares = divide_by_shares(snapshot.entitlements, users)
    asking = [each for each in requests if each.within_reach]
    outbid: dict[tuple[str, str], Answer] = {}
    for rounds in reversed(range(ROUNDS + 1)):
        least = {each: _utility(snapshot, policy, each, shares[each.user]) for each in asking}
        asking = [each for each in asking if least[each]]
        plan = decide(_with_minimums(snapshot, least), policy)
        kept = {(bid.namespace, bid.name) for bid in plan.bids if bid.met}
        kept -= {request.job for request in not_held(plan, snapshot, asking)}
        lost = {request.job for request in asking if request.job not in kept}
        if not lost:
            break
        modest = [each.without_spare if each.job in lost else each for each in asking]
        if rounds > 1 and modest != asking:
            asking = modest
            continue
        dropped = lost if rounds > 1 else {request.job for request in asking}
        outbid.update((job, Answer("Outbid")) for job in dropped)
        asking = [request for request in asking if request.job not in outbid]
    return plan, asking, outbid


def within_nodes(
    reach: Mapping[str, float], snapshot: Snapshot, requests: Iterable[Request]
) -> list[Request]:
    """Return requests, of which none is within reach whose pods need more than a node together."""
    fitting = []
    for request in requests:
        needs = _needs(snapshot, request)
        enough = all(cores <= reach[node] + NEGLIGIBLE for node, cores in needs.items())
        fitting.append(request._replace(within_reach=request.within_reach and enough))
    return fitting


def _needs(snapshot: Snapshot, request: Request) -> defaultdict[str, float]:
    """Return the cores that a job needs for its deadline, by node."""
    needs: defaultdict[str, float] = defaultdict(float)
    for part in request.parts:
        needs[snapshot.jobs[part.number].node] += part.cores or part.needed
    return needs


def _with_minimums(snapshot: Snapshot, asking: Mapping[Request, float | None]) -> Snapshot:
    """Return the snapshot with the deadlines of jobs as minimums of their bids' utilities."""
    least_of = {request.job: least for request, least in asking.items() if least}
    jobs = tuple(
        replace(job, bid=replace(job.bid, minimum_utility=max(own or 0.0, least)))
        if (least := least_of.get((job.namespace, job.name)))
        else job
        for job in snapshot.jobs
        for own in (job.bid.minimum_utility,)
    )
    return replace(with_reserved(snapshot, ()), jobs=jobs)


def _utility(snapshot: Snapshot, policy: Policy, request: Request, share: float) -> float | None:
    """Return the utility that a job's bid must reach for its deadline; None if that is unknown.

    It is the utility of the cores that the job needs and, if memory is auctioned too, of its user's
    share of the memory.
    """
    size = {node.name: float(node.cores) for node in snapshot.nodes}
    needs = _needs(snapshot, request)
    pods = [
        job
        for job in snapshot.jobs
        if (job.namespace, job.name) == request.job and size.get(job.node, 0.0) > 0
    ]
    whole = sum(size[node] for node in {job.node for job in pods})
    parts = {node: needs[node] / size[node] for node in {job.node for job in pods}}
    bid = pods[0].bid
    memory = share if policy.memory == "Auction" and pods[0].memory is not None else None
    if bid.utility == "Linear":
        of_cores = bid.cores * sum(size[node] * parts[node] for node in sorted(parts)) / whole
        return of_cores + (0.0 if memory is None else bid.memory * memory)
    if min(parts.values()) <= 0:
        return None
    power = sum(size[node] / whole * math.log(parts[node]) for node in sorted(parts))
    return math.exp(bid.cores * power) * (1.0 if memory is None else memory**bid.memory)
