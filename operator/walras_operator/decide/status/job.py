"""Pure: compute the status of a MarketJob: what its pods got, at which price, and why."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

from walras_api.auction_weights import recorded_runs, weights_of
from walras_api.market_job_status import (
    MOST_PODS,
    AuctionReport,
    MarketJobStatus,
    PodCounts,
    UsedProfile,
    WeightReport,
    WeightsReport,
)
from walras_operator.decide.conditions import MAX_REASON, clipped, conditions, fails, listed
from walras_operator.decide.numbers import figure
from walras_operator.decide.status.job_conditions import (
    job_conditions,
    objective,
    overcommitted,
    shares_nevertheless,
)
from walras_operator.decide.status.pod import name_of, pod_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.market.plan import BidOutcome
    from walras_api.auction_weights import Weight, Weights
    from walras_api.kinds import MarketJob
    from walras_operator.decide.job_outcomes import JobOutcomes
    from walras_operator.decide.world import Document


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
    objects = outcomes.validated.objects
    numbers = sorted(
        outcomes.pods.get(key, ()), key=lambda number: objects.pods[number].metadata.name
    )
    pods = [pod_result(outcomes, key, number, former) for number in numbers]
    speedup = outcomes.validated.speedups.get(key)
    granted = [
        grant
        for number in numbers
        if (grant := outcomes.grants.get(name_of(objects.pods[number]))) is not None
    ]
    bid = outcomes.bids.get(key)
    states = job_conditions(
        job,
        outcomes.validated,
        outcomes.overlaps.get(key, ""),
        pods,
        outcomes.unmeasured.get(key),
    )
    if key in outcomes.annotations:
        states["AnnotationsValid"] = fails(outcomes.annotations[key])
    if key[0] in outcomes.pods_left_out:
        states["PodsRead"] = fails(outcomes.pods_left_out[key[0]])
    short = [grant for grant in granted if grant.floor and not grant.keeps_request]
    if short:
        states["RequestsKept"] = overcommitted(short)
    whole = job.spec.whole_cores
    if objects.rules.cores.whole_cores if whole is None else whole:
        partial = [grant for grant in granted if grant.held < 1]
        if partial:
            states["WholeCores"] = shares_nevertheless(partial)
    if job.spec.auction.minimum_utility is not None:
        states["ObjectiveMet"] = objective(bid)
    deadline = outcomes.deadlines.get(key)
    if deadline is not None:
        states["OnTime"] = deadline.condition
    runs = {"runs": outcomes.runs[key]} if key in outcomes.runs else {}
    recorded = recorded_runs(job, objects.rules, runs)
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
            granted=sum(each["state"] in {"Granted", "Enforced"} for each in pods),
            enforced=sum(each["state"] == "Enforced" for each in pods),
            unlisted=max(len(pods) - MOST_PODS, 0),
        ),
        bought=figure(sum(grant.bought for grant in granted)),
        speedup=figure(fmean(grant.speedup for grant in granted)) if granted else None,
        spend=figure(sum(grant.spend for grant in granted)),
        auction=None if bid is None else _auction(bid, weights_of(job, recorded)),
        conditions=conditions(states, before, now, job.metadata.generation),
    )
    # Runs are the same object in most decisions.
    parts: Document = {"pods": pods[:MOST_PODS], **runs}
    if deadline is not None:
        parts["deadline"] = deadline.document
    return status.document() | parts


def _workload(job: MarketJob) -> str | None:
    """Return the workload or the labels that select a job's pods."""
    target, selector = job.spec.target_ref, job.spec.selector
    if target is not None:
        text = f"{target.kind}/{target.name}"
        return f"auto ({text})" if job.is_automatic else text
    if selector is None:
        return None
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items()))
    return clipped(labels, MAX_REASON)


def _auction(bid: BidOutcome, weights: Weights) -> AuctionReport:
    return AuctionReport(
        budget=figure(bid.budget),
        utility=figure(bid.utility),
        minimum=None if bid.minimum is None else figure(bid.minimum),
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
