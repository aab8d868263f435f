"""Facts: what a cluster's objects and their statuses say, all kinds asked for at the same time.

What one may not see is left out, and told of in a line, so that a user with few rights still gets
whatever these allow.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from walras_api.contract import AGENT_LEASES, MARKET_NAME, OPERATOR, SYSTEM_NAMESPACE
from walras_api.entitlement import EntitlementStatus
from walras_api.market import MarketStatus
from walras_api.market_job import MarketJobStatus
from walras_api.node_allocation import NodeAllocationStatus
from walras_api.parse import ResourceError, parse_object
from walras_api.status import Status
from walras_cli.cluster.connection import (
    CONNECTIONS,
    ENTITLEMENTS,
    JOBS,
    MARKETS,
    NODE_ALLOCATIONS,
)
from walras_cli.cluster.use import NOT_ASKED, Use, use_of
from walras_service.api_errors import ApiError
from walras_service.failures import Failure
from walras_service.kinds import LEASES, NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from concurrent.futures import Future

    from walras_api.cluster import NodeObject
    from walras_api.status import Condition
    from walras_cli.cluster.connection import Cluster, Document
    from walras_service.kinds import Kind

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
    """

    known: bool = False
    operator: datetime | None = None
    operator_alive: bool = False
    agents: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster, market: MarketStatus) -> Leases:
        """Ask a cluster for the Leases in the operator's namespace.

        Args:
            cluster: Connection to the cluster.
            market: Status of the Market that is used, which names the namespace.

        Raises:
            ApiError: they cannot be listed.
        """
        where = operator_namespace(market)
        agents = list(cluster.every(LEASES, where, labelSelector=AGENT_LEASES))
        operators = list(cluster.every(LEASES, where, fieldSelector=f"metadata.name={OPERATOR}"))
        named = market.operator_namespace is not None or market.epoch is None
        if not (named or agents or operators):
            return cls()  # an operator that names no namespace has decided in another one
        now = cluster.now
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
        found = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


S = TypeVar("S", bound=Status)
T = TypeVar("T")

Wanted = Literal["entitlements", "jobs", "allocations", "market", "nodes", "leases", "use"]

RIGHT_TO_ENTITLEMENTS = f"list {ENTITLEMENTS.resource}"

_MAIN: tuple[Wanted, ...] = ("entitlements", "jobs", "allocations", "nodes")
"""Without any of these there is nothing to show."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ApiObject(Generic[S]):
    """An object of Walras, as far as people are told of it.

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

    @property
    def all_entitlements(self) -> bool:
        """Whether all Entitlements are visible, not only those of one's own jobs."""
        return RIGHT_TO_ENTITLEMENTS not in self.withheld


def facts_of(
    cluster: Cluster,
    wanted: Collection[Wanted],
    namespace: str = "",
    selectors: Mapping[Wanted, str] | None = None,
    entitlement: str = "",
) -> Facts:
    """Ask a cluster.

    Args:
        cluster: Connection to the cluster.
        wanted: Facts to request; with ``leases``, also the ``market``, which names their namespace.
        namespace: Namespace of jobs; empty for all.
        selectors: Label selectors by fact.
        entitlement: Name of an Entitlement to request even if they cannot be listed.

    Raises:
        Failure: nothing of what is wanted can be had.
        ApiError: the API server cannot be asked, or does not know Walras's kinds.
    """
    asking = _Asking(cluster, namespace, selectors or {}, entitlement)
    answers: dict[Wanted, Future[Any]] = {}
    questions: dict[Wanted, Callable[[], Any]] = {
        "entitlements": asking.entitlements,
        "jobs": asking.jobs,
        "allocations": asking.allocations,
        "market": asking.market,
        "nodes": asking.nodes,
        "leases": lambda: asking.leases(answers["market"].result()),
        "use": asking.use,
    }
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for each, question in questions.items():
            if each in wanted or (each == "market" and "leases" in wanted):
                answers[each] = pool.submit(question)
    found = {name: answer.result() for name, answer in answers.items()}
    main = [found[each] for each in _MAIN if each in found]
    if main and all(each is None for each in main):
        raise Failure(
            f"{cluster.host}: you have no right to {', '.join(asking.withheld)}; ask an "
            f"administrator of the cluster for a role with these rights"
        )
    known = {name: answer for name, answer in found.items() if answer is not None}
    return Facts(cluster.now, asking.namespace, withheld=tuple(sorted(asking.withheld)), **known)


class _Asking:
    """The questions that can be asked; each answers None if one has no right to know."""

    def __init__(
        self, cluster: Cluster, namespace: str, selectors: Mapping[Wanted, str], entitlement: str
    ) -> None:
        self.withheld: list[str] = []
        self.namespace = namespace
        self._cluster, self._selectors, self._entitlement = cluster, selectors, entitlement

    def entitlements(self) -> dict[str, ApiObject[EntitlementStatus]] | None:
        found = self._list(ENTITLEMENTS, self._selectors.get("entitlements", ""))
        if found is None:
            found = self._own_entitlements()
        if found is None:
            return None
        read = (ApiObject.read(each, EntitlementStatus) for each in found)
        return {each.name: each for each in read}

    def _own_entitlements(self) -> list[Document] | None:
        """Get one by one the Entitlements that the user's own jobs name, as far as allowed.

        A role for one user names that user's Entitlement (``resourceNames``), and such a role does
        not allow lists.
        """
        names = {self._entitlement} - {""}
        with suppress(ApiError):  # whatever prevents this is reported with the jobs themselves
            jobs = self._cluster.every(JOBS, self.namespace or self._cluster.namespace)
            names.update(str((job.get("spec") or {}).get("entitlement", "")) for job in jobs)
        found = []
        for name in sorted(names - {""}):
            with suppress(ApiError):  # forbidden or deleted: not this user's to see
                found.append(self._cluster.get(ENTITLEMENTS.path(name=quote(name, safe=""))))
        return found or None

    def jobs(self) -> dict[tuple[str, str], ApiObject[MarketJobStatus]] | None:
        labels = self._selectors.get("jobs", "")
        found = self._list(JOBS, labels, self.namespace)
        if found is None and not self.namespace:
            # Most users may list their own namespace only, which is what they want to see.
            self.namespace = self._cluster.namespace
            found = self._list(JOBS, labels, self.namespace)
        if found is None:
            return None
        read = (ApiObject.read(each, MarketJobStatus) for each in found)
        return {(each.namespace, each.name): each for each in read}

    def allocations(self) -> dict[str, ApiObject[NodeAllocationStatus]] | None:
        found = self._list(NODE_ALLOCATIONS)
        if found is None:
            return None
        read = (ApiObject.read(each, NodeAllocationStatus) for each in found)
        return {each.name: each for each in read}

    def nodes(self) -> dict[str, NodeObject] | None:
        found = self._list(NODES, self._selectors.get("nodes", ""))
        if found is None:
            return None
        read = filter(None, map(node_of, found))
        return {each.metadata.name: each for each in read}

    def market(self) -> ApiObject[MarketStatus] | None:
        def ask() -> ApiObject[MarketStatus]:
            return ApiObject.read(self._cluster.get(MARKETS.path(name=MARKET_NAME)), MarketStatus)

        try:
            return self._allowed(ask, f"get {MARKETS.resource}")
        except ApiError as error:
            if error.reason != "missing":
                raise
            return None

    def leases(self, market: ApiObject[MarketStatus] | None) -> Leases | None:
        status = MarketStatus() if market is None else market.status
        return self._allowed(
            lambda: Leases.of(self._cluster, status),
            f"list {LEASES.resource} in namespace {operator_namespace(status)}",
        )

    def use(self) -> Use | None:
        return use_of(self._cluster, self.namespace)

    def _list(self, kind: Kind, labels: str = "", namespace: str = "") -> list[Document] | None:
        where = f" in namespace {namespace}" if namespace else ""
        return self._allowed(
            lambda: list(self._cluster.every(kind, namespace, labelSelector=labels)),
            f"list {kind.resource}{where}",
        )

    def _allowed(self, ask: Callable[[], T], right: str) -> T | None:
        try:
            return ask()
        except ApiError as error:
            if error.reason != "forbidden":
                raise
            self.withheld.append(right)
            return None


def node_of(document: Document) -> NodeObject | None:
    """Read a node; one that cannot be understood is as good as absent, to the operator too."""
    try:
        found: Any = parse_object(document)
    except ResourceError:
        return None
    node: NodeObject = found
    return node
