"""Facts: the pods whose requests are looked at, what they use and what they would buy."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from walras_api.supply import cores_per_cpu, why_closed
from walras_cli.what_if.first_look.population import is_of_the_system
from walras_cli.what_if.owners import controllers_in, workload_of
from walras_cli.what_if.requests_page import RequestsPage
from walras_view.requests import PodOfWorkload, Room, advice_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras.market.plan import Plan
    from walras_api.assembly import Objects
    from walras_api.cluster import NodeObject, Pod
    from walras_cli.cluster_documents import Documents
    from walras_cli.what_if.comparison import Comparison
    from walras_view.facts import Use
    from walras_view.first_look import FirstLook
    from walras_view.requests import Advice

PodName = tuple[str, str]

NO_AGENT = (
    "what pods use is not in these documents; --prometheus URL asks a Prometheus that scrapes "
    "kubelets for it"
)

USUAL_PODS = 110
"""Pods that a kubelet takes unless it is told otherwise."""


def with_prometheus(use: Use, url: str | None) -> Use:
    """Return what pods use, by a Prometheus if there is one.

    Raises:
        Failure: It cannot be asked.
    """
    if url is None:
        return use
    from walras_cli.cluster.prometheus import Prometheus

    pods = Prometheus.at(url).use_of_pods()
    return replace(use, pods=pods, missing=(), source="Prometheus")


def of_first_look(look: FirstLook, documents: Documents, use: Use) -> RequestsPage:
    """Return what workloads of a cluster without Walras should request."""
    objects = documents.objects
    objects = replace(objects, controllers=controllers_in(documents.written, objects.pods))
    topologies = documents.topologies if look.unit == "core" else {}
    objects = replace(objects, topologies=topologies)
    return _page(objects, bought_at_first_look(look, objects), use)


def of_comparison(comparison: Comparison, objects: Objects, use: Use) -> RequestsPage:
    """Return what the workloads of a market's jobs should request."""
    return _page(objects, bought_by_plan(comparison.cleared[0].plan, objects), use)


def _page(objects: Objects, bought: Mapping[PodName, float], use: Use) -> RequestsPage:
    unknown = () if use.pods else use.missing or (NO_AGENT,)
    return RequestsPage(advised(objects, bought, use), tuple(unknown))


def advised(objects: Objects, bought: Mapping[PodName, float], use: Use) -> tuple[Advice, ...]:
    """Return what the workloads of users should request.

    Args:
        objects: Nodes, pods, and their owners.
        bought: CPUs that pods would hold in the market, by namespace and name.
        use: What pods use, as far as it is known.
    """
    used = use.pods or {}
    open_nodes = {each.metadata.name: each for each in objects.nodes if why_closed(each) is None}
    there = [pod for pod in objects.pods if pod.alive and pod.spec.node_name in open_nodes]
    pods = []
    for pod in there:
        name = pod.metadata.namespace, pod.metadata.name
        if name in bought:
            mine = used.get(name)
            pods.append(
                PodOfWorkload(
                    workload_of(pod, objects.controllers),
                    str(pod.spec.node_name),
                    float(pod.cpus_requested),
                    float(pod.memory_requested),
                    None if mine is None else mine.cpus,
                    bought[name],
                    len(pod.spec.containers),
                )
            )
    return advice_on(pods, _rooms(open_nodes, there))


def _rooms(nodes: Mapping[str, NodeObject], pods: Iterable[Pod]) -> dict[str, Room]:
    """Return what pods leave of nodes, by what they request."""
    on: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        on[str(pod.spec.node_name)].append(pod)
    return {
        name: Room(
            float(node.cores - sum(pod.cpus_requested for pod in on[name])),
            float(node.memory - sum(pod.memory_requested for pod in on[name])),
            int(node.status.allocatable.get("pods", USUAL_PODS)) - len(on[name]),
        )
        for name, node in nodes.items()
    }


def bought_by_plan(plan: Plan, objects: Objects) -> dict[PodName, float]:
    """Return the CPUs that pods hold under a plan."""
    rules, topologies = objects.rules.cores, objects.topologies
    return {
        (grant.namespace, grant.pod): grant.held
        / float(cores_per_cpu(rules, topologies.get(grant.node)))
        for grant in plan.grants
    }


def bought_at_first_look(look: FirstLook, objects: Objects) -> dict[PodName, float]:
    """Return the CPUs that pods would buy in a market of which little is known.

    A job's pods are taken to buy the same, and as much as in the middle of the range.
    """
    jobs = {(each.namespace, each.kind, each.name): each for each in look.jobs}
    made: dict[PodName, float] = {}
    for pod in objects.pods:
        job = jobs.get(workload_of(pod, objects.controllers)) if _may_be_advised(pod) else None
        if job is not None:
            name = pod.metadata.namespace, pod.metadata.name
            topology = objects.topologies.get(pod.spec.node_name or "")
            core = float(cores_per_cpu(objects.rules.cores, topology))
            made[name] = job.cores.bought.middle / job.pods / core
    return made


def _may_be_advised(pod: Pod) -> bool:
    return pod.alive and not pod.is_static and not is_of_the_system(pod.metadata.namespace)
