"""Pure: compute the status of a MarketJob: what its pods got, at which price, and why."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from walras_api.auction_weights import recorded_runs, weights_of
from walras_api.job_inputs import holds_whole_cores
from walras_api.market_job_status import (
    MOST_PODS,
    AuctionReport,
    MarketJobStatus,
    PodCounts,
    UsedProfile,
    WeightReport,
    WeightsReport,
)
from walras_operator.decide.conditions import (
    MAX_REASON,
    clipped,
    conditions_since,
    fails,
    last_changes,
)
from walras_operator.decide.numbers import figure
from walras_operator.decide.status.job_conditions import (
    job_conditions,
    objective,
    overcommitted,
    shares_nevertheless,
)
from walras_operator.decide.status.pod import PodColumns, pod_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.market.plan import BidOutcome, Grant
    from walras_api.auction_weights import Weight, Weights
    from walras_api.job_inputs import Speedup
    from walras_api.kinds import MarketJob, MarketSpec
    from walras_operator.decide.conditions import ConditionState, Problem
    from walras_operator.decide.job_outcomes import DeadlineResult, JobOutcomes
    from walras_operator.decide.world import Document


class _Facts(NamedTuple):
    """All that the status of a job follows from, but for the times of its conditions.

    Attributes:
        pods: Columns of `PodColumns`.
        problem: What is wrong with the job; None if nothing is.
        overlap: Message about its pods that other jobs select too; empty if there are none.
        unmeasured: Why its speedup has not been measured; None if it has, or need not be.
        annotations: What is wrong with the annotations of its workload.
        left_out: Problem with pods of its namespace that are invalid or too large.
    """

    job: MarketJob
    rules: MarketSpec
    problem: Problem | None
    speedup: Speedup | None
    overlap: str
    unmeasured: Problem | None
    annotations: Problem | None
    left_out: Problem | None
    bid: BidOutcome | None
    runs: Document | None
    deadline: DeadlineResult | None
    demand: Sequence[Mapping[str, Any]] | None
    pods: PodColumns


def job_status(job: MarketJob, outcomes: JobOutcomes, now: str) -> Document:
    """Return the status of a job.

    Args:
        job: The MarketJob, with its status as last written.
        outcomes: Outcome of the decision.
        now: Current time (RFC 3339).
    """
    key, uid = (job.metadata.namespace, job.metadata.name), job.metadata.uid
    before, validated, kept = job.status or {}, outcomes.validated, outcomes.kept
    facts = _Facts(
        job,
        validated.objects.rules,
        validated.jobs.get(key),
        validated.speedups.get(key),
        outcomes.overlaps.get(key, ""),
        outcomes.unmeasured.get(key),
        outcomes.annotations.get(key),
        outcomes.pods_left_out.get(key[0]),
        outcomes.bids.get(key),
        outcomes.runs.get(key),
        outcomes.deadlines.get(key),
        outcomes.demand.get(key),
        pod_columns(outcomes, key, before),
    )
    inputs: tuple[Any, ...] = (*facts[:-1], *facts.pods)
    document, states = kept.of(uid, _reported, *inputs)
    since = last_changes(states, before, now)
    return kept.of(uid, _with_conditions, document, states, since, job.metadata.generation)


def _with_conditions(
    document: Document,
    states: Mapping[str, ConditionState],
    since: Mapping[str, str],
    generation: int,
) -> Document:
    """Return a status with conditions, whose statuses last changed at the given times."""
    told = conditions_since(states, since, generation)
    return document | {"conditions": [each.document() for each in told]}


def _reported(*facts: Any) -> tuple[Document, dict[str, ConditionState]]:
    """Return the status of a job without its conditions, and the states of these by type.

    Args:
        facts: Those of `_Facts`, of which the columns of pods, the last, are separate lists.
    """
    number = len(_Facts._fields) - 1
    known = _Facts._make((*facts[:number], PodColumns._make(facts[number:])))
    job, deadline, bid = known.job, known.deadline, known.bid
    pods = known.pods.results(job.status or {})
    granted = [grant for grant in known.pods.grants if grant is not None]
    runs = {} if known.runs is None else {"runs": known.runs}
    recorded = recorded_runs(job, known.rules, runs)
    status = MarketJobStatus(
        workload=_workload(job),
        profile=_profile(known.speedup),
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
    )
    # Runs are the same object in most decisions.
    parts: Document = {"pods": pods[:MOST_PODS], **runs}
    if deadline is not None:
        parts["deadline"] = deadline.document
    if known.demand:
        parts["demand"] = known.demand
    return status.document() | parts, _states(known, pods, granted)


def _states(
    known: _Facts, pods: Sequence[Document], granted: Sequence[Grant]
) -> dict[str, ConditionState]:
    """Return the states of a job's conditions, by type.

    Args:
        known: All that is known of the job.
        pods: Result for each of its pods.
        granted: Grants of its pods.
    """
    job, rules = known.job, known.rules
    states = job_conditions(
        job, known.problem, known.speedup, known.overlap, pods, known.unmeasured
    )
    if known.annotations is not None:
        states["AnnotationsValid"] = fails(known.annotations)
    if known.left_out is not None:
        states["PodsRead"] = fails(known.left_out)
    short = [grant for grant in granted if grant.floor and not grant.keeps_request]
    if short:
        states["RequestsKept"] = overcommitted(short)
    if holds_whole_cores(job.spec, rules.cores):
        partial = [grant for grant in granted if grant.held < 1]
        if partial:
            states["WholeCores"] = shares_nevertheless(partial)
    if job.spec.auction.minimum_utility is not None:
        states["ObjectiveMet"] = objective(known.bid)
    if known.deadline is not None:
        states["OnTime"] = known.deadline.condition
    return states


def _profile(speedup: Speedup | None) -> UsedProfile | None:
    return speedup and UsedProfile(
        parallel_fraction=figure(speedup.fraction),
        source=speedup.source,
        name=speedup.profile or None,
    )


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
