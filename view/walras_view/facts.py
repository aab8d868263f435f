"""What a viewer knows of a cluster: its objects with their statuses, its Leases, and what is used.

These are values; who asks a cluster for them is elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from walras_api.contract import SYSTEM_NAMESPACE
from walras_api.parse import ResourceError, parse_object
from walras_api.status import Status
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Self

    from walras_api.cluster import NodeObject
    from walras_api.entitlement import EntitlementStatus
    from walras_api.market_job_status import MarketJobStatus
    from walras_api.market_status import MarketStatus
    from walras_api.node_allocation_status import NodeAllocationStatus
    from walras_api.status import Condition

Document = dict[str, Any]

SLACK = timedelta(seconds=5)
"""Time after its expiry for which a Lease counts, because clocks and requests differ."""

MOST_AHEAD = timedelta(hours=1)
"""Most by which the clock that renewed a Lease may be ahead; beyond it, the time says nothing."""


def operator_namespace(market: MarketStatus) -> str:
    """Return the namespace of the operator and its agents, as the Market's status names it.

    Nothing in other namespaces is the operator's, whatever it is called: their users can create
    it. The usual namespace counts before the first decision, and for operators that name none.
    """
    return market.operator_namespace or SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True)
class Leases:
    """Leases of the operator and of agents, which show whether they are alive.

    Attributes:
        known: Whether Leases may be seen.
        operator: Time when the operator's Lease was renewed last; None if it never was.
        operator_alive: Whether the operator's Lease has not expired.
        agents: Whether the Lease of the node's agent has not expired, by node; without nodes whose
            agent never had one.
        missing: Reason why they are unknown, unless a right is missing.
    """

    known: bool = False
    operator: datetime | None = None
    operator_alive: bool = False
    agents: Mapping[str, bool] = field(default_factory=dict)
    missing: str = ""

    @classmethod
    def of(
        cls, agents: Collection[Document], operators: Collection[Document], now: datetime
    ) -> Self:
        """Take Leases of agents and operators as the API server gives them at a time."""
        renewed = [when for each in operators if (when := _renewed(each)) is not None]
        return cls(
            known=True,
            operator=max(renewed, default=None),
            operator_alive=any(_alive(each, now) for each in operators),
            agents={
                str(holder): _alive(each, now)
                for each in agents
                if (holder := (each.get("spec") or {}).get("holderIdentity"))
            },
        )


def _alive(lease: Document, now: datetime) -> bool:
    renewed = _renewed(lease)
    spec = lease.get("spec") or {}
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return (
        renewed is not None
        and bool(spec.get("holderIdentity"))
        and -MOST_AHEAD <= now - renewed < lasts + SLACK
    )


def _renewed(lease: Document) -> datetime | None:
    text = (lease.get("spec") or {}).get("renewTime")
    try:
        time = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


class Used(NamedTuple):
    """CPUs and memory that a pod or node uses.

    Attributes:
        cpus: Hardware threads in use, averaged over the window of the metrics source.
        memory: Memory in use, in bytes.
    """

    cpus: float
    memory: int


@dataclass(frozen=True, slots=True)
class Use:
    """CPUs and memory in use, by pod and by node.

    Attributes:
        pods: Use by namespace and name; None if unknown.
        nodes: Use by name of the node; None if unknown.
        missing: Reason why some use is unknown, and the remedy; empty if all is known.
        source: What measured it, in words; empty if nobody did.
    """

    pods: Mapping[tuple[str, str], Used] | None = None
    nodes: Mapping[str, Used] | None = None
    missing: tuple[str, ...] = field(default=())
    source: str = ""


NOT_ASKED = Use()


S = TypeVar("S", bound=Status)
RIGHT_TO_ENTITLEMENTS = f"list {OURS['Entitlement'].resource}"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ApiObject(Generic[S]):
    """An object of Walras, as far as people are shown it.

    Attributes:
        name: Name of the object.
        namespace: Namespace of the object; empty for cluster-scoped kinds.
        generation: Generation of its spec.
        spec: Spec from the API server, valid or not.
        status: Status as last written; empty if there is none, or it is malformed.
        readable: Whether its status has a form that this version of Walras can read.
    """

    name: str
    namespace: str
    generation: int
    spec: Mapping[str, Any]
    status: S
    readable: bool = True

    @classmethod
    def read(cls, document: Document, model: type[S]) -> ApiObject[S]:
        """Take an object as the API server gives it."""
        metadata = document["metadata"]
        try:
            status, readable = model.read(document.get("status") or {}), True
        except ValidationError:
            status, readable = model(), False
        return cls(
            metadata["name"],
            metadata.get("namespace", ""),
            metadata.get("generation", 0),
            document.get("spec") or {},
            status,
            readable,
        )

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def ready(self) -> Condition | None:
        """Condition that summarizes the object's state; None if it has none."""
        conditions: Iterable[Condition] = getattr(self.status, "conditions", ())
        return next((each for each in conditions if each.type == "Ready"), None)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a cluster at one moment; empty where not requested or not allowed.

    Attributes:
        now: Time of the API server when it answered last.
        namespace: Namespace of the jobs; empty for all.
        entitlements: Entitlements by name.
        jobs: MarketJobs by namespace and name.
        allocations: NodeAllocations by node.
        market: The Market that is used; None if there is none.
        nodes: Nodes by name.
        leases: Leases of the operator and the agents.
        use: CPUs and memory that pods and nodes use.
        withheld: Requests that are forbidden, such as ``list nodes``.
        notes: Lines for people about where facts come from.
    """

    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    namespace: str = ""
    entitlements: Mapping[str, ApiObject[EntitlementStatus]] = field(default_factory=dict)
    jobs: Mapping[tuple[str, str], ApiObject[MarketJobStatus]] = field(default_factory=dict)
    allocations: Mapping[str, ApiObject[NodeAllocationStatus]] = field(default_factory=dict)
    market: ApiObject[MarketStatus] | None = None
    nodes: Mapping[str, NodeObject] = field(default_factory=dict)
    leases: Leases = field(default_factory=Leases)
    use: Use = NOT_ASKED
    withheld: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def all_entitlements(self) -> bool:
        """Whether all Entitlements are visible, not only those of one's own jobs."""
        return RIGHT_TO_ENTITLEMENTS not in self.withheld


def node_of(document: Document) -> NodeObject | None:
    """Read a node; one that cannot be understood is as good as absent, to the operator too."""
    try:
        parsed: Any = parse_object(document)
    except ResourceError:
        return None
    node: NodeObject = parsed
    return node
