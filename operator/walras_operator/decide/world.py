"""Pure: the input and the outcome of a decision, as values.

The process gathers a `World` from its mirror of the cluster, `decision.decide` turns it into a
`Decision`, and the process writes that. Neither contains a client, a clock or a thread. They are
one module, since most of what handles one of these values handles several.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras_api.assembly import Objects
from walras_api.contract import MARKET_NAME
from walras_api.kept import Kept
from walras_api.kinds import NAMESPACED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from walras.market.balances import Balance
    from walras.market.plan import Plan
    from walras.market.snapshot import JobKey, Snapshot
    from walras_api.cluster import Pod
    from walras_api.kinds import AnyResource, Market, MarketSpec
    from walras_api.market_status import NodeGain
    from walras_api.node_allocation import NodeAllocation
    from walras_api.waiting import WaitingMethod
    from walras_operator.decide.known_quotas import Quotas
    from walras_operator.decide.pool_averages import NodePoolReports

Document = dict[str, Any]
"""Plain data, as parsed from JSON."""

MOST_REPORTED = 2**52
"""Largest epoch that is believed; no operator ever reaches it."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A reference to an object.

    Attributes:
        kind: Kind of the object.
        name: Name of the object.
        namespace: Namespace of the object; empty for cluster-scoped kinds.
        uid: UID of the object, for Events and for writes that must not hit a later object of the
            same name; ignored in comparisons.
    """

    kind: str
    name: str
    namespace: str = ""
    uid: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        """The object's kind, namespace and name in one text."""
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ")


def reference_of(resource: AnyResource | Pod) -> Reference:
    """Return the reference to an object."""
    metadata = resource.metadata
    namespace = metadata.namespace if resource.kind in NAMESPACED else ""
    return Reference(resource.kind, metadata.name, namespace, metadata.uid)


@dataclass(frozen=True, slots=True)
class Broken:
    """An object that is invalid.

    Attributes:
        problems: A line for each problem: field, what is wrong, the way out.
        generation: Generation of the object.
        status: Status of the object; None if it has none.
    """

    problems: tuple[str, ...]
    generation: int = 0
    status: Mapping[str, Any] | None = None


class Account(NamedTuple):
    """What entitlements owe each other, at a time.

    Attributes:
        balances: Balance by name of the entitlement.
        since: Time of the balances (RFC 3339); empty if it is unknown.
        document: The account in the Market's status from which they were read; None if they were
            read from the statuses of Entitlements.
    """

    balances: Mapping[str, Balance]
    since: str = ""
    document: Document | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """State that one decision hands to the next; a new leader reads it from statuses.

    Attributes:
        rules: Rules of the last Market that could be used.
        held: Cores that pods hold.
        quantum: Number of the Karma quantum that was settled last.
        asked: Bytes that entitlements demanded in that quantum, by node and entitlement.
        account: What entitlements owed each other, as it was stored before the decision.
    """

    rules: MarketSpec | None = None
    held: Mapping[JobKey, float] = field(default_factory=dict)
    quantum: int = 0
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    account: Account | None = None


class Lifetime(NamedTuple):
    """When a pod ran, in seconds since 1970 by its node's clock.

    Attributes:
        started: Start of its first container.
        finished: End of its last container.
    """

    started: int
    finished: int


@dataclass(frozen=True, slots=True)
class World:
    """Everything that the operator knows at one moment.

    Attributes:
        now: Current time (RFC 3339, such as ``2026-01-31T12:00:00Z``).
        objects: Valid objects with their statuses as last written; its ``rules`` are not used.
        markets: Valid Markets with their statuses as last written.
        broken: Invalid objects of all kinds that are watched.
        allocations: NodeAllocations by node; invalid ones are left out, and replaced.
        agents: Nodes whose agent is alive, by its Lease.
        silent_agents: Nodes whose agent is not alive, but was less than the grace period ago.
        carried: State from the last decision of this leader; None for its first decision.
        version: The resourceVersion of the Market that is used.
        versions: The resourceVersions of objects whose status the operator writes, by UID.
        ledger_parts: Data of the ConfigMaps that the Market's status names, by name.
        matching: Whether to pair waiting pods now; once an epoch, so that many are paired at a
            time.
        unplaceable: Why the API server last refused to let this operator place pods; empty if it
            did not.
        account_dropped: Whether the API server last dropped the account from the Market's status.
        ends: Lifetimes of ended pods that were looked up, by UID; None for pods that leave no run.
        node_pools: Signals of node pools for the Market's status; None to keep those in it.
        namespace: Namespace of this operator for the Market's status; empty to keep the one in it.
        quotas: Quotas that Entitlements follow; None if the Market does not ask for that.
        led_until: Time until which an operator is known to have led (RFC 3339): that of this
            leader's last decision, or of the last renewal of the Lease before; empty if unknown.
        kept: Results of the last decision that this one may use again.
    """

    now: str
    objects: Objects = field(default_factory=Objects)
    markets: Sequence[Market] = ()
    broken: Mapping[Reference, Broken] = field(default_factory=dict)
    allocations: Mapping[str, NodeAllocation] = field(default_factory=dict)
    agents: frozenset[str] = frozenset()
    silent_agents: frozenset[str] = frozenset()
    carried: Carried | None = None
    version: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    ledger_parts: Mapping[str, str] = field(default_factory=dict)
    matching: bool = True
    unplaceable: str = ""
    account_dropped: bool = False
    ends: Mapping[str, Lifetime | None] = field(default_factory=dict)
    node_pools: NodePoolReports | None = None
    namespace: str = ""
    quotas: Quotas | None = None
    led_until: str = ""
    kept: Kept = field(default_factory=Kept, compare=False, repr=False)

    @property
    def market(self) -> Market | None:
        """The Market that is used; None if there is none that is valid."""
        return next((each for each in self.markets if each.metadata.name == MARKET_NAME), None)

    def live_pods(self) -> frozenset[str]:
        """Return the UIDs of all pods that have not ended; looks at every pod, so ask once."""
        return frozenset(pod.metadata.uid for pod in self.objects.pods if pod.alive)


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """A NodeAllocation to create or change.

    Attributes:
        node: Name of the NodeAllocation and of the Node that owns it.
        node_uid: UID of the Node.
        spec: Spec in the API's form, without ``epoch``, which the publisher adds.
    """

    node: str
    node_uid: str
    spec: Document


@dataclass(frozen=True, slots=True)
class ProfileWrite:
    """A SpeedupProfile to create, unless one of its name exists.

    Attributes:
        object: Reference to the profile.
        document: The whole object in the API's form.
    """

    object: Reference
    document: Document


@dataclass(frozen=True, slots=True)
class AutomaticWrite:
    """A MarketJob or an Entitlement of the operator's own to create, change or delete.

    Attributes:
        object: Reference to the object, with its UID if it exists.
        document: The object in the API's form; None to delete it.
    """

    object: Reference
    document: Document | None


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A status to replace.

    The publisher adds ``leader`` and ``epoch`` to a Market's status; they alone are no reason to
    write.

    Attributes:
        object: Object that has the status.
        status: The whole status in the API's form.
    """

    object: Reference
    status: Document


@dataclass(frozen=True, slots=True)
class Settlement:
    """Credits or debts that count once the Market's status with them is written.

    Attributes:
        market: The Market; its status is written before anything that depends on it.
        version: The resourceVersion that the decision was based on. If the Market has changed
            since, the whole decision is void.
        record: Record of the Karma quantum that is settled, for the log
            (`walras.mechanisms.karma.record.record_of`); None if none is.
        parts: Data of ConfigMaps to create before the status names them, by name.
        superseded: Names of ConfigMaps to delete afterwards.
    """

    market: Reference
    version: str
    record: Document | None
    parts: Mapping[str, str] = field(default_factory=dict)
    superseded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """A waiting pod to bind to a node, or to leave to the scheduler.

    Attributes:
        pod: Reference to the pod.
        way: How the pod waits: by a scheduling gate or for a scheduler.
        node: Node to bind it to; empty to leave it to the scheduler.
        body: Body of the request: a merge patch of the pod, or a Binding.
        after: The pod as it will be after the request.
    """

    pod: Reference
    way: WaitingMethod
    node: str
    body: Document
    after: Pod = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event to record.

    Attributes:
        object: Object that the Event is about.
        type: Type of the Event.
        reason: CamelCase word for programs.
        message: One sentence for people.
    """

    object: Reference
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Writes:
    """What to write to the API server, all of a decision or a part of it.

    Attributes:
        nodes: NodeAllocations to write, sorted by name.
        statuses: Statuses to write, sorted by object. Each belongs to an object in the world or to
            a profile in ``profiles``.
        events: Events to record, sorted by object.
        profiles: SpeedupProfiles to create.
        entitlements: Entitlements that follow quotas to create, change or delete.
        jobs: MarketJobs of labelled workloads to create, change or delete.
        settlement: Quantum that is settled; None if credits stay as they are.
        placements: Waiting pods to bind or to leave to the scheduler.
    """

    nodes: tuple[NodeWrite, ...] = ()
    statuses: tuple[StatusWrite, ...] = ()
    events: tuple[Event, ...] = ()
    profiles: tuple[ProfileWrite, ...] = ()
    entitlements: tuple[AutomaticWrite, ...] = ()
    jobs: tuple[AutomaticWrite, ...] = ()
    settlement: Settlement | None = None
    placements: tuple[Placement, ...] = ()

    def __bool__(self) -> bool:
        return any(
            (
                self.nodes,
                self.profiles,
                self.entitlements,
                self.jobs,
                self.statuses,
                self.events,
                self.placements,
            )
        )

    def __add__(self, other: Writes) -> Writes:
        return Writes(
            self.nodes + other.nodes,
            tuple(sorted(self.statuses + other.statuses, key=lambda each: each.object)),
            tuple(sorted(self.events + other.events, key=lambda each: each.object)),
            self.profiles + other.profiles,
            self.entitlements + other.entitlements,
            self.jobs + other.jobs,
            self.settlement or other.settlement,
            self.placements + other.placements,
        )


class NextWake(NamedTuple):
    """What leads to the next decision, apart from changes of objects.

    Attributes:
        quantum_ends: When memory is divided again (RFC 3339); empty if it is not divided.
        ended: Pods whose end must be looked up, or is known but in no status yet; None if that was
            not examined.
    """

    quantum_ends: str = ""
    ended: tuple[Reference, ...] | None = None


class ClearedMarket(NamedTuple):
    """A market that was cleared.

    Attributes:
        rules: Rules by which it was cleared.
        snapshot: Input of the market.
        plan: Outcome of the market.
        gains: What nodes brought that were added.
    """

    rules: MarketSpec
    snapshot: Snapshot
    plan: Plan
    gains: Sequence[NodeGain] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided. Its two parts write different objects; both must be written, in order.

    Attributes:
        carried: State for the next world.
        first: Writes that nodes wait for. Where a quantum is settled, they have the Market's status
            with the credits, too: if it cannot be written, nothing else may be, except that pods
            are left to the scheduler. A decision that settles a quantum and places pods therefore
            has an empty first part, and so has one by earlier rules of a Market that is invalid.
        rest: Computes all other writes, in particular the statuses of users' objects.
        wake: What leads to the next decision.
        market: The market; None if it could not be cleared.
        notes: A line about each problem that no status shows.
    """

    carried: Carried
    first: Writes
    rest: Callable[[], Writes]
    wake: NextWake = field(default_factory=NextWake)
    market: ClearedMarket | None = None
    notes: tuple[str, ...] = ()

    def writes(self) -> Writes:
        """Return everything to write."""
        return self.first + self.rest()
