"""The statuses that the operator writes, field by field: what it found and decided, and why.

The status of a NodeAllocation, which the node's agent writes, is in ``node_status.py``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from walras.resources.fields import Unique
from walras.resources.status import Amount, Condition, Decimals, Status, Time
from walras.snapshot import CoreMechanism, MemoryMechanism  # noqa: TC001 - pydantic reads them

MOST_SPENDS = 100
"""Nodes that an Entitlement lists; they are those where it spends most."""

MOST_LOANS = 10
"""Entitlements that another's credits list."""

MOST_PODS = 250
"""Pods that a MarketJob lists."""

MOST_NODES = 5000
"""Nodes that a Market lists, as many as Kubernetes supports."""

MOST_BALANCES = 5000
"""Entitlements that one ledger of credits is made for."""


MOST_MEASUREMENTS = 3
"""Measurements of running pods that a SpeedupProfile keeps."""

MOST_SAMPLES = 300
"""Samples of each of them."""

MOST_COMPANIES = 100
"""Programs beside which a SpeedupProfile keeps how its own gets on; those looked at last."""


MOST_RUNS = 100
"""Finished runs that a MarketJob keeps; they are the newest."""

MOST_UNDERWAY = 250
"""Running pods of a MarketJob whose shares are added up at a time."""

WHOLE_SHARE = 10**9
"""Parts in which the share of a running pod is counted."""

MOST_SECONDS = 10**10
"""Time for which shares are added up, some 300 years: sums have 20 digits at most."""


class _Conditioned(Status):
    """A status with conditions, at most one of each type."""

    conditions: Annotated[
        list[Condition], Field(max_length=16), Unique("conditions of type", key="type")
    ] = Field(default_factory=list)


class EntitledCores(Status):
    """The cores of an entitlement, over the whole cluster.

    Attributes:
        entitled: Cores that its share of the cluster is worth, which is also its budget.
        allocated: Cores that its jobs bought in the market, before rounding.
        held: Cores that its jobs hold: exclusive cores and their part of shared cores.
    """

    entitled: Decimals
    allocated: Decimals
    held: Decimals


class EntitledMemory(Status):
    """The memory of an entitlement, over the whole cluster, in bytes.

    Attributes:
        entitled: Memory that its share of the cluster is worth.
        demand: Memory that its jobs could use.
        allocated: Memory that its jobs were granted.
    """

    entitled: Amount
    demand: Amount
    allocated: Amount


class Utility(Status):
    """The utility of an entitlement: the weighted mean of its jobs' predicted speedups.

    Attributes:
        now: Utility of the cores that it bought.
        at_entitlement: Utility of its share of every node, without trade. A market in equilibrium
            never makes ``now`` smaller than this.
    """

    now: Decimals
    at_entitlement: Decimals


class Loan(Status):
    """Memory that one entitlement lends to another.

    Attributes:
        entitlement: Name of the other entitlement; absent for memory that belongs to no
            entitlement.
        memory: Amount of memory, in bytes, over all nodes.
    """

    entitlement: str | None = None
    memory: Amount


class Credits(Status):
    """The Karma credits of an entitlement after one quantum.

    If there are many entitlements, this is not updated after every quantum. The Market's ledger
    always has all balances.

    Attributes:
        quantum: Number of the quantum that these values describe.
        balance: Exact credits after the quantum.
        earned: Credits earned in the quantum: its part of the free credits, and credits for memory
            lent.
        spent: Credits spent in the quantum, for memory borrowed.
        lent: Memory lent, by borrower, largest first.
        borrowed: Memory borrowed, by lender, largest first. On each node, every lender is counted
            in proportion to the memory that it lends.
    """

    quantum: int | None = None
    balance: Decimals
    earned: Decimals
    spent: Decimals | None = None
    lent: Annotated[list[Loan], Field(max_length=MOST_LOANS)] = Field(default_factory=list)
    borrowed: Annotated[list[Loan], Field(max_length=MOST_LOANS)] = Field(default_factory=list)


class NodeSpend(Status):
    """The spending of an entitlement on one node.

    Attributes:
        node: Name of the node.
        spend: Part of the budget that is spent on the node, in cores at the cluster's average
            price.
        cores: Cores that this buys, before rounding.
    """

    node: str
    spend: Decimals
    cores: Decimals


class EntitlementStatus(_Conditioned):
    """The worth of an entitlement, and what its jobs received.

    Attributes:
        budget_share: Share of the whole cluster, from 0 to 1: the product of its relative shares up
            the tree.
        jobs: Number of MarketJobs that use the entitlement.
        pods: Number of pods of these jobs that have a grant.
        cores: Cores that the entitlement is worth, and that its jobs received.
        memory: Memory that the entitlement is worth, and that its jobs received; absent if no
            memory is divided.
        utility: Utility now, and at the bare entitlement; absent without jobs.
        credits: Karma credits for memory; absent if memory is not divided by Karma.
        spend_by_node: Nodes on which the entitlement spends most, largest first.
        other_nodes: Number of further nodes on which it spends.
        other_spend: Total spending on these further nodes.
        conditions: Condition ``Ready``: whether its place in the tree and its namespaces are valid.
    """

    budget_share: Decimals | None = None
    jobs: int = 0
    pods: int = 0
    cores: EntitledCores | None = None
    memory: EntitledMemory | None = None
    utility: Utility | None = None
    credits: Credits | None = None
    spend_by_node: Annotated[list[NodeSpend], Field(max_length=MOST_SPENDS)] = Field(
        default_factory=list
    )
    other_nodes: int = 0
    other_spend: Decimals | None = None


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
    """

    partner: str | None = None
    predicted_penalty: Decimals | None = None
    measured_penalty: Decimals | None = None
    recommendation: Literal["Participate", "BreakAway"] = "Participate"
    companion: str | None = None
    gain: Decimals | None = None


class PodOutcome(Status):
    """The result of the market for one pod of a job.

    Attributes:
        pod_uid: UID of the pod.
        name: Name of the pod.
        node: Name of its node; absent while it has none.
        state: State of the pod in the market: Granted (by the market), Enforced (its node's agent
            enforces the grant), Failed (the agent cannot enforce the grant), Refused (it takes no
            part in the market) or Waiting (for a node, or for its node to take part again).
        cores: Cores that the market allocated to it, before rounding.
        granted_cores: Number of exclusive cores; 0 if it shares cores.
        shared_cores: Number of cores that it shares with the other small jobs of its node.
        weight: CPU weight on the shared cores, as cgroup v2's cpu.weight, where the largest job has
            100.
        memory: Memory granted, in bytes; absent if it takes no part in the division of memory.
        speedup: Predicted speedup at ``cores``.
        price: Price of a core of its node, relative to the cluster's average.
        spend: What it pays from its entitlement's budget, in cores at the cluster's average price.
        reason: Explanation of its cores in one sentence, as printed by ``walras explain``.
        memory_reason: Explanation of its memory in one sentence; absent if it takes no part in the
            division of memory.
        colocation: Result of its placement beside another pod; absent if Walras did not place it.
    """

    pod_uid: Annotated[str, Field(alias="podUID")]
    name: str
    node: str | None = None
    state: Literal["Granted", "Enforced", "Failed", "Refused", "Waiting"]
    cores: Decimals | None = None
    granted_cores: int | None = None
    shared_cores: int | None = None
    weight: int | None = None
    memory: Amount | None = None
    speedup: Decimals | None = None
    price: Decimals | None = None
    spend: Decimals | None = None
    reason: Annotated[str, Field(max_length=4096)]
    memory_reason: Annotated[str, Field(max_length=4096)] | None = None
    colocation: PodColocation | None = None


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
        runs: Number of runs that are available for an estimate.
        recorded: Number of these runs that were recorded in ``runs.finished``; the others are given
            in the job's spec.
        cores: Weight of cores.
        memory: Weight of memory.
    """

    source: Literal["Given", "Estimated", "Equal"]
    runs: int
    recorded: int = 0
    cores: WeightReport
    memory: WeightReport


class AuctionReport(Status):
    """The result of a job's bid in auctions, for all its pods together.

    Attributes:
        budget: Its part of its entitlement's budget, in cores at the cluster's average price.
        utility: Predicted utility of what its pods hold: the sum of weights times shares of their
            nodes if it is Linear, or the product of shares raised to the power of their weights if
            it is Log.
        minimum: Minimum utility that the job demands (``minimumUtility``); absent if it demands
            none.
        service: How the job is served: Bid (in the pool that is divided by bids) or Leftovers (with
            what that pool leaves).
        charge: Current charge: the budget if the job has its minimum utility or, without a minimum,
            is served by its bid; otherwise 0.
        weights: Weights of its utility.
    """

    budget: Decimals
    utility: Decimals
    minimum: Decimals | None = None
    service: Literal["Bid", "Leftovers"]
    charge: Decimals
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
    """What a running pod has held: sums over past periods, and the current period.

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

    finished: Annotated[list[FinishedRun], Field(max_length=MOST_RUNS)] = Field(
        default_factory=list
    )
    underway: Annotated[list[RunUnderway], Field(max_length=MOST_UNDERWAY)] = Field(
        default_factory=list
    )


class MarketJobStatus(_Conditioned):
    """The result of the market for a job.

    Attributes:
        profile: Parallel fraction F and its origin.
        counts: Number of pods by state.
        cores: Cores that the market allocated to all its pods, before rounding.
        speedup: Mean predicted speedup of its pods.
        spend: What all its pods pay, in cores at the cluster's average price.
        auction: Result of its bid; absent if nothing is auctioned.
        runs: Runs of its pods, for the weights of its utility; absent if there are none.
        pods: Result for each pod, by name; ``counts.unlisted`` is the number of pods beyond the end
            of the list.
        conditions: Conditions ``Ready``, ``Admitted`` (its entitlement accepts it), ``Profiled``
            (its speedup is known), ``Selected`` (it has pods, and no other job selects them) and,
            for a job with a ``minimumUtility``, ``ObjectiveMet``.
    """

    profile: UsedProfile | None = None
    counts: PodCounts | None = None
    cores: Decimals | None = None
    speedup: Decimals | None = None
    spend: Decimals | None = None
    auction: AuctionReport | None = None
    runs: RunsReport | None = None
    pods: Annotated[list[PodOutcome], Field(max_length=MOST_PODS)] = Field(default_factory=list)


class OnlineSample(Status):
    """One sample: the progress of a running pod over a time at one core count.

    Attributes:
        cores: Number of cores that the pod used.
        seconds: Length of the sample, in seconds.
        progress: Progress that was counted, in the unit of the source.
    """

    cores: int
    seconds: Decimals
    progress: Decimals


class OnlineMeasurement(Status):
    """A measurement of a running pod.

    Attributes:
        id: Identifier of the request.
        pod: Name of the pod.
        pod_uid: UID of the pod.
        node: Name of the pod's node.
        finished: Time at which the measurement ended.
        source: Progress counter that was used: instructions, cpuTime, file or http.
        samples: Samples in the order in which they were taken.
        memory_bandwidth: Memory bandwidth of the pod on all its cores, in gigabytes (10**9 bytes)
            per second; absent if it was not measured.
        warnings: Limits of the measurement, and reasons to doubt its result.
    """

    id: str
    pod: str
    pod_uid: Annotated[str, Field(alias="podUID")]
    node: str
    finished: Time
    source: Literal["instructions", "cpuTime", "file", "http"]
    samples: Annotated[list[OnlineSample], Field(max_length=MOST_SAMPLES)] = Field(
        default_factory=list
    )
    memory_bandwidth: Decimals | None = None
    warnings: Annotated[list[str], Field(max_length=32)] = Field(default_factory=list)


class OnlineRequest(Status):
    """A measurement that was requested from a node's agent.

    Attributes:
        id: Identifier of the request in the node's NodeAllocation.
        pod: Name of the pod.
        pod_uid: UID of the pod.
        node: Name of the pod's node.
        purpose: What is measured: Speedup (the pod's cores are varied) or Progress (they are not).
        since: Time at which the measurement was requested.
        until: Time at which the request is dropped if the node's agent has not answered.
    """

    id: str
    pod: str
    pod_uid: Annotated[str, Field(alias="podUID")]
    node: str
    purpose: Literal["Speedup", "Progress"]
    since: Time
    until: Time


class OnlineFailure(Status):
    """The failure of the last attempts to measure.

    Attributes:
        reason: Machine-readable reason, in one CamelCase word; NotMeasured if the attempts failed
            for different reasons.
        message: Explanation of the last failure, for people.
        times: Number of consecutive failures.
        finished: Time at which the last attempt ended.
    """

    reason: Annotated[str, Field(pattern=r"^[A-Za-z]{1,63}$")]
    message: Annotated[str, Field(max_length=4096)]
    times: int
    finished: Time


class OnlineCheck(Status):
    """The last progress check: whether a job runs as fast as its profile predicts.

    Attributes:
        pod: Name of the pod that was checked.
        cores: Number of cores that the pod had.
        finished: Time at which the check ended.
        departure: Relative deviation of measured from predicted progress; absent if they cannot be
            compared.
        departures: Number of consecutive checks whose deviation was too large.
    """

    pod: str
    cores: int
    finished: Time
    departure: Decimals | None = None
    departures: int = 0


class OnlineCompany(Status):
    """Measured against predicted progress beside one co-runner.

    Attributes:
        profile: Name of the SpeedupProfile of the only co-runner on the node; absent for checks of
            pods that ran alone.
        namespace: Namespace of the co-runner's SpeedupProfile; absent for checks of pods that ran
            alone.
        ratio: Ratio of measured to predicted progress, as the mean of the last checks.
        looks: Number of checks that the mean is of.
        finished: Time at which the last check ended.
    """

    profile: str | None = None
    namespace: str | None = None
    ratio: Decimals
    looks: int
    finished: Time


class OnlineProfile(Status):
    """Results of measurements of running pods, and the state of the current one.

    Attributes:
        request: Measurement that is in progress.
        measurements: Measurements that F follows from, each of one pod, oldest first.
        failure: Failure of measurements; absent after a successful measurement, or when the job was
            found to have changed.
        look_failure: Failure of progress checks; absent after a successful check.
        check: Last progress check; absent until the first check after the last measurement.
        companies: Progress checks since the last measurement of pods that were alone on their node
            or beside one other pod of the market, by co-runner.
    """

    request: OnlineRequest | None = None
    measurements: Annotated[list[OnlineMeasurement], Field(max_length=MOST_MEASUREMENTS)] = Field(
        default_factory=list
    )
    failure: OnlineFailure | None = None
    look_failure: OnlineFailure | None = None
    check: OnlineCheck | None = None
    companies: Annotated[list[OnlineCompany], Field(max_length=MOST_COMPANIES)] = Field(
        default_factory=list
    )


class FractionAt(Status):
    """The parallel fraction F that follows from one core count (Karp and Flatt).

    Attributes:
        cores: Core count.
        value: F at this core count.
    """

    cores: int
    value: Decimals


class TimeModel(Status):
    """How the run time grows with the data at one core count.

    Attributes:
        cores: Core count.
        form: Form of the model.
        coefficients: Coefficients of the model, constant first.
        residual_seconds: Root mean square of the model's residuals, in seconds.
    """

    cores: int
    form: str
    coefficients: Annotated[list[Decimals], Field(max_length=8)]
    residual_seconds: Decimals


class Finding(Status):
    """A remark on the quality of a profile.

    Attributes:
        code: Machine-readable code of the remark.
        message: Explanation for people.
    """

    code: str
    message: str


class MeasuredPenalty(Status):
    """The throughput that a program was measured to lose beside another program.

    Attributes:
        profile: Name of the other program's SpeedupProfile.
        namespace: Namespace of the other program's SpeedupProfile.
        penalty: 1 - throughput together / throughput alone.
        source: Progress counter that measures throughput: instructions, cpuTime, file or http.
        looks: Number of progress checks that the penalty is the mean of.
        finished: Time at which the last of these checks ended.
    """

    profile: str
    namespace: str
    penalty: Decimals
    source: Literal["instructions", "cpuTime", "file", "http"]
    looks: int
    finished: Time


class SpeedupProfileStatus(_Conditioned):
    """What follows from a profile's measurements, and what was measured while the program ran.

    Attributes:
        source: Origin of F: Written (the spec's ``parallelFraction``), Measured (the spec's
            measurements) or Online (samples of a running pod).
        parallel_fraction: Parallel fraction F, as the mean over core counts.
        whole_data_parallel_fraction: F on all of the data, if it depends on their size.
        raw_parallel_fraction: F before it was clipped to the range from 0 to 1.
        variance: Variance of F over core counts, which is small where Amdahl's law fits.
        parallel_fraction_by_cores: F at each core count.
        time_models: Model of run time over data size, at each core count.
        memory_bandwidth: Memory bandwidth of the program when it runs alone, in gigabytes (10**9
            bytes) per second.
        penalties: Throughput that the program loses beside programs of other profiles, from
            progress checks of running pods.
        online: Measurements of running pods, and their state.
        findings: Remarks on the quality of the profile.
        conditions: Condition ``Ready``: whether the profile can be used; if not, why not, or what
            is awaited.
    """

    source: Literal["Written", "Measured", "Online"] | None = None
    parallel_fraction: Decimals | None = None
    whole_data_parallel_fraction: Decimals | None = None
    raw_parallel_fraction: Decimals | None = None
    variance: Decimals | None = None
    parallel_fraction_by_cores: Annotated[list[FractionAt], Field(max_length=1000)] = Field(
        default_factory=list
    )
    time_models: Annotated[list[TimeModel], Field(max_length=1000)] = Field(default_factory=list)
    memory_bandwidth: Decimals | None = None
    penalties: Annotated[list[MeasuredPenalty], Field(max_length=1000)] = Field(
        default_factory=list
    )
    online: OnlineProfile | None = None
    findings: Annotated[list[Finding], Field(max_length=32)] = Field(default_factory=list)


class EpochReport(Status):
    """The last decision.

    Attributes:
        number: Number of the decision, which only increases.
        time: Time at which the decision was made.
        duration_milliseconds: Time from the snapshot to the plan, in milliseconds.
    """

    number: int
    time: Time
    duration_milliseconds: int


class SolverReport(Status):
    """How the division of cores was computed, and how accurate it is.

    Attributes:
        mechanism: Mechanism that divided the cores.
        solver: Solver that found the prices.
        iterations: Number of iterations that the solver took.
        residual: Largest relative violation of an equilibrium condition.
        price_error: Proven bound on the relative error of the prices; absent if there is none.
        converged: Whether the solver reached the solution that defines the mechanism.
    """

    mechanism: CoreMechanism
    solver: str
    iterations: int
    residual: Decimals | None = None
    price_error: Decimals | None = None
    converged: bool


class ScoreReport(Status):
    """Measures of the decision's quality (see ``walras.scores``).

    Attributes:
        system_progress: Mean of all utilities weighted by budget, at the market's allocation before
            rounding.
        held_progress: Mean of all utilities weighted by budget, at the whole cores that jobs hold.
        proportional_progress: ``systemProgress`` of proportional sharing on the same cluster.
        entitlement_error: Mean absolute percentage error (MAPE) of users' cores against their
            entitled cores, as a fraction.
        uniformity: Smallest gain of a user over its bare entitlement, divided by the largest.
        envy_freeness: 1 if no user would prefer another user's cores, scaled to its own budget;
            absent if there are too many users to compare.
    """

    system_progress: Decimals
    held_progress: Decimals
    proportional_progress: Decimals | None = None
    entitlement_error: Decimals
    uniformity: Decimals
    envy_freeness: Decimals | None = None


class MarketSize(Status):
    """The size of the market.

    Attributes:
        entitlements: Number of entitlements with jobs.
        jobs: Number of MarketJobs.
        pods: Number of pods that have a grant.
        refused: Number of pods that take no part in the market.
        nodes: Number of nodes that sell cores.
        cores: Number of cores for sale.
        memory: Memory for sale, in bytes.
    """

    entitlements: int
    jobs: int
    pods: int
    refused: int
    nodes: int
    cores: int
    memory: Amount


class NodePrice(Status):
    """The cores that a node sells, and their price.

    Attributes:
        node: Name of the node.
        cores: Number of cores for sale.
        price: Price of a core, relative to the cluster's average.
    """

    node: str
    cores: int
    price: Decimals


class Balance(Status):
    """The Karma credits of one entitlement.

    Attributes:
        user: Name of the entitlement.
        credits: Exact balance.
        gained: Exact change of the balance in the last quantum; absent if it did not change.
    """

    user: str
    credits: Decimals
    gained: Decimals | None = None


class LedgerReport(Status):
    """The exact Karma credits before and after the current quantum.

    This is the only place where credits are stored: every operator, also a new leader, continues
    from here.

    Attributes:
        version: Version of this format (``walras.karma.ledger.Ledger.to_document``).
        quantum: Number of quanta that have been settled; the last of them is the current one.
        since: Time at which the current quantum began. The next one begins
            ``spec.memory.quantumSeconds`` later, or when an operator is available again.
        carry: Income that could not be divided evenly so far.
        carry_before: The same income before the current quantum.
        balances: Balances in the order in which the entitlements joined.
    """

    version: int
    quantum: int
    since: Time | None = None
    carry: Decimals
    carry_before: Decimals | None = None
    balances: Annotated[list[Balance], Field(max_length=MOST_BALANCES)]


class MarketStatus(_Conditioned):
    """The last decision of the market.

    Attributes:
        leader: Name of the operator's pod that made the decision.
        epoch: Number and time of the decision.
        solver: How the division of cores was computed.
        scores: Measures of the decision's quality.
        size: Size of the market.
        prices: Price of each node's cores.
        memory_mechanism: Mechanism that divided memory; absent if memory was not divided.
        ledger: Karma credits; absent if memory is not divided by Karma.
        conditions: Condition ``Ready``: whether the market is cleared and its plan is published.
    """

    leader: str | None = None
    epoch: EpochReport | None = None
    solver: SolverReport | None = None
    scores: ScoreReport | None = None
    size: MarketSize | None = None
    prices: Annotated[list[NodePrice], Field(max_length=MOST_NODES)] = Field(default_factory=list)
    memory_mechanism: MemoryMechanism | None = None
    ledger: LedgerReport | None = None
