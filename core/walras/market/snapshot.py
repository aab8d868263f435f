"""Input of a decision: entitlements, nodes, jobs and the policy at one moment, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.market.balances import Balance
    from walras.mechanisms.karma.ledger import Ledger

CoreMechanism = Literal[
    "AmdahlBidding",
    "ProportionalSharing",
    "BestResponse",
    "Greedy",
    "UpperBound",
    "PriceAnticipating",
    "Auction",
]
"""Mechanisms that divide cores."""

FOR_COMPARISON: frozenset[CoreMechanism] = frozenset({"Greedy", "UpperBound"})
"""Mechanisms for what-if and studies: entitlements do not bind them, so no Market may use them."""

WITHOUT_FLOORS: frozenset[CoreMechanism] = FOR_COMPARISON | {"Auction"}
"""Mechanisms that keep no requests: auctions promise what was won."""

MemoryMechanism = Literal["Karma", "MaxMin", "Strict", "Auction"]
"""Mechanisms that divide memory."""

RequestRule = Literal["Always", "WithinShare"]
"""Rules of what requests beyond a user's share mean."""

ColocationRule = Literal[
    "None",
    "StableMarriageRandom",
    "StableMarriagePartition",
    "StableRoommates",
    "Greedy",
    "Complementary",
]
"""Rules that choose which waiting jobs share a socket."""

DEFAULT_POOL = "default"
"""Name of the pool of all nodes whose labels name none."""

MOST_POOLS = 50
"""Node pools whose signals are computed; of more, those with the most cores."""

MOST_USERS = 3
"""Users that are named as gaining or losing by a node."""


@dataclass(frozen=True, slots=True)
class Entitlement:
    """A claim on the cluster of a user, or of a group that divides it among its children.

    Attributes:
        shares: Claim relative to its siblings, positive.
        parent: Name of the entitlement whose budget this one is a part of; None for a root.
        namespaces: Namespaces whose jobs may draw on it; None if ``namespace_labels`` selects them.
        namespace_labels: Labels of namespaces whose jobs may draw on it; None if they are listed.
        memory_shares: Claim on memory relative to its siblings; None if it is ``shares``.
        max_nodes: Most nodes that it bids on at once under PriceAnticipating; None for no bound.
    """

    name: str
    shares: int
    parent: str | None = None
    namespaces: frozenset[str] | None = None
    namespace_labels: Mapping[str, str] | None = None
    memory_shares: int | None = None
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A server and what the market sells of it.

    Attributes:
        cores: Cores for sale, possibly a fraction of one.
        memory: Bytes for sale.
        sockets: Number of sockets; one pair of jobs can be placed on each.
        room: Amounts that pods may still request there, by resource; None for no bound.
        pool: Name of the node pool that it belongs to.
    """

    name: str
    cores: float
    memory: int = 0
    sockets: int = 1
    room: Mapping[str, int] | None = None
    pool: str = DEFAULT_POOL


@dataclass(frozen=True, slots=True)
class MemoryDemand:
    """Demand of a job for memory, with bounds, in bytes.

    Attributes:
        demand: Memory that the job could use now.
        least: Memory below which the job does not run; granted before anything else.
        most: Most memory that the job is ever granted; None for no bound.
    """

    demand: int
    least: int = 0
    most: int | None = None

    @property
    def usable(self) -> int:
        """Bytes that the job takes if it can have them: its demand, within its bounds."""
        wanted = max(self.demand, self.least)
        return wanted if self.most is None else min(wanted, self.most)


@dataclass(frozen=True, slots=True)
class Bid:
    """Bid of a job in an auction of its nodes' cores and memory.

    Attributes:
        budget: Budget relative to the other jobs of its entitlement, positive.
        utility: Form of the utility: linear or logarithmic in the share of each resource.
        cores: Weight of the share of cores in the utility.
        memory: Weight of the share of memory in the utility.
        minimum_utility: Utility below which the job is of no use (its SLO).
    """

    budget: float = 1.0
    utility: Literal["Linear", "Log"] = "Linear"
    cores: float = 1.0
    memory: float = 1.0
    minimum_utility: float | None = None


@dataclass(frozen=True, slots=True)
class Deadline:
    """Work that a job has left, and the time that it has for it.

    Attributes:
        seconds: Seconds from now to the deadline; negative once it has passed.
        left: Expected work left, in seconds on one core.
        error: Standard error of that.
        reserved: Cores that are reserved for the job; 0 for none. As for ``min_cores`` above 1, its
            user's budget pays for them before anything else.
    """

    seconds: float
    left: float
    error: float = 0.0
    reserved: float = 0.0


@dataclass(frozen=True, slots=True)
class PlacementConstraints:
    """Constraints on the co-runner of a job, and on the node that it waits for.

    Attributes:
        avoids: Namespaces and names of jobs that never share its node; an empty name means all.
        requests: Amounts that the job's node must have room for, by resource, in whole units.
        nodes: Names of nodes that may take the job; None for all.
        partner_node: Node that the job was to share with its partner; empty if it has none yet.
        partner: Title of that partner; empty if it has none yet.
    """

    exclusive: bool = False
    avoids: frozenset[tuple[str, str]] = frozenset()
    requests: tuple[tuple[str, int], ...] = ()
    nodes: frozenset[str] | None = None
    partner_node: str = ""
    partner: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job on one node, as the market sees it (the paper's edge between user and server).

    Attributes:
        name: Name, unique in the namespace, node and pod.
        node: Name of the node that the job runs on; empty while it waits to be placed.
        fraction: Parallel fraction, in (0, 1].
        work: Weight of the job's speedup among the jobs of its entitlement, positive.
        min_cores: Fewest cores worth having; above 1, its user's other jobs on the node give way.
        max_cores: Most cores that the job can use; None for no bound.
        requested: Cores that its pod requested; 0 if unknown.
        floor: Cores that it keeps whatever the market decides; 0 for none. Its user pays for them
            like for any others.
        whole_cores: Whether the job shares no core, so that it holds a whole number of them; one
            that buys less than a core shares nevertheless.
        deadline: Its deadline, with the cores that the last decision reserved; None if it has none,
            or if the work that it has left is unknown.
        observed: Whether what it loses beside others is measured while it runs.
        seen_alone: Whether the progress of its program alone is known, without which what it loses
            beside others cannot be told.
        learned: Whether ``max_cores`` is learned from what its program has used.
        pod: Name of the job's pod; empty for a program on one machine.
        memory: Demand for memory; None if the job takes no part in the market for memory.
        program: Name of the program that the job runs; copies of a program interfere alike.
        bandwidth: Memory bandwidth that the job draws when it runs alone, GB/s; None if unknown.
        measured_beside: Programs beside which the fraction was measured, so that it contains what
            the job loses beside them; None if it may contain all losses.
    """

    namespace: str
    name: str
    entitlement: str
    node: str
    fraction: float
    work: float = 1.0
    min_cores: int = 1
    max_cores: float | None = None
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    pod: str = ""
    memory: MemoryDemand | None = None
    bid: Bid = Bid()
    program: str = ""
    bandwidth: float | None = None
    placement: PlacementConstraints = PlacementConstraints()
    measured_beside: frozenset[str] | None = frozenset()
    requested: float = 0.0
    floor: float = 0.0
    whole_cores: bool = False
    deadline: Deadline | None = None
    observed: bool = False
    seen_alone: bool = True
    learned: bool = False

    @property
    def least_cores(self) -> float:
        """Fewest cores that the job asks for: ``min_cores`` above 1, or those reserved if more."""
        reserved = 0.0 if self.deadline is None else self.deadline.reserved
        return max(self.min_cores if self.min_cores > 1 else 0.0, reserved)

    @property
    def title(self) -> str:
        """Name in texts for users: ``namespace/name``, with the pod where its name differs."""
        return title(self.namespace, self.name, self.pod)


def title(namespace: str, name: str, pod: str = "") -> str:
    """Return the name of a job in texts for users."""
    return f"{namespace}/{name}" + (f" ({pod})" if pod not in {"", name} else "")


JobKey = tuple[str, str, str, str]
"""Namespace, name, pod and node of a job."""


class _OfJob(Protocol):
    """A job, or a value about one job such as a grant."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def pod(self) -> str: ...
    @property
    def node(self) -> str: ...


def identity(job: _OfJob) -> JobKey:
    """Return the key that identifies a job, or the job of a grant, in a snapshot."""
    return job.namespace, job.name, job.pod, job.node


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a cluster, or of one machine, that `walras.clearing.clear` decides on.

    Attributes:
        penalties: Measured part of its throughput that a program loses, by program and co-runner.
        ledger: Karma's credits, also of entitlements that exist but take no part; None before the
            first quantum.
        held: Cores that jobs hold now, by key (`walras.market.plan.Plan.holdings` of the last
            decision): the division that hysteresis keeps; empty at the first decision.
        matching: Whether waiting jobs are matched now; they wait on else, to be matched together.
        earlier_demands: Bytes of memory that entitlements demanded earlier in the same quantum, by
            node and entitlement; they count until the quantum ends.
        frozen: Nodes that keep their division unless a job has come or gone.
        account: What entitlements owe each other at this moment, by name; nothing where absent.
        observed: Nodes on which the plan is not enforced; where others are, these are a market of
            their own (`walras.market.observed`).
    """

    entitlements: tuple[Entitlement, ...]
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    penalties: Mapping[tuple[str, str], float] = field(default_factory=dict)
    ledger: Ledger | None = None
    held: Mapping[JobKey, float] = field(default_factory=dict)
    matching: bool = True
    earlier_demands: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    frozen: frozenset[str] = frozenset()
    account: Mapping[str, Balance] = field(default_factory=dict)
    observed: frozenset[str] = frozenset()

    @property
    def selling(self) -> list[Node]:
        """Nodes that sell cores."""
        return [node for node in self.nodes if node.cores > 0]


@dataclass(frozen=True, slots=True)
class Policy:
    """Mechanisms that decide, and their parameters.

    Attributes:
        memory: Mechanism that divides memory; None to leave memory alone.
        sold_by: Unit of sale. By socket, no job straddles sockets unless it is larger than one.
        break_away_gain: Least gain in throughput for the advice to break away (Cooper's alpha).
        exploration: Most that a job may be expected to lose by a co-runner that was chosen to learn
            its penalties, as a part of its throughput.
        hysteresis: Gain in progress, as a part of a node's progress, that another division must
            bring before cores move there; 0 to move them for any gain.
        least_part: Part, from 0 to 1, of the smaller of one core and its equal part of its user's
            entitlement on its node that every job has at least.
        requests: Whether pods keep what they requested beyond their user's share of their node
            always, or only while nobody else is below its bare entitlement for it.
        core_half_life: Seconds in which a balance of the account (`walras.market.account`) halves;
            0 if no debt arises, and none is paid back.
        most_credit: Part of its budget that debts may cost a user (beta), below 1.
        lending: Whether budgets that users without jobs leave to others count as lent.
        interference: Whether throughput lost beside others lowers the fractions that jobs bid with.
        guaranteed_fraction: Part of a user's memory share that others borrow only while the user
            does not want it (Karma's alpha).
        fading: Part of the difference between its Karma credits and the mean that a user loses in a
            quantum; 0 if credits last for ever.
        exponent: Exponent of bids in auctions (Abacus's alpha).
    """

    cores: CoreMechanism = "AmdahlBidding"
    memory: MemoryMechanism | None = None
    sold_by: Literal["node", "socket"] = "node"
    colocation: ColocationRule = "None"
    break_away_gain: float = 0.02
    exploration: float = 0.0
    hysteresis: float = 0.0
    least_part: float = 0.25
    requests: RequestRule = "Always"
    core_half_life: float = 0.0
    most_credit: float = 0.2
    lending: bool = False
    interference: bool = True
    tolerance: float = 1e-6
    guaranteed_fraction: Fraction = Fraction(1, 2)
    fading: float = 0.0
    slice_bytes: int = 128 * 1024**2
    exponent: float = 0.5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PoolPrices:
    """Prices of nodes and the worth of work, in one currency.

    Attributes:
        node_hour: Price of a node for an hour, positive, by pool.
        core_hour: Worth of the work that one core does in an hour for a job that has no other,
            positive; None if unknown, and then no number of nodes is recommended.
    """

    node_hour: Mapping[str, float] = field(default_factory=dict)
    core_hour: float | None = None

    def least_speedup(self, pool: str) -> float | None:
        """Return the total speedup for which a node of a pool is worth its price, if known."""
        price = self.node_hour.get(pool)
        return None if price is None or self.core_hour is None else price / self.core_hour
