"""Pure: compute the status of a MarketJob: what its pods got, at which price, and why."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

from walras.colocation import WAITS_FOR_MATCHING
from walras.resources.market_job import (
    MOST_PODS,
    AuctionReport,
    MarketJobStatus,
    PodCounts,
    PodOutcome,
    UsedProfile,
    WeightReport,
    WeightsReport,
)
from walras.resources.preferences import recorded_runs, weights_of
from walras.resources.waiting import waiting_method
from walras_operator.colocating.status import last_colocation
from walras_operator.conditions import (
    MAX_REASON,
    clipped,
    conditions,
    fails,
    listed,
)
from walras_operator.enforcement import Enforcement
from walras_operator.numbers import figure
from walras_operator.status.job_conditions import job_conditions, objective, overcommitted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.plan import BidOutcome, Grant
    from walras.resources.cluster import Pod
    from walras.resources.kinds import MarketJob
    from walras.resources.preferences import Weight, Weights
    from walras.resources.terms import Name
    from walras_operator.job_outcomes import JobOutcomes
    from walras_operator.world import Document

UNKNOWN = Enforcement("Granted")


def job_status(
    job: MarketJob, outcomes: JobOutcomes, before: Mapping[str, Any], now: str
) -> Document:
    """Return the status of a job.

    Args:
        job: The MarketJob.
        outcomes: Outcome of the decision.
        before: Status as last written.
        now: Current time (RFC 3339).
    """
    key = job.metadata.namespace, job.metadata.name
    former = {
        (str(each.get("name")), str(each.get("podUID"))): each for each in listed(before, "pods")
    }
    numbers = sorted(
        outcomes.pods.get(key, ()),
        key=lambda number: outcomes.validated.objects.pods[number].metadata.name,
    )
    pods = [_pod(outcomes, key, number, former) for number in numbers]
    speedup = outcomes.validated.speedups.get(key)
    granted = [
        grant
        for number in numbers
        if (grant := outcomes.grants.get(_name(outcomes.validated.objects.pods[number])))
    ]
    bid = outcomes.bids.get(key)
    states = job_conditions(
        job,
        outcomes.validated,
        outcomes.overlaps.get(key, ()),
        pods,
        outcomes.unmeasured.get(key),
    )
    if key in outcomes.annotations:
        states["AnnotationsValid"] = fails(outcomes.annotations[key])
    short = [grant for grant in granted if grant.floor and not grant.keeps_request]
    if short:
        states["RequestsKept"] = overcommitted(short)
    if job.spec.auction.minimum_utility is not None:
        states["ObjectiveMet"] = objective(bid)
    deadline = outcomes.deadlines.get(key)
    if deadline is not None:
        states["OnTime"] = deadline.condition
    runs = {"runs": outcomes.runs[key]} if key in outcomes.runs else {}
    recorded = recorded_runs(job, outcomes.validated.objects.rules, runs)
    status = MarketJobStatus(
        workload=_workload(job),
        profile=None
        if speedup is None
        else UsedProfile(
            parallel_fraction=figure(speedup.fraction),
            source=speedup.source,
            name=speedup.profile or None,
        ),
        counts=PodCounts(
            total=len(pods),
            granted=sum(pod.state in {"Granted", "Enforced"} for pod in pods),
            enforced=sum(pod.state == "Enforced" for pod in pods),
            unlisted=max(len(pods) - MOST_PODS, 0),
        ),
        cores=figure(sum(grant.cores for grant in granted)),
        speedup=figure(fmean(grant.speedup for grant in granted)) if granted else None,
        spend=figure(sum(grant.spend for grant in granted)),
        auction=None if bid is None else _auction(bid, weights_of(job, recorded)),
        pods=pods[:MOST_PODS],
        conditions=conditions(states, before, now, job.metadata.generation),
    )
    # Runs are the same object in most decisions.
    return status.document() | runs | ({} if deadline is None else {"deadline": deadline.document})


def _workload(job: MarketJob) -> str | None:
    """Return the workload or the labels that select a job's pods."""
    target, selector = job.spec.target_ref, job.spec.selector
    if target is not None:
        text = f"{target.kind}/{target.name}"
        return f"auto ({text})" if job.is_automatic else text
    if selector is None:
        return None
    return ",".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items()))


def _auction(bid: BidOutcome, weights: Weights) -> AuctionReport:
    return AuctionReport(
        budget=figure(bid.budget),
        utility=figure(bid.utility),
        minimum=None if bid.minimum is None else figure(bid.minimum),
        service="Bid" if bid.prolific else "Leftovers",
        charge=figure(bid.charge),
        weights=WeightsReport(
            source=weights.source,
            cause=weights.cause,
            runs=weights.runs,
            recorded=weights.recorded,
            cores=_weight(weights.cores, weights.source),
            memory=_weight(weights.memory, weights.source),
        ),
    )


def _weight(weight: Weight, source: str) -> WeightReport:
    estimated = source == "Estimated"
    return WeightReport(
        value=figure(weight.value),
        lower=figure(weight.lower) if estimated else None,
        upper=figure(weight.upper) if estimated and math.isfinite(weight.upper) else None,
    )


def _name(pod: Pod) -> Name:
    return pod.metadata.namespace, pod.metadata.name


def _pod(
    outcomes: JobOutcomes,
    key: Name,
    number: int,
    former: Mapping[tuple[Any, Any], Mapping[str, Any]],
) -> PodOutcome:
    pod = outcomes.validated.objects.pods[number]
    grant = outcomes.grants.get(_name(pod))
    unplaceable = outcomes.unplaceable and waiting_method(pod) is not None
    if grant is None or unplaceable or _name(pod) in outcomes.ungranted:
        return _without_grant(outcomes, key, number, pod, former)
    before = former.get((pod.metadata.name, pod.metadata.uid), {})
    held = outcomes.enforced.get((grant.node, pod.metadata.uid), UNKNOWN)
    reason = grant.reason + (f"; its node's agent: {held.reason}" if held.reason else "")
    return PodOutcome(
        pod_uid=pod.metadata.uid,
        name=pod.metadata.name,
        node=grant.node,
        state=_state(grant, held, before),
        cores=figure(grant.cores),
        granted_cores=grant.granted_cores,
        shared_cores=grant.shared_cores,
        weight=grant.weight,
        memory=None if grant.memory is None else str(grant.memory),
        speedup=figure(grant.speedup),
        price=figure(grant.price),
        spend=figure(grant.spend),
        reason=clipped(reason, MAX_REASON),
        memory_reason=clipped(grant.memory_reason, MAX_REASON) or None,
        colocation=outcomes.colocations.get(grant.title) or last_colocation(before),
    )


def _state(grant: Grant, held: Enforcement, former: Mapping[str, Any]) -> Any:
    """Return the state of a pod; an agent's last report of the same grant stands until the next."""
    if held.state != "Unreported":
        return held.state
    same = (
        former.get("node") == grant.node
        and former.get("grantedCores") == grant.granted_cores
        and former.get("sharedCores") == grant.shared_cores
    )
    return "Enforced" if same and former.get("state") == "Enforced" else "Granted"


def _without_grant(
    outcomes: JobOutcomes,
    key: Name,
    number: int,
    pod: Pod,
    former: Mapping[tuple[Any, Any], Mapping[str, Any]],
) -> PodOutcome:
    node, name = pod.spec.node_name, _name(pod)
    problem = outcomes.validated.jobs.get(key)
    absent = outcomes.validated.assembled.absent.get(number)
    if problem is not None:
        reason = problem.message
    elif name in outcomes.ungranted:
        reason = outcomes.ungranted[name]
    elif absent is not None and node is not None:
        why = outcomes.validated.closed.get(node, "is not there any more")
        reason = f"runs on {node}, which {why}; waits until it sells cores"
    else:
        reason = absent or outcomes.waiting.get(name) or "waits for the next decision"
        if outcomes.unplaceable and waiting_method(pod) is not None:
            reason = f"waits: the operator may not place pods: {outcomes.unplaceable}"
        if (
            reason == WAITS_FOR_MATCHING
        ):  # what the last matching had to say about it stands until the next
            before = former.get((pod.metadata.name, pod.metadata.uid), {})
            reason = str(before.get("reason") or reason)
    refused = problem is not None and not problem.reason.startswith("Profile")
    return PodOutcome(
        pod_uid=pod.metadata.uid,
        name=pod.metadata.name,
        node=node,
        state="Refused" if refused else "Waiting",
        reason=clipped(reason, MAX_REASON),
    )
