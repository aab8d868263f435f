"""Facts: what is to be explained, found in the cluster, with all that it takes to explain it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from rich.text import Text

from walras_api.parse import ResourceError, parse_object
from walras_api.speedup_profile_status import SpeedupProfileStatus
from walras_cli.cluster.asking import facts_of
from walras_cli.cluster.connection import JOBS, PROFILES, require_namespace
from walras_cli.cluster.explain.render import render_job, render_node, render_user
from walras_cli.cluster.explain.render_pools import render_cluster
from walras_service.api_errors import ApiError
from walras_service.failures import BadInput, Failure
from walras_service.kinds import NODES, PODS
from walras_view.documents import plain
from walras_view.explain.bids import bids_of
from walras_view.explain.job import JobExplanation, explain_job
from walras_view.explain.node import NodeExplanation, explain_node
from walras_view.explain.pools import ClusterExplanation, explain_cluster
from walras_view.explain.user import UserExplanation, explain_user
from walras_view.facts import RIGHT_TO_ENTITLEMENTS, ApiObject, Facts
from walras_view.notes import (
    RIGHT_TO_MARKET,
    TO_CREATE_A_MARKET,
    remarks_of,
    waiting_for_quota,
    warnings_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from walras_api.cluster import Pod
    from walras_api.market_job_status import MarketJobStatus
    from walras_cli.cluster.connection import Cluster

Explanation = JobExplanation | UserExplanation | NodeExplanation | ClusterExplanation

RIGHT_TO_JOBS = f"list {JOBS.resource}"
RIGHT_TO_NODES = f"list {NODES.resource}"
RIGHT_TO_PODS = f"list {PODS.resource}"


@dataclass(frozen=True, slots=True)
class ExplainPage:
    """An explanation, what makes it doubtful, and what is left out."""

    kind: str
    explanation: Explanation
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "kind": self.kind,
            **plain(self.explanation),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }

    def render(self, *, wide: bool) -> list[RenderableType]:
        """Return it for people."""
        parts: list[RenderableType] = [Text(line, style="bold red") for line in self.warnings]
        if isinstance(self.explanation, JobExplanation):
            parts += render_job(self.explanation, wide=wide)
        elif isinstance(self.explanation, UserExplanation):
            parts += render_user(self.explanation, wide=wide)
        elif isinstance(self.explanation, ClusterExplanation):
            parts += render_cluster(self.explanation, wide=wide)
        else:
            parts += render_node(self.explanation, wide=wide)
        return [*parts, *(Text(f"note: {line}", style="dim") for line in self.notes)]


def page_of(cluster: Cluster, kind: Literal["job", "user", "node"], name: str) -> ExplainPage:
    """Explain an object of a cluster.

    Raises:
        BadInput: there is no such object.
        Failure: nothing may be seen.
        ApiError: the cluster cannot be asked.
    """
    if kind == "job":
        return _job(cluster, name)
    return _user(cluster, name) if kind == "user" else _node(cluster, name)


def _job(cluster: Cluster, name: str) -> ExplainPage:
    facts = facts_of(cluster, ("entitlements", "jobs", "allocations", "market", "leases"))
    namespace, _, name = name.rpartition("/")
    namespace = namespace or cluster.namespace
    job = facts.jobs.get((namespace, name))
    if job is None:
        if facts.namespace not in ("", namespace):  # the only one whose jobs are visible
            _require(cluster, facts, f"MarketJob {namespace}/{name}", RIGHT_TO_JOBS)
        require_namespace(cluster, namespace)
        titles = [each.title for each in facts.jobs.values()]
        near = [each for each in titles if each.endswith(f"/{name}")]
        raise not_found(
            f"MarketJob {namespace}/{name}", f"{namespace}/{name}", titles, near, "jobs -A"
        )
    program, notes = _program(cluster, job)
    return _page("MarketJob", explain_job(facts, job, program), facts, notes)


def _program(
    cluster: Cluster, job: ApiObject[MarketJobStatus]
) -> tuple[ApiObject[SpeedupProfileStatus] | None, tuple[str, ...]]:
    """Return the SpeedupProfile of a job's program, if there is one, and what is not shown."""
    spec = job.spec
    name = str(spec.get("profile") or spec.get("program") or job.name)
    try:
        profile = cluster.get(PROFILES.path(job.namespace, quote(name, safe="")))
    except ApiError as error:
        if error.reason == "missing":
            return None, ()
        if error.reason != "forbidden":
            raise
        right = f"get {PROFILES.resource} in namespace {job.namespace}"
        return None, (f"penalties are not shown, since you have no right to {right}",)
    return ApiObject.read(profile, SpeedupProfileStatus), ()


def _user(cluster: Cluster, name: str) -> ExplainPage:
    facts = facts_of(
        cluster,
        ("entitlements", "jobs", "allocations", "market", "leases", "use"),
        entitlement=name,
    )
    if name not in facts.entitlements:
        _require(cluster, facts, f"Entitlement {name}", RIGHT_TO_ENTITLEMENTS)
        raise not_found(f"Entitlement {name}", name, facts.entitlements, (), "users")
    explanation = replace(explain_user(facts, name), bids=bids_of(facts, name))
    waiting = waiting_for_quota(facts.entitlements[name].status)
    return _page("Entitlement", explanation, facts, waiting)


def _node(cluster: Cluster, name: str) -> ExplainPage:
    facts = facts_of(cluster, ("nodes", "jobs", "allocations", "market", "leases", "use"))
    nodes = facts.nodes.keys() | facts.allocations.keys()
    if name not in nodes:
        _require(cluster, facts, f"Node {name}", RIGHT_TO_NODES)
        raise not_found(f"Node {name}", name, nodes, (), "nodes")
    pods = pods_of(cluster, name)
    notes = () if pods is not None else (f"not shown, since you have no right to {RIGHT_TO_PODS}",)
    return _page("Node", explain_node(facts, name, pods), facts, notes)


def cluster_page_of(cluster: Cluster) -> ExplainPage:
    """Explain a whole cluster by its node pools.

    Raises:
        BadInput: there is no Market.
        Failure: the Market may not be seen.
        ApiError: the cluster cannot be asked.
    """
    facts = facts_of(cluster, ("market", "leases"))
    if facts.market is None:
        _require(cluster, facts, "the Market", RIGHT_TO_MARKET)
        raise BadInput(
            "there is no Market named default, so there is nothing to explain; "
            f"{TO_CREATE_A_MARKET}"
        )
    waiting = waiting_for_quota(facts.market.status)
    return _page("Cluster", explain_cluster(facts, facts.market), facts, waiting)


def _page(
    kind: str, explanation: Explanation, facts: Facts, notes: tuple[str, ...] = ()
) -> ExplainPage:
    return ExplainPage(kind, explanation, warnings_of(facts), (*remarks_of(facts), *notes))


def pods_of(cluster: Cluster, node: str) -> list[Pod] | None:
    """Return the pods of a node; None if they may not be seen."""
    pods: list[Any] = []
    try:
        for document in cluster.every(PODS, fieldSelector=f"spec.nodeName={node}"):
            try:
                pods.append(parse_object(document))
            except ResourceError:
                continue  # the operator leaves it out too
    except ApiError as error:
        if error.reason != "forbidden":
            raise
        return None
    return pods


def _require(cluster: Cluster, facts: Facts, name: str, right: str) -> None:
    """Refuse to explain what nobody can see, rather than to say that it does not exist."""
    if right in facts.withheld:
        raise not_visible(cluster.host, name, right)


def not_visible(host: str, name: str, right: str) -> Failure:
    """Return the error for an object that may exist, for all that one may see."""
    return Failure(
        f"{host}: {name} is not visible, since you have no right to {right}; ask an "
        f"administrator of the cluster for a role with this right"
    )


def not_found(
    what: str, asked: str, names: Iterable[str], near: Iterable[str], table: str
) -> BadInput:
    """Return the error for an object that does not exist, with names that are similar."""
    close = [*near, *get_close_matches(asked, list(names), n=3)]
    hint = f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else ""
    return BadInput(f"{what} does not exist; {hint or f'`walras top {table}` lists those that do'}")
