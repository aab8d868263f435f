"""``walras check``: what in a cluster works against the market, and what to do about it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import click

from walras_cli.cluster.options import (
    all_namespaces_option,
    cluster_options,
    dump_option,
    form_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walras_cli.cluster.connection import Cluster, Document
    from walras_cli.cluster.options import Target
    from walras_cli.output import Form
    from walras_service.kinds import Kind

ERRORS_FOUND = 3
"""Exit code if something keeps the market from working."""

AGENTS = "app.kubernetes.io/part-of=walras,app.kubernetes.io/component=agent"
ENFORCE = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that works against the market.

    Attributes:
        level: ``error`` if a part of Walras cannot work, else ``warning``.
        object: Kind and name of the object to change.
        message: Description of the problem, and how to correct it.
    """

    level: Literal["error", "warning"]
    object: str
    message: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Objects of a cluster, as the API server gives them; empty where they may not be seen.

    Attributes:
        jobs: MarketJobs.
        entitlements: Entitlements.
        allocations: NodeAllocations.
        markets: Markets.
        namespaces: Namespaces.
        pods: Pods of the namespaces that are looked at.
        agents: DaemonSets with the labels of Walras's agent; those in other namespaces than the
            operator's do not count.
        autoscalers: HorizontalPodAutoscalers.
        recommenders: VerticalPodAutoscalers.
        withheld: Rights that are missing, such as ``list nodes``.
    """

    jobs: Sequence[Document] = ()
    entitlements: Sequence[Document] = ()
    allocations: Sequence[Document] = ()
    markets: Sequence[Document] = ()
    namespaces: Sequence[Document] = ()
    pods: Sequence[Document] = ()
    agents: Sequence[Document] = ()
    autoscalers: Sequence[Document] = ()
    recommenders: Sequence[Document] = ()
    withheld: Sequence[str] = field(default=())


@click.command("check", short_help="Find what works against the market, such as autoscalers.")
@cluster_options
@dump_option
@all_namespaces_option
@form_option
def check(*, target: Target, form: Form) -> None:
    """Find objects in the cluster that work against the market, and say what to do about each.

    Finds a Pod Security level that admits no agents, nodes whose agent cannot enforce grants,
    namespaces that name an Entitlement which does not admit them, autoscalers of workloads in the
    market that act on what the market changes, and pods that hold less than they request. The
    command checks all nodes and agents, and the other objects of one namespace or, with -A, of all.

    \b
    Examples:
      walras check -A
      walras check -n vision -o json

    Exit codes: 0 no errors (there may be warnings), 1 the cluster cannot be read, 2 invalid input,
    3 errors found.
    """  # noqa: D301 - the backspace keeps click from filling the lines
    from walras_cli.cluster.connection import connected
    from walras_cli.cluster.dumped import cluster_of
    from walras_cli.output import show

    with connected(target, cluster_of) as cluster:
        seen = seen_of(cluster, "" if target.everywhere else cluster.namespace)
    problems = tuple(findings(seen))
    show(CheckPage(problems, tuple(seen.withheld)), form)
    if any(each.level == "error" for each in problems):
        raise SystemExit(ERRORS_FOUND)


@dataclass(frozen=True, slots=True)
class CheckPage:
    """The output of ``walras check``."""

    findings: tuple[Finding, ...]
    withheld: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return it for scripts."""
        from walras_view.documents import plain

        return {
            "findings": [plain(each) for each in self.findings],
            "withheld": list(self.withheld),
        }

    def render(self, *, wide: bool) -> list[Any]:  # noqa: ARG002 - nothing is left out
        """Return it for people, part by part."""
        from rich.text import Text

        lines = [f"{each.level}: {each.object}: {each.message}" for each in self.findings]
        if not lines:
            lines.append("found nothing that works against the market")
        if self.withheld:
            lines.append(
                f"not checked, since you have no right to {', '.join(self.withheld)}; ask an "
                f"administrator of the cluster for a role with these rights"
            )
        return [Text(each) for each in lines]


def seen_of(cluster: Cluster, namespace: str) -> Seen:
    """Ask a cluster for all that is checked.

    Args:
        cluster: Connection to the cluster.
        namespace: Namespace to look at; empty for all.

    Raises:
        ApiError: The API server cannot be asked, or does not know Walras's kinds.
    """
    from walras_api.contract import GROUP
    from walras_cli.cluster.connection import ENTITLEMENTS, JOBS, MARKETS, NODE_ALLOCATIONS
    from walras_service.api_errors import ApiError
    from walras_service.kinds import NAMESPACES, PODS, Kind

    withheld: list[str] = []

    def every(kinds: Sequence[Kind], where: str = "", labels: str = "") -> list[Document]:
        """Return all objects of the first kind that the cluster has."""
        for kind in kinds:
            try:
                return list(cluster.every(kind, where, labelSelector=labels))
            except ApiError as error:
                if error.reason == "forbidden":
                    withheld.append(f"list {kind.resource}")
                    return []
                if error.reason not in {"missing", "unsupported"} or kind.group == GROUP:
                    raise
        return []

    scaling = [
        Kind("autoscaling", each, "horizontalpodautoscalers", namespaced=True)
        for each in ("v2", "v2beta2")
    ]
    vertical = [Kind("autoscaling.k8s.io", "v1", "verticalpodautoscalers", namespaced=True)]
    daemons = [Kind("apps", "v1", "daemonsets", namespaced=True)]
    with ThreadPoolExecutor() as pool:
        asked = {
            "jobs": pool.submit(every, [JOBS], namespace),
            "entitlements": pool.submit(every, [ENTITLEMENTS]),
            "allocations": pool.submit(every, [NODE_ALLOCATIONS]),
            "markets": pool.submit(every, [MARKETS]),
            "namespaces": pool.submit(every, [NAMESPACES]),
            "pods": pool.submit(every, [PODS], namespace),
            "agents": pool.submit(every, daemons, "", AGENTS),
            "autoscalers": pool.submit(every, scaling, namespace),
            "recommenders": pool.submit(every, vertical, namespace),
        }
        objects = {name: answer.result() for name, answer in asked.items()}
    if namespace:
        objects["namespaces"] = [
            each
            for each in objects["namespaces"]
            if each["metadata"]["name"] in {namespace, _operator_namespace(objects["markets"])}
        ]
    return Seen(**objects, withheld=sorted(withheld))


def findings(seen: Seen) -> Iterator[Finding]:
    """Yield all that works against the market, errors first (pure)."""
    problems = [
        finding
        for check_of in (_agents, _nodes, _namespaces, _autoscalers, _recommenders, _requests)
        for finding in check_of(seen)
    ]
    yield from sorted(problems, key=lambda each: (each.level, each.object, each.message))


def _agents(seen: Seen) -> Iterator[Finding]:
    """Yield namespaces in which Pod Security admits no agent, and DaemonSets without pods."""
    labels = {
        each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in seen.namespaces
    }
    namespace = _operator_namespace(seen.markets)
    for each in seen.agents:
        if _namespace(each) != namespace:
            continue  # somebody else's, who may label it like an agent
        level = labels.get(namespace, {}).get(ENFORCE, "privileged")
        if level != "privileged":
            yield Finding(
                "error",
                f"Namespace {namespace}",
                f"enforces the Pod Security level {level}, so no agent can start; label it: "
                f"kubectl label namespace {namespace} {ENFORCE}=privileged --overwrite",
            )
        status = each.get("status") or {}
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        if ready < wanted:
            yield Finding(
                "warning",
                f"DaemonSet {namespace}/{each['metadata']['name']}",
                f"{ready} of {wanted} agents are ready; see kubectl describe pods "
                f"-n {namespace} -l {AGENTS}",
            )


def _operator_namespace(markets: Sequence[Document]) -> str:
    from walras_api.contract import MARKET_NAME
    from walras_api.market_status import MarketStatus
    from walras_view.facts import ApiObject, operator_namespace

    used = (each for each in markets if each["metadata"]["name"] == MARKET_NAME)
    statuses = (ApiObject.read(each, MarketStatus).status for each in used)
    return operator_namespace(next(statuses, MarketStatus()))


def _nodes(seen: Seen) -> Iterator[Finding]:
    """Yield nodes whose agent says that it cannot enforce grants."""
    for each in seen.allocations:
        for condition in _conditions(each):
            if condition.get("type") == "Ready" and condition.get("reason") in {
                "Failed",
                "Refused",
            }:
                name = each["metadata"]["name"]
                yield Finding("error", f"NodeAllocation {name}", str(condition.get("message")))


def _namespaces(seen: Seen) -> Iterator[Finding]:
    """Yield namespaces whose entitlement does not exist or does not admit them."""
    from walras.market.admission import AccessPolicy
    from walras_api.assembly import entitlement_of
    from walras_api.contract import ENTITLEMENT_LABEL

    access = AccessPolicy(map(entitlement_of, _entitlements(seen)))
    for each in seen.namespaces if "list entitlements.walras.dev" not in seen.withheld else ():
        labels = each["metadata"].get("labels") or {}
        named, name = labels.get(ENTITLEMENT_LABEL), each["metadata"]["name"]
        why = access.denial(named, name, labels) if named else None
        if why is not None:
            yield Finding("warning", f"Namespace {name}", f"label {ENTITLEMENT_LABEL}: {why}")


def _entitlements(seen: Seen) -> Iterator[Any]:
    from walras_api.parse import ResourceError, parse_object

    for each in seen.entitlements:
        try:
            yield parse_object(each)
        except ResourceError:  # its conditions say so
            continue


def _autoscalers(seen: Seen) -> Iterator[Finding]:
    """Yield HorizontalPodAutoscalers that scale on CPU of pods that hold more than they request."""
    workloads = _workloads(seen)
    for each in seen.autoscalers:
        spec = each.get("spec") or {}
        job = workloads.get((_namespace(each), *_target(spec.get("scaleTargetRef"))))
        if job is None or not any(map(_is_cpu_utilization, spec.get("metrics") or ())):
            continue
        more = [held / asked for asked, held in _pods(seen, job) if asked and held > asked]
        if more:
            yield Finding(
                "warning",
                f"HorizontalPodAutoscaler {_title(each)}",
                f"scales on CPU relative to requests, and a pod of MarketJob {_title(job)} holds "
                f"{max(more):.3g} times its request: it will add pods; scale on another metric, "
                f"or on averageValue",
            )


def _recommenders(seen: Seen) -> Iterator[Finding]:
    """Yield VerticalPodAutoscalers that evict pods because of what a grant lets them use."""
    workloads = _workloads(seen)
    for each in seen.recommenders:
        spec = each.get("spec") or {}
        job = workloads.get((_namespace(each), *_target(spec.get("targetRef"))))
        mode = (spec.get("updatePolicy") or {}).get("updateMode", "Auto")
        if job is not None and mode not in {"Off", "Initial"}:
            yield Finding(
                "warning",
                f"VerticalPodAutoscaler {_title(each)}",
                f"in mode {mode}, it restarts pods of MarketJob {_title(job)} whenever their use "
                f"of cores changes, which follows the market; set updateMode to Initial or Off",
            )


def _requests(seen: Seen) -> Iterator[Finding]:
    """Yield MarketJobs whose pods request more CPUs than they hold."""
    for job in seen.jobs:
        short = [(asked, held) for asked, held in _pods(seen, job) if held < asked]
        if short:
            asked, held = max(short)
            yield Finding(
                "warning",
                f"MarketJob {_title(job)}",
                f"{len(short)} of its pods hold less than they request (a pod that requests "
                f"{asked:.3g} CPUs holds {held:.3g}): a grant replaces the request; set "
                f"spec.cores.floor of the Market to Requests, or take the pods out of the market",
            )


def _pods(seen: Seen, job: Document) -> Iterator[tuple[float, float]]:
    """Yield the CPUs that each granted pod of a job requests and holds, by Kubernetes' count."""
    from walras_api.parse import ResourceError, parse_object

    cpus_of_core = _cpus_of_core(seen)
    pods = {each["metadata"]["uid"]: each for each in seen.pods}
    for each in (job.get("status") or {}).get("pods") or ():
        pod = pods.get(each.get("podUID"))
        if pod is None or each.get("state") not in {"Granted", "Enforced"}:
            continue
        try:
            parsed: Any = parse_object(pod)
        except ResourceError:
            continue
        held = float(each.get("held") or 0)
        yield float(parsed.cpus_requested), held * cpus_of_core.get(each.get("node"), 1.0)


def _cpus_of_core(seen: Seen) -> dict[str, float]:
    """Return how many CPUs of Kubernetes a core that the market sells is, by node."""
    from walras_api.contract import MARKET_NAME
    from walras_api.market import CoresPolicy
    from walras_api.supply import reported_processors

    unit: str = CoresPolicy().unit
    for each in seen.markets:
        if each["metadata"]["name"] == MARKET_NAME:
            unit = ((each.get("spec") or {}).get("cores") or {}).get("unit", unit)
    cpus = {}
    for each in seen.allocations:
        reported = reported_processors(each.get("status"))
        if unit == "core" and reported is not None:
            cpus[each["metadata"]["name"]] = reported.threads / reported.cores
    return cpus


def _workloads(seen: Seen) -> dict[tuple[str, str, str], Document]:
    """Return MarketJobs by namespace, kind and name of the workload that they select."""
    return {
        (_namespace(job), *_target(target)): job
        for job in seen.jobs
        if (target := (job.get("spec") or {}).get("targetRef"))
    }


def _target(reference: Mapping[str, Any] | None) -> tuple[str, str]:
    target = reference or {}
    return str(target.get("kind")), str(target.get("name"))


def _is_cpu_utilization(metric: Mapping[str, Any]) -> bool:
    source = metric.get("resource") or metric.get("containerResource") or {}
    target = source.get("target") or {}
    return source.get("name") == "cpu" and target.get("averageUtilization") is not None


def _conditions(each: Document) -> Sequence[Mapping[str, Any]]:
    return (each.get("status") or {}).get("conditions") or ()


def _namespace(each: Document) -> str:
    return str(each["metadata"].get("namespace", ""))


def _title(each: Document) -> str:
    return f"{_namespace(each)}/{each['metadata']['name']}"
