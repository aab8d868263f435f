"""Market: the rules of the market; `market_status` has what it reports."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, WithJsonSchema

from walras.market.snapshot import (
    MOST_POOLS,
    WITHOUT_FLOORS,
    ColocationRule,
    CoreMechanism,
    MemoryMechanism,
    RequestRule,
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
from walras_api.model import LabelSelector, Model, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_LABELS = 16
"""Labels of nodes that may name a pool."""

POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
)
"""Labels by which GKE, EKS, AKS and Karpenter name the pool of a node."""


def _up_to(most: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", "format": "int32", "minimum": 0, "maximum": most})


Hours = Annotated[NotNegativeInt, Field(le=24), _up_to(24)]

_NODES = r"^([1-9][0-9]{0,8}|([1-9][0-9]?|100)%)$"

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
        memory_nodes: NUMA nodes from which pods with CPUs of their own allocate memory: any node
            (any), or only the nodes of their CPUs (local).
        hysteresis: Smallest relative gain in utility for which the cores of a node are divided
            anew.
        least_part: Part, from 0 to 1, of the smaller of one core and its equal part of its user's
            entitlement on its node that every running pod holds at least.
        whole_cores: Whether jobs hold whole numbers of cores, which are their own as if they were
            isolated, unless they say otherwise. What a pod loses by that, its own user's other
            pods on the node gain.
        isolated: Whether the whole cores of pods are CPUs of their own, which no other pod uses
            even while they are idle, unless their jobs say otherwise. By default, pods share the
            CPUs of their node, or of a part of it, by weight of what they hold.
        interference: Whether the slowdown that a program was measured to suffer beside others on
            its node lowers the parallel fraction that it bids with: counted or ignored.
        floor: Pods that keep the CPUs that they requested, for which their users pay like for any
            others: no pods (None), those of the quality of service class Guaranteed (Guaranteed),
            or all (Requests). Not used on one machine, nor with Auction.
        per_gpu: Cores that a pod keeps for each GPU that it requests, and for which its user pays;
            at most its part of its node by GPUs. If unset, a pod keeps nothing for its GPUs. Not
            used on one machine, nor with Auction.
        limits: Whether agents leave a CPU limit on a pod with a grant (Kept), or lift it, so that
            the pod also uses what others leave idle (Lifted). In both cases it is the most that the
            market sells to the pod. Not used on one machine.
        requests: What requests mean that together exceed their user's share of a node. They are
            kept up to that share where somebody else is below its bare entitlement for them
            (WithinShare), or in any case (Always), and the user owes what others lack. If unset,
            Always, and the Market says so in its condition ``RequestsBounded``. Not used with
            Auction.
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
    per_gpu: Annotated[PositiveInt | None, Field(alias="perGPU")] = None
    limits: Literal["Lifted", "Kept"] = "Lifted"
    requests: RequestRule | None = None
    credits: CoreCreditsPolicy | None = None

    @property
    def unbounded(self) -> bool:
        """Whether requests count beyond shares although nobody has said that they are to."""
        keeps = self.floor != "None" and self.mechanism not in WITHOUT_FLOORS
        return keeps and self.requests is None


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


class ScopePolicy(Model):
    """Where the mode of the Market holds, and how fast nodes begin to enforce plans.

    The label ``walras.dev/mode`` of a node, or of a namespace, can only make its mode stricter.

    Attributes:
        node_selector: Labels of the nodes on which the mode of the Market holds; all if unset.
        namespace_selector: Labels of the namespaces for whose pods it holds; all if unset.
        elsewhere: Mode of the nodes and namespaces that are not selected: observe, or off.
        max_changing: Most nodes that begin to enforce plans at a time, until their agents do: a
            number, or a part of all nodes, rounded up. Nodes that cease to enforce do so at once.
    """

    node_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    elsewhere: Literal["observe", "off"] = "observe"
    max_changing: Annotated[str, Field(pattern=_NODES, max_length=10)] = "10%"


class MarketSpec(Model):
    """The rules of the market.

    Attributes:
        mode: Whether agents enforce the plan: enforce writes grants to the nodes; observe only
            reports what it would write.
        scope: Nodes and namespaces for which the mode holds.
        paused: Whether all plans stay as they are, and nodes without one get none; ``walras pause``
            sets it, and pauses each NodeAllocation.
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

    mode: Literal["enforce", "observe"] = Field(
        default="enforce", json_schema_extra={"default": "observe"}
    )
    scope: ScopePolicy = ScopePolicy()
    paused: bool = False
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


class Market(Resource):
    """The rules of the market; cluster-scoped, and the one named ``default`` is used."""

    kind: Literal["Market"]
    spec: MarketSpec = MarketSpec()
