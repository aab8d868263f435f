"""Pure: what a node sells and why no more, who holds what of it, and how its agent is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras.analysis.domains import BusyPod, Processors, losses
from walras_api.api_object import quantity
from walras_api.market import CoresPolicy
from walras_api.node_allocation_status import MOST_CPUS
from walras_view.documents import Shown
from walras_view.explain.faults import Fault
from walras_view.figures import beyond, cores_of_cpu, number, used_by_pod
from walras_view.rows.nodes import NodeRow, node_rows
from walras_view.weights import weights_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walras_api.cluster import Pod
    from walras_api.market_job_status import PodOutcome
    from walras_view.facts import Facts


@dataclass(frozen=True, slots=True)
class Other(Shown):
    """A pod that is not in the market.

    Attributes:
        namespace: Namespace of the pod.
        name: Name of the pod.
        cpus: CPUs that it has requested.
        memory: Bytes of memory that it has requested.
        plain: Cores that it has on plain Kubernetes while all pods of the node are busy.
        least: Cores that it has beside the market then, and at least; both are None unless this is
            less, or if they cannot be known.
    """

    namespace: str
    name: str
    cpus: float
    memory: int
    plain: float | None = None
    least: float | None = None


@dataclass(frozen=True, slots=True)
class Supply(Shown):
    """How it comes to what a node sells. What may not be seen is None.

    Attributes:
        cpus: CPUs that the kubelet lets pods use.
        cores: Number of cores in these CPUs, or of threads if the Market sells threads.
        reserved: Number of cores that the Market keeps back.
        unmanaged: Number of cores that pods outside the market have requested.
        others: Pods outside the market, the largest request first.
    """

    cpus: float | None
    cores: float | None
    reserved: int
    unmanaged: float | None
    others: tuple[Other, ...]


@dataclass(frozen=True, slots=True)
class Holder(Shown):
    """A pod with a grant.

    Attributes:
        namespace: Namespace of the pod.
        pod: Name of the pod.
        job: Name of its MarketJob; None if that may not be seen.
        user: Entitlement that pays for it; None if its job may not be seen.
        held: Cores granted; a part of one in thousandths.
        used: Cores that it uses; None if unknown.
        used_beyond: Those of them beyond what it holds, which others left idle.
        cpus: Numbers of the CPUs that it may use.
        memory: Memory granted, in bytes; None if none is.
        spend: Amount of its user's budget that it spends.
        state: State of the grant, as the agent reports it.
        reason: Why the grant is not enforced; empty if it is, or if the agent has not reported it.
    """

    namespace: str
    pod: str
    job: str | None
    user: str | None
    held: float
    used: float | None
    used_beyond: float | None
    cpus: str | None
    memory: int | None
    spend: float | None
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """Everything about a node.

    Attributes:
        node: Row of the node in ``walras top``.
        supply: Derivation of the number of cores that it sells.
        holders: Pods with a grant, the most cores first.
        faults: Problems of the node.
    """

    node: NodeRow
    supply: Supply
    holders: tuple[Holder, ...]
    faults: tuple[Fault, ...]


def explain_node(facts: Facts, name: str, pods: Sequence[Pod] | None) -> NodeExplanation:
    """Explain a node.

    Args:
        facts: Facts about the cluster.
        name: Name of the node.
        pods: Pods that run on the node; None if they may not be seen.
    """
    row = next(row for row in node_rows(facts) if row.name == name)
    return NodeExplanation(
        row, _supply(facts, name, pods), _holders(facts, name), tuple(_faults(facts, row))
    )


def _supply(facts: Facts, name: str, pods: Sequence[Pod] | None) -> Supply:
    node = facts.nodes.get(name)
    each = cores_of_cpu(facts, name)
    policy = {} if facts.market is None else facts.market.spec.get("cores") or {}
    others = _others(facts, name, pods or ())
    cpus = None if node is None else float(node.cores)
    return Supply(
        cpus=cpus,
        cores=None if cpus is None else cpus * each,
        reserved=policy.get("reservedCores", CoresPolicy().reserved_cores),
        unmanaged=None if pods is None else round(each * sum(pod.cpus for pod in others), 3),
        others=others,
    )


def _others(facts: Facts, name: str, pods: Sequence[Pod]) -> tuple[Other, ...]:
    allocation = facts.allocations.get(name)
    grants = () if allocation is None else allocation.spec.get("grants") or ()
    granted = {str(grant.get("podUID")): grant for grant in grants}
    alive = [pod for pod in pods if pod.alive]
    lost = _losses(facts, name, alive, granted)
    others = [
        Other(
            pod.metadata.namespace,
            pod.metadata.name,
            float(pod.cpus_requested),
            pod.memory_requested,
            *lost.get(number, (None, None)),
        )
        for number, pod in enumerate(alive)
        if pod.metadata.uid not in granted
    ]
    return tuple(sorted(others, key=lambda each: (-each.cpus, each.namespace, each.name)))


def _losses(
    facts: Facts, name: str, pods: Sequence[Pod], granted: Mapping[str, Mapping[str, Any]]
) -> dict[int, tuple[float, float]]:
    """Return what pods without a grant have on plain Kubernetes and at least, if that is less."""
    node, core = facts.nodes.get(name), cores_of_cpu(facts, name)
    cpus = 0 if node is None else math.ceil(node.cores)
    if not 0 < cpus <= MOST_CPUS:
        return {}
    threads = max(round(1 / core), 1)
    sockets = 1
    allocation = facts.allocations.get(name)
    if allocation is not None and (topology := allocation.status.topology) is not None:
        cpus, sockets = topology.threads, topology.sockets
    busy = []
    for pod in pods:
        grant = granted.get(pod.metadata.uid, {})
        busy.append(
            BusyPod(
                granted=float(quantity(grant.get("cores", "0"))) * threads,
                requested=float(pod.cpus_requested),
                limit=pod.cpu_limit,
                isolated=grant.get("isolated", False),
            )
        )
    at = Processors(max(cpus // threads, 1), threads, max(sockets, 1))
    return {each.pod: (each.plain / threads, each.least / threads) for each in losses(at, busy)}


def _holders(facts: Facts, name: str) -> tuple[Holder, ...]:
    allocation = facts.allocations.get(name)
    if allocation is None:
        return ()
    reported = {each.pod_uid: each for each in allocation.status.pods}
    outcomes = dict(_outcomes(facts, name))
    holders = []
    for grant in allocation.spec.get("grants") or ():
        holding = reported.get(grant["podUID"])
        namespace = grant.get("namespace", "default")
        job, user, pod = outcomes.get((namespace, grant["name"]), (None, None, None))
        held = float(quantity(grant["cores"]))
        used = used_by_pod(facts, namespace, grant["name"], name, grant["podUID"])
        holders.append(
            Holder(
                namespace=namespace,
                pod=grant["name"],
                job=job,
                user=user,
                held=held,
                used=used,
                used_beyond=beyond(used, held),
                cpus=None if holding is None else holding.cpus,
                memory=_memory(grant),
                spend=None if pod is None else number(pod.spend),
                state="Awaited" if holding is None else holding.state,
                reason="" if holding is None else holding.reason,
            )
        )
    return tuple(sorted(holders, key=lambda each: (-each.held, each.namespace, each.pod)))


def _memory(grant: Mapping[str, Any]) -> int | None:
    return int(quantity(grant["memory"])) if grant.get("memory") else None


def _outcomes(
    facts: Facts, name: str
) -> Iterator[tuple[tuple[str, str], tuple[str, str, PodOutcome]]]:
    """Yield whose the pods of a node are, as far as jobs may be seen."""
    for job in facts.jobs.values():
        for pod in job.status.pods:
            if pod.node == name:
                key = job.namespace, pod.name
                yield key, (job.name, str(job.spec.get("entitlement")), pod)


def _faults(facts: Facts, row: NodeRow) -> Iterator[Fault]:
    allocation = facts.allocations.get(row.name)
    if row.agent in {"Closed", "Silent"}:
        yield Fault(f"Node {row.name}", "Ready", row.agent, row.message)
    if allocation is None:
        return
    for each in allocation.status.conditions:
        if each.status == "False":
            yield Fault(f"NodeAllocation {row.name}", each.type, each.reason, each.message)
    if unlike := weights_sentence(allocation.status.kernel):
        yield Fault(f"Node {row.name}", "Weights", "ByThreads", unlike)
