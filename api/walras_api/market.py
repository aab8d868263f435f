"""Market: the spec and status of the market's rules."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, WithJsonSchema

from walras.market.snapshot import (
    MOST_POOLS,
    MOST_USERS,
    ColocationRule,
    CoreMechanism,
    MemoryMechanism,
)
from walras.outcome.hourly_accounts import DAYS
from walras_api.fields import (
    LabelKey,
    LabelValue,
    NotNegativeInt,
    Portion,
    PositiveBytes,
    PositiveDecimal,
    PositiveInt,
    Unique,
    UpToHalf,
)
from walras_api.model import Model, Resource
from walras_api.status import (
    Amount,
    ConditionedStatus,
    Decimals,
    Status,
    Time,
    WaitingWorkloads,
    at_most,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NODES = 5000
"""Nodes that the Market's status lists; Kubernetes supports as many."""

MOST_BALANCES = 5000
"""Balances that the Market's status lists; more are kept in parts, outside of it."""

MOST_NODE_GAINS = 20
"""Nodes that were added, of which the Market's status keeps what they brought: the latest."""

MOST_LABELS = 16
"""Labels of nodes that may name a pool."""

POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)
"""Labels by which GKE, EKS, AKS and Karpenter name the pool of a node."""

MOST_PARTS = 2000
"""Parts of a ledger, enough for several million balances."""


def _up_to(most: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", "format": "int32", "minimum": 0, "maximum": most})


Hours = Annotated[NotNegativeInt, Field(le=24), _up_to(24)]

MOST_HALF_LIFE = 8760
"""Hours of the longest half-life of credits, a year."""

HalfLife = Annotated[
    PositiveInt,
    Field(le=MOST_HALF_LIFE),
    WithJsonSchema({"type": "integer", "format": "int32", "minimum": 1, "maximum": MOST_HALF_LIFE}),
]

AccountDays = Annotated[NotNegativeInt, Field(le=DAYS), _up_to(DAYS)]


class CoreCreditsPolicy(Model):
    """How budgets pay back what users owe each other.

    Attributes:
        half_life_hours: Hours in which a balance halves: what was lent longer ago counts less.
        most_share: Largest part of its budget that debts may cost a user, at most 0.5. At 0,
            balances are kept, but change nothing.
        lending: Whether a user lends the budget that it leaves unspent, because it has no jobs
            (Counted), or only owes what its requests cost others beyond its budget (Ignored).
    """

    half_life_hours: HalfLife = 96
    most_share: UpToHalf = Decimal("0.2")
    lending: Literal["Counted", "Ignored"] = "Counted"


class CoresPolicy(Model):
    """How cores are divided among jobs.

    Attributes:
        mechanism: Mechanism that divides cores. AmdahlBidding and BestResponse are markets of
            measured speedups; users in BestResponse anticipate how their bids move prices.
            PriceAnticipating does so for linear speedups. Auction is Abacus. ProportionalSharing
            divides every node on its own. Greedy and UpperBound are for walras what-if: a Market
            that names one of them keeps its last rules.
        reserved_cores: Cores of each node that the market does not sell.
        unit: Unit of sale: a physical core with all its hardware threads (core), or a single
            hardware thread (thread).
        sold_by: Part of a machine within which a job gets its cores: node, or socket. With socket,
            no job spans sockets unless it is larger than one.
        memory_nodes: NUMA nodes from which pods with exclusive cores allocate memory: any node
            (any), or only the nodes of their cores (local).
        hysteresis: Smallest relative gain in utility for which the cores of a node are divided
            anew.
        least_part: Part, from 0 to 1, of the smaller of one core and its equal part of its user's
            entitlement on its node that every running pod holds at least.
        whole_cores: Whether jobs hold whole numbers of cores and share none, unless they say
            otherwise. What a pod loses by that, its own user's other pods on the node gain.
        isolated: Whether the cores of pods that sleep stay idle, unless their jobs say otherwise.
        interference: Whether the slowdown that a program was measured to suffer beside others on
            its node lowers the parallel fraction that it bids with: counted or ignored.
        floor: Pods that keep the CPUs that they requested, for which their users pay like for any
            others: no pods (None), those of the quality of service class Guaranteed (Guaranteed),
            or all (Requests). Not used on one machine, nor with Auction.
        credits: Core credits: users who leave their budget unspent, because they have no jobs, have
            a larger one later, and those who used it a smaller one. If unset, budgets pay back only
            what requests beyond them cost others. Used with AmdahlBidding, BestResponse and
            PriceAnticipating; not used on one machine.
    """

    mechanism: CoreMechanism = "AmdahlBidding"
    reserved_cores: NotNegativeInt = 0
    unit: Literal["core", "thread"] = "core"
    sold_by: Literal["node", "socket"] = "node"
    memory_nodes: Literal["any", "local"] = "any"
    hysteresis: Portion = Decimal("0.02")
    least_part: Portion = Decimal("0.25")
    whole_cores: bool = False
    isolated: bool = False
    interference: Literal["counted", "ignored"] = "counted"
    floor: Literal["None", "Guaranteed", "Requests"] = "Requests"
    credits: CoreCreditsPolicy | None = None


class MemoryPolicy(Model):
    """How memory is divided on a cluster.

    Attributes:
        mechanism: Mechanism that divides memory: Karma (unused shares are lent for credits),
            MaxMin, Strict or Auction.
        guaranteed_fraction: Fraction of each user's share that others borrow only while the user
            does not want it.
        slice_size: Amount of memory in which shares are counted and lent. Credits of Karma count
            slices: in slices of twice the size, a user owes twice the memory for what it borrowed
            before.
        quantum_seconds: Seconds between two divisions of memory. Credits of Karma count quanta: if
            they last twice as long, so does the time that a user owes for what it borrowed before.
        half_life_hours: Hours in which the difference between a user's Karma credits and the mean
            halves, so that what was lent or borrowed longer ago counts less. If unset, credits last
            for ever.
    """

    mechanism: MemoryMechanism = "Karma"
    guaranteed_fraction: Portion = Decimal("0.5")
    slice_size: PositiveBytes = Field(default="128Mi", validate_default=True)
    quantum_seconds: PositiveInt = 10
    half_life_hours: HalfLife | None = None


class ColocationPolicy(Model):
    """How pending pods are placed in pairs on a cluster.

    Attributes:
        policy: Policy that chooses pairs: None, or one of Cooper's: StableMarriageRandom,
            StableMarriagePartition, StableRoommates, Greedy or Complementary.
        seed: Seed of StableMarriageRandom.
        timeout_seconds: Seconds after its creation at which a pod that is still waiting for a
            placement is released, to be scheduled like any other pod.
        break_away_gain: Smallest gain, as a fraction of its throughput alone, for which a job is
            advised to leave its partner and share a node with another job.
        exploration: Largest expected loss, as a fraction of its throughput alone, that a pod may
            incur by being placed beside another pod than the policy's choice, so that penalties are
            measured that are not known. At 0, only pairs that are expected to cost nobody anything
            are made for that.
    """

    policy: ColocationRule = "None"
    seed: NotNegativeInt = 0
    timeout_seconds: PositiveInt = 300
    break_away_gain: Portion = Decimal("0.02")
    exploration: Portion = Decimal("0.01")


class AuctionPolicy(Model):
    """Rules of an auction.

    Attributes:
        exponent: Exponent of the bids: shares are proportional to bids raised to this power, and
            equal at 0.
    """

    exponent: Portion = Decimal("0.5")


class ProfilingPolicy(Model):
    """How running pods with an unknown speedup are measured on a cluster.

    Attributes:
        automatic: Whether running pods are measured. If false, jobs without a profile bid with an
            assumed parallel fraction.
        sample_seconds: Length of each sample, in seconds.
        repeats: Number of samples at each core count.
        reprofile_threshold: Relative deviation of measured from predicted progress above which a
            job is measured again. At 1, a job is never measured again for being too slow.
        reprofile_seconds: Average number of seconds from one measurement or progress check of a job
            to its next progress check.
        most_at_once: Maximum number of concurrent measurements in the cluster. If unset, each node
            can run one.
    """

    automatic: bool = True
    sample_seconds: PositiveInt = 2
    repeats: PositiveInt = 3
    reprofile_threshold: Portion = Decimal("0.25")
    reprofile_seconds: PositiveInt = 600
    most_at_once: PositiveInt | None = None


class JobsPolicy(Model):
    """Rules that select the workloads for which MarketJobs are made.

    Attributes:
        create: Workloads for which MarketJobs are made: those with the label ``walras.dev/job``
            (Labelled), also all others in namespaces that an entitlement admits, except for
            DaemonSets (Entitled), or none (Never).
    """

    create: Literal["Labelled", "Entitled", "Never"] = "Labelled"


QuotaSource = Literal["Kueue", "ResourceQuota"]
"""What says the quotas that Entitlements follow."""


class EntitlementsPolicy(Model):
    """What Entitlements the operator makes itself, so that nobody states quotas twice.

    Attributes:
        source: Quotas that Entitlements follow: those of Kueue's ClusterQueues and cohorts
            (Kueue), or those of ResourceQuotas on ``requests.cpu`` (ResourceQuota). If unset, the
            operator makes none, and leaves those that it has made as they are.
    """

    source: Annotated[QuotaSource | None, Field(alias="from")] = None


class HistoryPolicy(Model):
    """How long the operator of a cluster remembers the market.

    Attributes:
        hours: Hours for which the operator keeps a sample of each minute, at most 24; at 0, it
            takes no samples.
        account_days: Days for which the operator keeps what each user was entitled to, held and
            paid, by the hour, at most 400; at 0, it keeps no accounts.
    """

    hours: Hours = 24
    account_days: AccountDays = 400


class NodePoolPrice(Model):
    """The price of a node of one pool.

    Attributes:
        pool: Name of the node pool, as its nodes' labels have it.
        per_node_hour: Price of one node for one hour, in the currency of ``valuePerCoreHour``.
    """

    pool: LabelValue
    per_node_hour: PositiveDecimal


class NodePoolsPolicy(Model):
    """How nodes are grouped in pools, and what they cost.

    Attributes:
        labels: Labels of nodes whose value names the node's pool; the first that a node has counts.
            If empty, those of GKE, EKS, AKS and Karpenter. Nodes without any of them are the pool
            ``default``.
        value_per_core_hour: Worth of the work that one core does in an hour, for a job that has no
            other core, in any currency. Without it, no number of nodes is recommended.
        prices: Price of a node of each pool, in the same currency.
    """

    labels: Annotated[list[LabelKey], Field(max_length=MOST_LABELS), Unique("labels")] = Field(
        default_factory=list
    )
    value_per_core_hour: PositiveDecimal | None = None
    prices: Annotated[
        list[NodePoolPrice], Field(max_length=MOST_POOLS), Unique("prices of pool", key="pool")
    ] = Field(default_factory=list)

    @property
    def pool_labels(self) -> Sequence[str]:
        """Labels that name the pool of a node, in the order in which they count."""
        return self.labels or POOL_LABELS


class MarketSpec(Model):
    """The rules of the market.

    Attributes:
        mode: Whether agents enforce the plan: enforce writes grants to the nodes; observe only
            reports what it would write.
        epoch_seconds: Maximum number of seconds between two decisions.
        agent_grace_period_seconds: Number of seconds for which a node keeps its grants after its
            agent or its kubelet has stopped reporting. Meanwhile nothing changes on it.
        cores: How cores are divided.
        memory: How memory is divided.
        colocation: How pending pods are placed in pairs.
        auction: Rules for cores or memory whose mechanism is Auction.
        profiling: How running pods are measured.
        jobs: Rules that select the workloads for which MarketJobs are made.
        entitlements: Entitlements that the operator makes itself.
        history: How long the operator remembers the market.
        node_pools: How nodes are grouped in pools, and what they cost.
    """

    mode: Literal["enforce", "observe"] = "enforce"
    epoch_seconds: PositiveInt = 30
    agent_grace_period_seconds: NotNegativeInt = 300
    cores: CoresPolicy = CoresPolicy()
    memory: MemoryPolicy = MemoryPolicy()
    colocation: ColocationPolicy = ColocationPolicy()
    auction: AuctionPolicy = AuctionPolicy()
    profiling: ProfilingPolicy = ProfilingPolicy()
    jobs: JobsPolicy = JobsPolicy()
    entitlements: EntitlementsPolicy = EntitlementsPolicy()
    history: HistoryPolicy = HistoryPolicy()
    node_pools: NodePoolsPolicy = NodePoolsPolicy()


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
        converged: Whether the solver reached the solution that defines the mechanism.
    """

    mechanism: CoreMechanism
    solver: str
    iterations: int
    residual: Decimals | None = None
    converged: bool


class ScoreReport(Status):
    """Measures of the decision's quality (see ``walras.analysis.plan_quality``).

    Attributes:
        system_progress: Mean of all utilities weighted by budget, at the cores that jobs buy.
        held_progress: Mean of all utilities weighted by budget, at the cores that jobs hold.
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
    cores: Decimals
    memory: Amount


class NodePrice(Status):
    """The cores that a node sells, and their price.

    Attributes:
        node: Name of the node.
        cores: Number of cores for sale.
        price: Price of a core, relative to the cluster's average.
    """

    node: str
    cores: Decimals
    price: Decimals


class UserChangeReport(Status):
    """A user whose progress another number of nodes would change.

    Attributes:
        user: Name of the entitlement.
        utility: Relative change of its utility.
        part: Its part of what all users that change in the same direction gain or lose, counted
            with their budgets, from 0 to 1.
    """

    user: str
    utility: Decimals
    part: Decimals


class NodesEffectReport(Status):
    """The effect of one node more or less in a pool.

    Attributes:
        progress: Relative change of ``status.scores.systemProgress``.
        progress_error: Standard error of ``progress``, widened by what nodes brought that were
            added; absent for one node less.
        speedup: Change of the total speedup, where a job alone on one core counts as 1.
        gaining: Users that gain most, as last computed.
        losing: Users that lose most, as last computed.
    """

    progress: Decimals
    progress_error: Decimals | None = None
    speedup: Decimals
    gaining: list[UserChangeReport] = at_most(MOST_USERS)
    losing: list[UserChangeReport] = at_most(MOST_USERS)


class PredictionReport(Status):
    """How good predictions of one kind were, of those that came true of objects that still exist.

    Attributes:
        of: What was predicted: ``Finish`` for ends of jobs with deadlines, when half of the work
            was done; and by progress checks, of each SpeedupProfile the latest ones, ``Gain`` for
            progress after cores were moved, ``Penalty`` for progress lost beside a co-runner, and
            ``Speedup`` for progress alone by F; and ``Node`` for what one more node brings.
        number: Number of predictions.
        coverage: Part of them that came within one stated error; 0.68 if errors are right.
        width: Mean stated error, as a part of the time that they looked ahead for ``Finish``; of
            the progress before the move for ``Gain``, alone for ``Penalty``, predicted for
            ``Speedup``, and of the whole market before the node came for ``Node``.
        crps: Mean continuous ranked probability score, as a part of the same; 0 is perfect.
        widening: Factor by which errors were too small, at least 1. Errors of jobs with deadlines
            that start now are multiplied by that of ``Finish``, and those of node pools by that of
            ``Node``.
    """

    of: str
    number: int
    coverage: Decimals
    width: Decimals
    crps: Decimals
    widening: Decimals


class NodePoolReport(Status):
    """The worth of more nodes of a pool. Figures other than counts are averaged over ten minutes.

    Attributes:
        name: Name of the node pool.
        nodes: Number of nodes that sell cores.
        cores: Number of cores that they sell.
        price: Mean price of a core on the nodes where somebody pays, relative to the cluster's
            average; 0 if nobody pays.
        core_value: Total speedup that one more core would add, where a job alone on one core counts
            as 1; absent if cores are auctioned, or if the market could not be solved.
        one_more: Effect of one more node, once jobs have spread over it; absent like ``coreValue``.
        one_less: Effect of one node less; absent like ``coreValue``, and for a pool's only node.
        recommended_nodes: Number of nodes, from half to twice the present one, at which the last
            node is worth its price and another is not; absent without ``spec.nodePools`` prices.
        unmet_memory: Memory that jobs on the pool's nodes could use beyond their grants, in bytes;
            absent unless Karma or MaxMin divides memory.
        memory_value: Part of one more GiB, spread over the nodes, that jobs would use at once, from
            0 to 1; absent like ``unmetMemory``.
    """

    name: str
    nodes: int
    cores: Decimals
    price: Decimals
    core_value: Decimals | None = None
    one_more: NodesEffectReport | None = None
    one_less: NodesEffectReport | None = None
    recommended_nodes: int | None = None
    unmet_memory: Amount | None = None
    memory_value: Decimals | None = None


class NodeGain(Status):
    """What a node that was added brought, beside what its pool had told that one more would.

    Attributes:
        pool: Name of the node pool.
        node: Name of the node.
        expected: Relative change of system progress that was told (``oneMore.progress``).
        error: Standard error that was told with it.
        widened: Factor that was in the error, since earlier gains were worse than told.
        came: Relative change that came, once the same pods had spread over the node.
    """

    pool: str
    node: str
    expected: Decimals
    error: Decimals
    widened: Decimals
    came: Decimals


class CreditBalance(Status):
    """The Karma credits of one entitlement.

    Attributes:
        user: Name of the entitlement.
        credits: Exact balance.
        gained: Exact change of the balance in the last quantum; absent if it did not change.
    """

    user: str
    credits: Decimals
    gained: Decimals | None = None


class LedgerPart(Status):
    """A part of the balances, in a ConfigMap of the operator's namespace that never changes.

    Attributes:
        name: Name of the ConfigMap.
        digest: SHA-256 of its data, in hexadecimal.
    """

    name: str
    digest: str


class LedgerReport(Status):
    """The exact Karma credits before and after the current quantum.

    This is the only place where credits are stored: every operator, also a new leader, continues
    from here. Balances that would make the status too large are in ConfigMaps, which count only
    because the status names them.

    Attributes:
        version: Version of this format (``walras.mechanisms.karma.ledger.Ledger.to_document``).
        quantum: Number of quanta that have been settled; the last of them is the current one.
        since: Time at which the current quantum began. The next one begins
            ``spec.memory.quantumSeconds`` later, or when an operator is available again.
        carry: Income that could not be divided evenly so far.
        carry_before: The same income before the current quantum.
        balances: Balances in the order in which the entitlements joined, also of those that take no
            part at the moment; empty if there are parts.
        parts: Parts of the balances, in the same order; absent if the balances are listed here.
    """

    version: int
    quantum: int
    since: Time | None = None
    carry: Decimals
    carry_before: Decimals | None = None
    balances: Annotated[list[CreditBalance], Field(max_length=MOST_BALANCES)]
    parts: Annotated[list[LedgerPart], Field(max_length=MOST_PARTS)] | None = None


class AccountBalance(Status):
    """What others owe one entitlement.

    Attributes:
        entitlement: Name of the entitlement.
        core_hours: Core-hours that others owe it at the time of the account; negative if it owes.
        cores: Cores by which that grows from then on, without what fades; absent if 0.
        parent: Name of the entitlement above it; absent at the top.
    """

    entitlement: str
    core_hours: Decimals
    cores: Decimals | None = None
    parent: str | None = None


class AccountReport(Status):
    """What entitlements owe each other: balances that add up to zero, as do their changes.

    This is the only place where they are stored. Balances that would make the status too large are
    in ConfigMaps, which count only because the status names them.

    Attributes:
        since: Time of the balances.
        balances: Balances of all entitlements, 0 of those with children; empty if there are parts.
        parts: Parts of the balances, in the same order; absent if the balances are listed here.
    """

    since: Time
    balances: list[AccountBalance] = at_most(MOST_BALANCES)
    parts: Annotated[list[LedgerPart], Field(max_length=MOST_PARTS)] | None = None


class MarketStatus(ConditionedStatus):
    """The last decision of the market.

    Attributes:
        leader: Name of the operator's pod that made the decision.
        operator_namespace: Namespace of that pod, of the Leases of the operator and of the agents,
            and of the history; absent before the first decision.
        epoch: Number and time of the decision.
        solver: How the division of cores was computed.
        scores: Measures of the decision's quality.
        size: Size of the market.
        waiting: Workloads that wait in Kueue, in all ClusterQueues that Entitlements follow; absent
            if none do.
        prices: Price of each node's cores.
        node_pools: Worth of more nodes of each pool, for the pools with the most cores.
        other_node_pools: Number of pools that are not listed.
        node_gains: What nodes brought that were added, the latest last.
        predictions: How good predictions were that came true; empty if none has.
        memory_mechanism: Mechanism that divided memory; absent if memory was not divided.
        ledger: Karma credits; absent if memory is not divided by Karma.
        account: What entitlements owe each other in core-hours; absent before the first decision.
        conditions: Condition ``Ready``: whether the market is cleared and its plan is published.
            Where Entitlements follow quotas, also ``QuotasFollowed``: whether all of them do.
    """

    leader: str | None = None
    operator_namespace: str | None = None
    epoch: EpochReport | None = None
    solver: SolverReport | None = None
    scores: ScoreReport | None = None
    size: MarketSize | None = None
    waiting: WaitingWorkloads | None = None
    prices: list[NodePrice] = at_most(MOST_NODES)
    node_pools: list[NodePoolReport] = at_most(MOST_POOLS)
    other_node_pools: int | None = None
    node_gains: Annotated[list[NodeGain], Field(max_length=MOST_NODE_GAINS)] = Field(
        default_factory=list
    )
    predictions: list[PredictionReport] = Field(default_factory=list)
    memory_mechanism: MemoryMechanism | None = None
    ledger: LedgerReport | None = None
    account: AccountReport | None = None


class Market(Resource):
    """The rules of the market; cluster-scoped, and the one named ``default`` is used."""

    kind: Literal["Market"]
    spec: MarketSpec = MarketSpec()
