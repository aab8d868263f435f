"""MarketJob: the status of a job that takes part in the market."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from walras.market.demand import MOST_PEAKS
from walras_api.cluster import LONGEST_IMAGES
from walras_api.status import Amount, ConditionedStatus, Decimals, Status, Time, at_most

MOST_PODS = 250
"""Pods that a MarketJob's status lists."""

MOST_RUNS = 100
"""Finished runs that a MarketJob's status keeps: the newest."""

MOST_UNDERWAY = 250
"""Running pods of a MarketJob whose shares are recorded at a time."""

MOST_PARTS = 16
"""Parts of a pod's run that are kept to know its rate of progress, before they are merged."""

MOST_IMAGES = 3
"""Images of a program of which a MarketJob's status says what it can use: those used last."""

WHOLE_SHARE = 10**9
"""The whole of a node's resource, in the units in which a running pod's share is counted."""

MOST_SECONDS = 10**10
"""Longest time over which shares are summed, some 300 years: sums have 20 digits at most."""


class UsedProfile(Status):
    """The parallel fraction that a job bids with, and its origin.

    Attributes:
        parallel_fraction: Parallel fraction F.
        source: Origin of F: Given (the job's ``parallelFraction``), Written (a profile's
            ``parallelFraction``), Measured (a profile's measurements), Online (measured while the
            job ran) or Assumed (nothing is known).
        name: Name of the SpeedupProfile; absent if none was used.
    """

    parallel_fraction: Decimals
    source: Literal["Given", "Written", "Measured", "Online", "Assumed"]
    name: str | None = None


class PodColocation(Status):
    """The partner that a pod was placed beside, the cost of sharing, and the advice to its user.

    Attributes:
        partner: Pod that it was placed beside, as ``namespace/job (pod)``; absent if it has a
            processor to itself.
        predicted_penalty: Fraction of its throughput alone that the pod was predicted to lose
            beside the partner.
        measured_penalty: Fraction of its throughput alone that its program had been measured to
            lose beside the partner's program; absent if it was not measured.
        recommendation: Advice of Cooper's action recommender: Participate, or BreakAway.
        companion: Pod to break away with: of those that would gain too, the one beside which this
            pod would lose least; absent if the advice is Participate.
        gain: Fraction of its throughput alone that breaking away would save; absent if the advice
            is Participate.
        exploration: Fraction of its throughput alone that the pod was expected to lose more than
            beside the policy's choice, or less if negative, so that penalties are measured; absent
            if the policy chose the partner.
    """

    partner: str | None = None
    predicted_penalty: Decimals | None = None
    measured_penalty: Decimals | None = None
    recommendation: Literal["Participate", "BreakAway"] = "Participate"
    companion: str | None = None
    gain: Decimals | None = None
    exploration: Decimals | None = None


class PodOutcome(Status):
    """The result of the market for one pod of a job.

    Attributes:
        pod_uid: UID of the pod.
        name: Name of the pod.
        node: Name of its node; absent while it has none.
        state: State of the pod in the market: Granted (by the market), Enforced (its node's agent
            enforces the grant), Failed (the agent cannot enforce the grant), Refused (it takes no
            part in the market) or Waiting (for a node, or for its node to take part again).
        bought: Cores that it buys in the market.
        held: Cores that it is to have, in thousandths.
        memory: Memory granted, in bytes; absent if it takes no part in the division of memory.
        speedup: Predicted speedup on ``bought``.
        price: Price of a core of its node, relative to the cluster's average.
        spend: Part of its entitlement's budget that it pays, in cores at the cluster's average
            price.
        reason: Explanation of its cores in one sentence, as printed by ``walras explain``.
        memory_reason: Explanation of its memory in one sentence; absent if it takes no part in the
            division of memory.
        colocation: Result of its placement beside another pod; absent if Walras did not place it.
    """

    pod_uid: Annotated[str, Field(alias="podUID")]
    name: str
    node: str | None = None
    state: Literal["Granted", "Enforced", "Failed", "Refused", "Waiting"]
    bought: Decimals | None = None
    held: Decimals | None = None
    memory: Amount | None = None
    speedup: Decimals | None = None
    price: Decimals | None = None
    spend: Decimals | None = None
    reason: Annotated[str, Field(max_length=4096)]
    memory_reason: Annotated[str, Field(max_length=4096)] | None = None
    colocation: PodColocation | None = None


class DemandPeak(Status):
    """The largest amount of some time.

    Attributes:
        amount: CPUs that a pod used at once, or number of its threads.
        at: Time from which on it was seen.
    """

    amount: Decimals
    at: Time


class LearnedDemand(Status):
    """How many CPUs a pod of a program can use at once, as learned from what its pods used.

    Attributes:
        images: Images of the pod's containers; absent if unknown. Other images are another program.
        cpus: Most CPUs that a pod can use at once; no more cores are sold to it, unless the job has
            ``maxCores``.
        error: CPUs by which that may be wrong.
        seen: Time at which a pod was last seen to use so many, to within six hours.
        seconds: Longest time for which a pod was seen while nothing held it back; below 20, only
            its threads count.
        at_once: Peaks of the CPUs that a pod used at once, oldest first, that count still.
        threads: Peaks of the number of its threads.
    """

    images: Annotated[str, Field(max_length=LONGEST_IMAGES)] = ""
    cpus: Decimals
    error: Decimals
    seen: Time
    seconds: Annotated[int, Field(ge=0, le=MOST_SECONDS)] = 0
    at_once: list[DemandPeak] = at_most(MOST_PEAKS)
    threads: list[DemandPeak] = at_most(MOST_PEAKS)


class PodCounts(Status):
    """The number of a job's pods, by state.

    Attributes:
        total: Number of pods that are alive.
        granted: Number of pods that have a grant.
        enforced: Number of pods whose grant their node's agent enforces.
        unlisted: Number of pods that did not fit in ``pods``.
    """

    total: int
    granted: int
    enforced: int
    unlisted: int = 0


class WeightReport(Status):
    """A weight in a job's utility.

    Attributes:
        value: Weight that the job bids with.
        lower: Lower end of its 95 % confidence interval; absent unless the weight is estimated.
        upper: Upper end of its 95 % confidence interval; absent unless the weight is estimated and
            the runs bound it.
    """

    value: Decimals
    lower: Decimals | None = None
    upper: Decimals | None = None


class WeightsReport(Status):
    """The weights of a job's utility, and their origin.

    Attributes:
        source: Origin of the weights: Given (by the job), Estimated (from its runs) or Equal (there
            are too few runs, or they do not differ enough).
        cause: Reason why weights are Equal: TooFew (runs), TooSimilar (runs, to tell the weight of
            one resource from that of the other) or NoGain (utility rose with neither share);
            absent for other sources.
        runs: Number of runs that an estimate can use. For a Log utility, runs without a share of a
            resource are left out.
        recorded: Number of these runs that were recorded in ``runs.finished``; the others are given
            in the job's spec.
        cores: Weight of cores.
        memory: Weight of memory.
    """

    source: Literal["Given", "Estimated", "Equal"]
    cause: Literal["TooFew", "TooSimilar", "NoGain"] | None = None
    runs: int
    recorded: int = 0
    cores: WeightReport
    memory: WeightReport


class AuctionReport(Status):
    """The result of a job's bid in auctions, for all its pods together.

    Attributes:
        budget: Its part of its entitlement's budget, in cores at the cluster's average price; a
            minimum utility may have moved money to it from other jobs, or from it.
        utility: Predicted utility of what its pods hold: the sum of weights times shares of their
            nodes if it is Linear, or the product of shares raised to the power of their weights if
            it is Log.
        minimum: Minimum utility that the job demands (``minimumUtility``); absent if it demands
            none.
        weights: Weights of its utility.
    """

    budget: Decimals
    utility: Decimals
    minimum: Decimals | None = None
    weights: WeightsReport | None = None


class FinishedRun(Status):
    """A pod that succeeded: what it held, and the utility it reached.

    Attributes:
        pod_uid: UID of the pod.
        pod: Name of the pod.
        finished: Time at which its last container ended.
        seconds: Duration from the start of its first container until then, in seconds.
        held_seconds: Seconds for which its node's agent enforced its grants. They are not cut to
            ``seconds``, which is measured by the node's clock.
        cores: Mean share of the cores that its node sells over that time, from 0 to 1.
        memory: Mean share of the memory that its node sells over that time, from 0 to 1.
        utility: 1 / ``seconds``.
    """

    pod_uid: Annotated[str, Field(alias="podUID")]
    pod: str
    finished: Time
    seconds: Annotated[int, Field(ge=1, le=MOST_SECONDS)]
    held_seconds: Annotated[int, Field(ge=1, le=MOST_SECONDS)]
    cores: Decimals
    memory: Decimals
    utility: Decimals


class RunUnderway(Status):
    """Shares that a running pod has held: sums over past periods, and the current period.

    Attributes:
        pod_uid: UID of the pod.
        pod: Name of the pod.
        held_since: Start of the current period; absent while its grants are not enforced.
        cores: Share of the cores that its node sells in the current period, in billionths; absent
            while its grants are not enforced.
        memory: Share of the memory that its node sells in the current period, in billionths; absent
            while its grants are not enforced.
        held_seconds: Total length of past periods, in seconds.
        core_seconds: Sum over past periods of seconds times billionths of the cores.
        memory_seconds: Sum over past periods of seconds times billionths of the memory.
    """

    pod_uid: Annotated[str, Field(alias="podUID")]
    pod: str
    held_since: Time | None = None
    cores: Annotated[int, Field(ge=0, le=WHOLE_SHARE)] | None = None
    memory: Annotated[int, Field(ge=0, le=WHOLE_SHARE)] | None = None
    held_seconds: Annotated[int, Field(ge=0, le=MOST_SECONDS)] = 0
    core_seconds: Amount = "0"
    memory_seconds: Amount = "0"


class RunsReport(Status):
    """The runs of a job, one for each pod, from which the weights of its utility are estimated.

    Attributes:
        finished: Newest finished runs, oldest first.
        underway: Pods that run, or whose end the operator has not looked up yet.
    """

    finished: list[FinishedRun] = at_most(MOST_RUNS)
    underway: list[RunUnderway] = at_most(MOST_UNDERWAY)


class CountedPart(Status):
    """A part of a pod's run between two readings of its progress counter.

    Attributes:
        work: Expected work in that part, in seconds on one core: its speedup, summed over time.
        count: Increase of the counter.
    """

    work: Decimals
    count: Decimals


class PodWork(Status):
    """The work that a pod of a job with a deadline has done, and the cores reserved for it.

    Attributes:
        pod_uid: UID of the pod.
        pod: Name of the pod.
        held_since: Start of the current period, in which its grant and speedup are the same; absent
            while its grant is not enforced.
        millicores: Thousandths of a core that it holds in the current period.
        speedup: Expected speedup in the current period.
        work: Expected work in past periods, in seconds on one core.
        counter: Last value of its counter that was taken into the parts below.
        counted_at: Time of that value.
        counted_work: Expected work until then, in seconds on one core.
        parts: Parts of its run, from which its progress per second on one core follows.
        reserved_cores: Cores that are reserved for it; absent if none are.
        finished: Time at which the pod succeeded; absent while it runs.
    """

    pod_uid: Annotated[str, Field(alias="podUID")]
    pod: str
    held_since: Time | None = None
    millicores: Annotated[int, Field(ge=0)] | None = None
    speedup: Decimals | None = None
    work: Decimals = "0"
    counter: Decimals | None = None
    counted_at: Time | None = None
    counted_work: Decimals | None = None
    parts: list[CountedPart] = at_most(MOST_PARTS)
    reserved_cores: Decimals | None = None
    finished: Time | None = None


class PredictedFinish(Status):
    """The end of a job as it was predicted when half of its work was done, to be compared with it.

    Attributes:
        made: Time of the prediction.
        finish: Expected end.
        error: Standard error that was stated, in seconds.
    """

    made: Time
    finish: Time
    error: Decimals


class DeadlineReport(Status):
    """The cores that the deadline of a job takes, and whether it is expected to be met.

    Figures other than ``time``, ``accepted`` and ``reservedCores`` are as of when one of these, the
    expected finish or a pod has changed visibly.

    Attributes:
        time: The deadline.
        accepted: Whether the cores that it takes are reserved, or the market gives them without.
        needed_cores: Cores that all running pods need from now on; absent if that is not known, or
            if no number of cores suffices.
        reserved_cores: Cores that are reserved for all running pods.
        payable_cores: Cores that the entitlement's budget could reserve, if it is too small.
        work_left: Expected work left of all running pods, in seconds on one core.
        work_left_error: Standard error of that.
        expected_finish: Expected end of the last pod, on the cores that pods have now.
        earliest_finish: The same if the work left is less by one standard error.
        latest_finish: The same if the work left is more by one standard error.
        widened: Factor by which the error of its work left is widened, since ends of other jobs
            were predicted badly when it started.
        predicted: Its end as predicted halfway.
        finished: End of the last pod; absent while one runs.
        met: Whether all pods ended in time; absent while one runs.
        pods: Work of each pod.
    """

    time: Time
    accepted: bool | None = None
    needed_cores: Decimals | None = None
    reserved_cores: Decimals | None = None
    payable_cores: Decimals | None = None
    work_left: Decimals | None = None
    work_left_error: Decimals | None = None
    expected_finish: Time | None = None
    earliest_finish: Time | None = None
    latest_finish: Time | None = None
    widened: Decimals | None = None
    predicted: PredictedFinish | None = None
    finished: Time | None = None
    met: bool | None = None
    pods: list[PodWork] = at_most(MOST_UNDERWAY)


class MarketJobStatus(ConditionedStatus):
    """The result of the market for a job.

    Attributes:
        workload: Workload or labels that select its pods, such as ``Job/train``; ``auto
            (Job/train)`` if the job was made for a labelled workload.
        profile: Parallel fraction F and its origin.
        counts: Number of pods by state.
        bought: Cores that all its pods buy in the market.
        speedup: Mean predicted speedup of its pods.
        spend: Total that its pods pay, in cores at the cluster's average price.
        auction: Result of its bid; absent if nothing is auctioned.
        runs: Runs of its pods, for the weights of its utility; absent if there are none.
        deadline: Cores that its deadline takes, and its expected end; absent without a deadline.
        demand: How many CPUs its pods can use at once, by their images; absent if that is unknown.
        pods: Result for each pod, by name; ``counts.unlisted`` is the number of pods beyond the end
            of the list.
        conditions: Conditions ``Ready``, ``Admitted`` (its entitlement accepts it), ``Profiled``
            (its speedup is known), ``Selected`` (it has pods, and no other job selects them), for a
            job with a ``minimumUtility`` ``ObjectiveMet``, for a job with a deadline ``OnTime``
            (whether it is expected to be met, or was), for a labelled workload with invalid
            annotations ``AnnotationsValid``, for a job with pods that hold less than the
            requests that the market keeps ``RequestsKept``, and for a job that is to share no core,
            with pods that hold less than one, ``WholeCores``, and for a job in a namespace with
            pods that are left out, ``PodsRead``.
    """

    workload: str | None = None
    profile: UsedProfile | None = None
    counts: PodCounts | None = None
    bought: Decimals | None = None
    speedup: Decimals | None = None
    spend: Decimals | None = None
    auction: AuctionReport | None = None
    runs: RunsReport | None = None
    deadline: DeadlineReport | None = None
    demand: list[LearnedDemand] = at_most(MOST_IMAGES)
    pods: list[PodOutcome] = at_most(MOST_PODS)
