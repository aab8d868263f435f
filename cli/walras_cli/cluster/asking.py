"""Facts: asks a cluster for its objects and their statuses, all kinds at the same time.

What one may not see is left out, and told of in a line, so that a user with few rights still gets
whatever these allow.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote

from walras_api.contract import AGENT_LEASES, MARKET_NAME, OPERATOR
from walras_api.entitlement import EntitlementStatus
from walras_api.market_job_status import MarketJobStatus
from walras_api.market_status import MarketStatus
from walras_api.node_allocation_status import NodeAllocationStatus
from walras_cli.cluster.connection import CONNECTIONS, ENTITLEMENTS, JOBS, MARKETS, NODE_ALLOCATIONS
from walras_cli.cluster.use import use_of
from walras_service.api_errors import ApiError
from walras_service.failures import Failure
from walras_service.kinds import LEASES, NODES
from walras_view.facts import ApiObject, Facts, Leases, node_of, operator_namespace
from walras_view.text import missing_rights

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from concurrent.futures import Future

    from walras_api.cluster import NodeObject
    from walras_cli.cluster.connection import Cluster, Document
    from walras_service.kinds import Kind
    from walras_view.facts import Use

T = TypeVar("T")

Wanted = Literal["entitlements", "jobs", "allocations", "market", "nodes", "leases", "use"]

_MAIN: tuple[Wanted, ...] = ("entitlements", "jobs", "allocations", "nodes")
"""Without any of these there is nothing to show."""


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
    results = {name: answer.result() for name, answer in answers.items()}
    main = [results[each] for each in _MAIN if each in results]
    if main and all(each is None for each in main):
        raise Failure(f"{cluster.host}: {missing_rights(asking.withheld)}")
    facts = {name: answer for name, answer in results.items() if answer is not None}
    withheld = tuple(sorted(asking.withheld))
    return Facts(cluster.now, asking.namespace, withheld=withheld, notes=cluster.notes, **facts)


class _Asking:
    """The questions that can be asked; each answers None if one has no right to know."""

    def __init__(
        self, cluster: Cluster, namespace: str, selectors: Mapping[Wanted, str], entitlement: str
    ) -> None:
        self.withheld: list[str] = []
        self.namespace = namespace
        self._cluster, self._selectors, self._entitlement = cluster, selectors, entitlement

    def entitlements(self) -> dict[str, ApiObject[EntitlementStatus]] | None:
        documents = self._list(ENTITLEMENTS, self._selectors.get("entitlements", ""))
        if documents is None:
            documents = self._own_entitlements()
        if documents is None:
            return None
        read = (ApiObject.read(each, EntitlementStatus) for each in documents)
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
        documents = []
        for name in sorted(names - {""}):
            with suppress(ApiError):  # forbidden or deleted: not this user's to see
                documents.append(self._cluster.get(ENTITLEMENTS.path(name=quote(name, safe=""))))
        return documents or None

    def jobs(self) -> dict[tuple[str, str], ApiObject[MarketJobStatus]] | None:
        labels = self._selectors.get("jobs", "")
        documents = self._list(JOBS, labels, self.namespace)
        if documents is None and not self.namespace:
            # Most users may list their own namespace only, which is what they want to see.
            self.namespace = self._cluster.namespace
            documents = self._list(JOBS, labels, self.namespace)
        if documents is None:
            return None
        read = (ApiObject.read(each, MarketJobStatus) for each in documents)
        return {(each.namespace, each.name): each for each in read}

    def allocations(self) -> dict[str, ApiObject[NodeAllocationStatus]] | None:
        documents = self._list(NODE_ALLOCATIONS)
        if documents is None:
            return None
        read = (ApiObject.read(each, NodeAllocationStatus) for each in documents)
        return {each.name: each for each in read}

    def nodes(self) -> dict[str, NodeObject] | None:
        documents = self._list(NODES, self._selectors.get("nodes", ""))
        if documents is None:
            return None
        read = filter(None, map(node_of, documents))
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
        try:
            return self._allowed(
                lambda: leases_of(self._cluster, status),
                f"list {LEASES.resource} in namespace {operator_namespace(status)}",
            )
        except ApiError as error:
            if error.reason != "missing":
                raise
            return Leases(missing=f"whether operator and agents run is unknown: {error}")

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


def leases_of(cluster: Cluster, market: MarketStatus) -> Leases:
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
        return Leases()  # an operator that names no namespace has decided in another one
    return Leases.of(agents, operators, cluster.now)
