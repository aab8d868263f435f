"""Pure: what works against the market, from the objects of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from walras.market.admission import AccessPolicy
from walras_api.assembly import entitlement_of
from walras_api.contract import ENTITLEMENT_LABEL, MARKET_NAME
from walras_api.market import CoresPolicy
from walras_api.node_allocation_status import NodeAllocationStatus
from walras_api.parse import ResourceError, parse_object
from walras_api.supply import reported_processors
from walras_cli.cluster.check.seen import AGENTS, operator_namespace_in
from walras_view.facts import ApiObject
from walras_view.text import listed
from walras_view.weights import weights_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walras_cli.cluster.check.seen import Seen
    from walras_cli.cluster.connection import Document

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


def findings(seen: Seen) -> Iterator[Finding]:
    """Yield all that works against the market, errors first (pure)."""
    problems = [
        finding
        for check_of in (
            *(_agents, _nodes, _kernels, _namespaces),
            *(_autoscalers, _recommenders, _requests),
        )
        for finding in check_of(seen)
    ]
    yield from sorted(problems, key=lambda each: (each.level, each.object, each.message))


def _agents(seen: Seen) -> Iterator[Finding]:
    """Yield namespaces in which Pod Security admits no agent, and DaemonSets without pods."""
    labels = {
        each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in seen.namespaces
    }
    namespace = operator_namespace_in(seen.markets)
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


def _kernels(seen: Seen) -> Iterator[Finding]:
    """Yield nodes whose kernel divides shared CPUs otherwise than by weights, those alike once."""
    alike: dict[str, list[str]] = {}
    for each in seen.allocations:
        node = ApiObject.read(each, NodeAllocationStatus)
        if unlike := weights_sentence(node.status.kernel):
            alike.setdefault(unlike, []).append(node.name)
    for message, nodes in alike.items():
        plural = "s" if len(nodes) > 1 else ""
        yield Finding("warning", f"Node{plural} {listed(nodes)}", message)


def _namespaces(seen: Seen) -> Iterator[Finding]:
    """Yield namespaces whose entitlement does not exist or does not admit them."""
    access = AccessPolicy(map(entitlement_of, _entitlements(seen)))
    for each in seen.namespaces if "list entitlements.walras.dev" not in seen.withheld else ():
        labels = each["metadata"].get("labels") or {}
        named, name = labels.get(ENTITLEMENT_LABEL), each["metadata"]["name"]
        why = access.denial(named, name, labels) if named else None
        if why is not None:
            yield Finding("warning", f"Namespace {name}", f"label {ENTITLEMENT_LABEL}: {why}")


def _entitlements(seen: Seen) -> Iterator[Any]:
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
