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
    """Cores of an entitlement, across the cluster.

    Attributes:
        entitled: its share of all cores, which is also its budget.
        allocated: what it bought, a real number.
        held: whole cores that its jobs have for themselves, and their part of shared ones.
    """

    entitled: Decimals
    allocated: Decimals
    held: Decimals


class EntitledMemory(Status):
    """Memory of an entitlement, across the cluster, in bytes.

    Attributes:
        entitled: what its share of all memory is worth.
        demand: what its jobs could use.
        allocated: what they were granted.
    """

    entitled: Amount
    demand: Amount
    allocated: Amount


class Utility(Status):
    """What an entitlement gets done: the weighted mean of its jobs' predicted speedups.

    Attributes:
        now: at what it bought.
        at_entitlement: with its share of every node, and no trade; never more than ``now`` in a
            market that reached its equilibrium.
    """

    now: Decimals
    at_entitlement: Decimals


class Loan(Status):
    """Memory that is somebody's part and that another has for the while.

    Attributes:
        entitlement: the other; absent for slices that are nobody's own.
        memory: bytes, on all nodes.
    """

    entitlement: str | None = None
    memory: Amount


class Credits(Status):
    """Karma's credits of an entitlement, as of one quantum.

    Where there are many entitlements not every quantum is told of here; the Market's ledger has all
    balances always.

    Attributes:
        quantum: after which this was so.
        balance: credits after it, exactly.
        earned: in it: the part of free credits, and for memory lent.
        spent: in it, for memory borrowed.
        lent: to whom, most first.
        borrowed: from whom, most first: from every donor on a node in proportion to what it lends.
    """

    quantum: int | None = None
    balance: Decimals
    earned: Decimals
    spent: Decimals | None = None
    lent: Annotated[list[Loan], Field(max_length=MOST_LOANS)] = Field(default_factory=list)
    borrowed: Annotated[list[Loan], Field(max_length=MOST_LOANS)] = Field(default_factory=list)


class NodeSpend(Status):
    """What an entitlement spends on one node.

    Attributes:
        node: the node.
        spend: of its budget, in cores at the cluster's average price.
        cores: that this buys, a real number.
    """

    node: str
    spend: Decimals
    cores: Decimals


class EntitlementStatus(_Conditioned):
    """What an entitlement is worth, and what it gets.

    Attributes:
        budget_share: its part of the whole, 0 to 1: the product of its shares up the tree.
        jobs: MarketJobs that draw on it.
        pods: of these that have a grant.
        cores: what it is entitled to, and gets.
        memory: likewise; absent where no memory is divided.
        utility: now, and at bare entitlement; absent without jobs.
        credits: for memory; absent where none are kept.
        spend_by_node: the nodes on which it spends most, the largest spend first.
        other_nodes: on which it spends too, but less.
        other_spend: on these.
        conditions: ``Ready``: its place in the tree and its namespaces make sense.
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
    """The parallel fraction that a job takes part with, and where it is from.

    Attributes:
        parallel_fraction: F.
        source: Given (its own ``parallelFraction``), Written (that of a profile), Measured (a
            profile's measurements), Online (measured while it ran) or Assumed (nothing is known).
        name: of the profile; absent if none was used.
    """

    parallel_fraction: Decimals
    source: Literal["Given", "Written", "Measured", "Online", "Assumed"]
    name: str | None = None


class PodColocation(Status):
    """Beside whom a pod was placed, what that costs it, and what is recommended to its user.

    Attributes:
        partner: that it was placed beside: ``namespace/job (pod)``; absent if it has its processor
            to itself.
        predicted_penalty: part of its throughput alone that it was expected to lose there.
        measured_penalty: the same, where it was measured beforehand beside the partner's program.
        recommendation: Participate, or BreakAway (Cooper's action recommender).
        companion: with whom to break away: the one, of those who would gain by it too, that it
            would lose least beside; absent where the advice is to participate.
        gain: part of its throughput alone that this would save it; absent likewise.
    """

    partner: str | None = None
    predicted_penalty: Decimals | None = None
    measured_penalty: Decimals | None = None
    recommendation: Literal["Participate", "BreakAway"] = "Participate"
    companion: str | None = None
    gain: Decimals | None = None


class PodOutcome(Status):
    """What one pod of a job got, at which price, and why.

    Attributes:
        pod_uid: the pod.
        name: of the pod.
        node: that it is on; absent while it has none.
        state: Granted (by the market), Enforced (its node's agent holds it to that), Failed (the
            agent cannot), Refused (it takes no part) or Waiting (for a node, or for its own to
            take part again).
        cores: the market's real number.
        granted_cores: whole cores of its own; 0 if it shares.
        shared_cores: whole cores that it shares with the node's other small jobs.
        weight: its part of the shared cores, as cgroup v2's cpu.weight with 100 for the largest.
        memory: bytes granted; absent where it takes no part in that market.
        speedup: predicted at ``cores``.
        price: of a core of its node, in cores: 1 is the cluster's average.
        spend: what it pays, of its entitlement's budget.
        reason: one sentence for its user, which ``walras explain`` prints.
        memory_reason: one sentence about memory; absent likewise.
        colocation: beside whom it was placed; absent if it was not, but came by itself.
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
    """How many pods of a job there are, and how many of them have what.

    Attributes:
        total: pods that are alive.
        granted: that have a grant.
        enforced: whose grant is held by their node's agent.
        unlisted: that ``pods`` has no room for.
    """

    total: int
    granted: int
    enforced: int
    unlisted: int = 0


class WeightReport(Status):
    """A weight of a job's utility.

    Attributes:
        value: that it bids with.
        lower: of its 95 % confidence interval; absent unless it is estimated.
        upper: likewise; absent also where the runs cannot tell.
    """

    value: Decimals
    lower: Decimals | None = None
    upper: Decimals | None = None


class WeightsReport(Status):
    """The weights of a job's utility, and where they are from.

    Attributes:
        source: Given (by the job), Estimated (from its runs) or Equal (too few runs, or alike).
        runs: that there are to estimate from.
        recorded: of these, those that are in ``runs.finished``; the job's owner told of the others.
        cores: of its share of them.
        memory: likewise.
    """

    source: Literal["Given", "Estimated", "Equal"]
    runs: int
    recorded: int = 0
    cores: WeightReport
    memory: WeightReport


class AuctionReport(Status):
    """What came of a job's bid where resources are auctioned, of all its pods together.

    Attributes:
        budget: its part of its entitlement's, in cores at the cluster's average price.
        utility: of what its pods hold, predicted: weights times shares of its nodes, and of a
            logarithmic utility the product of shares to the powers of weights.
        minimum: that it demands (``minimumUtility``); absent if it demands none.
        service: Bid (it is in the pool of those who are served by their bids) or Leftovers (it
            has what these leave).
        charge: what it pays at present: its budget if it has its minimum or, without one, is
            served by its bid; else 0.
        weights: of its utility.
    """

    budget: Decimals
    utility: Decimals
    minimum: Decimals | None = None
    service: Literal["Bid", "Leftovers"]
    charge: Decimals
    weights: WeightsReport | None = None


class FinishedRun(Status):
    """A pod that succeeded: what it held, and what came of it.

    Attributes:
        pod_uid: the pod.
        pod: its name.
        finished: when its last container ended.
        seconds: from the start of its first container until then.
        held_seconds: for how long its node's agent held it to its grants; not cut to ``seconds``,
            which is by the node's clock.
        cores: its share of what its node sells, mean over that time, 0 to 1.
        memory: likewise.
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
    """What a running pod has held so far: sums, to which the present stretch is yet to be added.

    Attributes:
        pod_uid: the pod.
        pod: its name.
        held_since: begin of the present stretch; absent while it is not held to its grants.
        cores: its share in the present stretch of what its node sells, in billionths; absent
            likewise.
        memory: likewise.
        held_seconds: of earlier stretches.
        core_seconds: of these, the sum of seconds times billionths.
        memory_seconds: likewise.
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
    """Runs of a job, one a pod, that weights of its utility are estimated from.

    Attributes:
        finished: the newest, the last one last.
        underway: of pods that run, or whose end is still to be asked for.
    """

    finished: Annotated[list[FinishedRun], Field(max_length=MOST_RUNS)] = Field(
        default_factory=list
    )
    underway: Annotated[list[RunUnderway], Field(max_length=MOST_UNDERWAY)] = Field(
        default_factory=list
    )


class MarketJobStatus(_Conditioned):
    """What the market gave a job.

    Attributes:
        profile: F, and where it is from.
        counts: of its pods.
        cores: of all its pods, the market's real number.
        speedup: predicted, mean over its pods.
        spend: of all its pods.
        auction: what came of its bid; absent where nothing is auctioned.
        runs: of its pods, for its utility's weights; absent if there are none.
        pods: by name; those beyond the list's end are counted.
        conditions: ``Ready``, ``Admitted`` (its entitlement takes it), ``Profiled`` (its speedup is
            known), ``Selected`` (it has pods, and no other job selects them) and, of a job with a
            ``minimumUtility``, ``ObjectiveMet``.
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
    """What was counted of a running pod in one stretch of time at one core count.

    Attributes:
        cores: that the pod used.
        seconds: how long.
        progress: what was counted.
    """

    cores: int
    seconds: Decimals
    progress: Decimals


class OnlineMeasurement(Status):
    """A measurement of a running pod.

    Attributes:
        id: of the request.
        pod: which.
        pod_uid: likewise.
        node: where.
        finished: when.
        source: what was counted.
        samples: in the order in which they were taken.
        memory_bandwidth: that the pod drew on all its cores, gigabytes (10**9) a second; absent
            where that is not counted.
        warnings: what it cannot see, and what is doubtful about the result.
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
    """A measurement that a node has been asked for.

    Attributes:
        id: of the request, in the node's NodeAllocation.
        pod: that is measured.
        pod_uid: likewise.
        node: where.
        purpose: Speedup (its cores are varied) or Progress (they are not).
        since: when it was asked for.
        until: when it is given up if the node's agent has not answered.
    """

    id: str
    pod: str
    pod_uid: Annotated[str, Field(alias="podUID")]
    node: str
    purpose: Literal["Speedup", "Progress"]
    since: Time
    until: Time


class OnlineFailure(Status):
    """Why the last attempts to measure gave nothing.

    Attributes:
        reason: in one word; NotMeasured if they are different ones.
        message: for people, of the last one.
        times: how many there were in a row.
        finished: when the last one ended.
    """

    reason: Annotated[str, Field(pattern=r"^[A-Za-z]{1,63}$")]
    message: Annotated[str, Field(max_length=4096)]
    times: int
    finished: Time


class OnlineCheck(Status):
    """The last look at whether a job gets on as its profile says.

    Attributes:
        pod: that was looked at.
        cores: that it had.
        finished: when.
        departure: of its progress from the predicted one, as a part of it; absent where they
            cannot be compared.
        departures: looks in a row that found it too large.
    """

    pod: str
    cores: int
    finished: Time
    departure: Decimals | None = None
    departures: int = 0


class OnlineCompany(Status):
    """How looks at progress compared with the prediction in one company.

    Attributes:
        profile: of the one program beside it on its node; absent for looks alone.
        namespace: of that profile; absent likewise.
        ratio: of measured to predicted progress, mean of the last looks.
        looks: how many there were.
        finished: when the last one ended.
    """

    profile: str | None = None
    namespace: str | None = None
    ratio: Decimals
    looks: int
    finished: Time


class OnlineProfile(Status):
    """What is known from measuring running pods, and how that goes on.

    Attributes:
        request: the measurement that is being made.
        measurements: of one pod each, that F follows from; the last one last.
        failure: of measurements; absent since one last went well, or the job was found changed.
        look_failure: of looks at progress; absent since one last went well.
        check: absent until progress was first looked at since the last measurement.
        companies: looks at pods that were alone on their node, or with one other pod of the market,
            since the last measurement.
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
    """F as one core count shows it (Karp and Flatt).

    Attributes:
        cores: the core count.
        value: of F.
    """

    cores: int
    value: Decimals


class TimeModel(Status):
    """How time grows with the data at one core count.

    Attributes:
        cores: the core count.
        form: of the model.
        coefficients: of the model, constant first.
        residual_seconds: what it leaves unexplained, root of the mean square.
    """

    cores: int
    form: str
    coefficients: Annotated[list[Decimals], Field(max_length=8)]
    residual_seconds: Decimals


class Finding(Status):
    """What a profile is worth: one remark.

    Attributes:
        code: for programs.
        message: for people.
    """

    code: str
    message: str


class MeasuredPenalty(Status):
    """What a program loses beside another.

    Attributes:
        profile: of the other.
        namespace: of that profile.
        penalty: 1 - throughput together / throughput alone.
        source: what throughput is counted by.
        looks: how many it is the mean of.
        finished: when the last of them ended.
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
        source: Written (the spec's ``parallelFraction``), Measured (the spec's measurements) or
            Online (samples of a running pod).
        parallel_fraction: F, mean over core counts.
        whole_data_parallel_fraction: F on all of the data, where it depends on their size.
        raw_parallel_fraction: F before it was brought into 0 to 1.
        variance: of F over core counts; small where Amdahl's law fits.
        parallel_fraction_by_cores: F by core count.
        time_models: by core count.
        memory_bandwidth: that it draws when it runs alone, gigabytes (10**9) a second.
        penalties: measured beside programs of other profiles, from looks at running pods.
        online: measurements of running pods, and how they go.
        findings: what all this is worth.
        conditions: ``Ready``: it can be used; why not, or what is awaited.
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
        number: of it; only grows.
        time: when it was made.
        duration_milliseconds: from the snapshot to the plan.
    """

    number: int
    time: Time
    duration_milliseconds: int


class SolverReport(Status):
    """How cores were divided, and how sure that is.

    Attributes:
        mechanism: that divided cores.
        solver: that found the prices.
        iterations: that it took.
        residual: largest relative violation of an equilibrium condition.
        price_error: proven bound on the relative error of prices; absent if there is none.
        converged: whether it reached what defines the mechanism.
    """

    mechanism: CoreMechanism
    solver: str
    iterations: int
    residual: Decimals | None = None
    price_error: Decimals | None = None
    converged: bool


class ScoreReport(Status):
    """What the decision is worth (see ``walras.scores``).

    Attributes:
        system_progress: budget-weighted mean of utilities, at the market's real numbers.
        held_progress: the same with the whole cores that jobs hold.
        proportional_progress: ``system_progress`` of proportional sharing on the same cluster.
        entitlement_error: mean absolute error of users' cores against entitled ones (MAPE), as a
            part of these.
        uniformity: least gain of any user over bare entitlement, over the largest.
        envy_freeness: 1 where nobody would rather have another's cores, scaled to its own
            budget; absent where there are too many to compare.
    """

    system_progress: Decimals
    held_progress: Decimals
    proportional_progress: Decimals | None = None
    entitlement_error: Decimals
    uniformity: Decimals
    envy_freeness: Decimals | None = None


class MarketSize(Status):
    """What takes part.

    Attributes:
        entitlements: with jobs.
        jobs: MarketJobs.
        pods: that were granted something.
        refused: pods that take no part.
        nodes: that sell.
        cores: for sale.
        memory: for sale, in bytes.
    """

    entitlements: int
    jobs: int
    pods: int
    refused: int
    nodes: int
    cores: int
    memory: Amount


class NodePrice(Status):
    """What a node sells, and at which price.

    Attributes:
        node: the node.
        cores: for sale.
        price: of a core; 1 is the cluster's average.
    """

    node: str
    cores: int
    price: Decimals


class Balance(Status):
    """Karma's credits of one entitlement.

    Attributes:
        user: the entitlement.
        credits: its balance, exactly.
        gained: what the last quantum changed it by, exactly; absent where it did not.
    """

    user: str
    credits: Decimals
    gained: Decimals | None = None


class LedgerReport(Status):
    """Karma's credits, exactly, before and after the present quantum.

    This is the only place where credits are kept: whatever operator decides next goes on from here.

    Attributes:
        version: of this format (``walras.karma.ledger.Ledger.to_document``).
        quantum: how many quanta have been settled; the last of them is the present one.
        since: when it began; the next one begins ``spec.memory.quantumSeconds`` later, or when
            there is an operator again.
        carry: income that could not be divided so far.
        carry_before: the same before the present quantum.
        balances: in the order in which the entitlements joined.
    """

    version: int
    quantum: int
    since: Time | None = None
    carry: Decimals
    carry_before: Decimals | None = None
    balances: Annotated[list[Balance], Field(max_length=MOST_BALANCES)]


class MarketStatus(_Conditioned):
    """What the market decided last.

    Attributes:
        leader: the operator's pod that decided.
        epoch: which decision this was, and when.
        solver: how cores were divided.
        scores: what the decision is worth.
        size: what takes part.
        prices: by node.
        memory_mechanism: that divided memory; absent where none did.
        ledger: Karma's credits; absent without Karma.
        conditions: ``Ready``: the market is cleared and its plan is published.
    """

    leader: str | None = None
    epoch: EpochReport | None = None
    solver: SolverReport | None = None
    scores: ScoreReport | None = None
    size: MarketSize | None = None
    prices: Annotated[list[NodePrice], Field(max_length=MOST_NODES)] = Field(default_factory=list)
    memory_mechanism: MemoryMechanism | None = None
    ledger: LedgerReport | None = None
