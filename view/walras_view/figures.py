"""Pure: numbers of statuses, and what is used in the unit that is sold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walras_api.market import CoresPolicy
from walras_view.facts import Used

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras_api.market_job_status import MarketJobStatus
    from walras_view.facts import ApiObject, Facts

UNIT = CoresPolicy().unit


class ConditionSummary(NamedTuple):
    """The condition that summarizes the state of an object.

    Attributes:
        status: True, False or Unknown, as Kubernetes writes them.
        reason: CamelCase word for programs.
        message: Sentence for people.
    """

    status: str
    reason: str
    message: str


def ready_condition(entry: ApiObject[Any]) -> ConditionSummary:
    """Return what sums up an object's state, or that nothing was said about it as it is now."""
    ready = entry.ready
    if ready is None:
        return ConditionSummary("Unknown", "NotDecided", "the operator has not decided on it yet")
    if is_behind(entry):
        return ConditionSummary(
            "Unknown", "Changed", f"changed since the last decision, which said: {ready.message}"
        )
    return ConditionSummary(ready.status, ready.reason, ready.message)


def is_behind(entry: ApiObject[Any]) -> bool:
    """Say whether an object's spec is newer than what was said about it."""
    ready = entry.ready
    return ready is None or (ready.observed_generation or 0) < entry.generation


def number(text: str | None) -> float | None:
    """Return a decimal of a status; None where there is none."""
    return None if text is None else float(text)


def amount(text: str | None) -> int | None:
    """Return bytes of a status; None where there are none."""
    return None if text is None else int(text)


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum of what is known; None if nothing is."""
    numbers = [each for each in values if each is not None]
    return sum(numbers) if numbers else None


def cores_of_cpu(facts: Facts, node: str) -> float:
    """Return how many of the cores that are sold one CPU of a node is.

    The Market says whether it sells physical cores; Kubernetes, and what measures use, count
    hardware threads.
    """
    policy = {} if facts.market is None else facts.market.spec.get("cores") or {}
    allocation = facts.allocations.get(node)
    topology = None if allocation is None else allocation.status.topology
    if policy.get("unit", UNIT) == "thread" or topology is None or not topology.threads:
        return 1.0
    return topology.cores / topology.threads


class JobUse(NamedTuple):
    """What the pods of a job, or of several, use; None where that is not known.

    Attributes:
        cores: Cores.
        beyond: Those of them beyond what each pod holds.
        memory: Bytes.
    """

    cores: float | None = None
    beyond: float | None = None
    memory: float | None = None


def used_by_job(facts: Facts, job: ApiObject[MarketJobStatus]) -> JobUse:
    """Return what a job's pods use."""
    counts = job.status.counts
    if counts is None or counts.unlisted:
        return JobUse()
    measured = facts.use.pods or {}
    pods = [
        (used_by_pod(facts, job.namespace, pod.name, pod.node or "", pod.pod_uid), number(pod.held))
        for pod in job.status.pods
    ]
    names = [(job.namespace, pod.name) for pod in job.status.pods]
    return JobUse(
        total(used for used, _ in pods),
        total(beyond(used, held) for used, held in pods),
        total(measured[name].memory for name in names if name in measured),
    )


def beyond(used: float | None, held: float | None) -> float | None:
    """Return the cores that a pod uses beyond those that it holds; None if either is unknown."""
    return None if used is None or held is None else max(used - held, 0.0)


def used_by_pod(facts: Facts, namespace: str, name: str, node: str, uid: str) -> float | None:
    """Return the cores that a pod uses; None where that is not known.

    The count of its node's agent comes first, since metrics of a cluster know no more and may be
    missing.
    """
    allocation = facts.allocations.get(node)
    counts = () if allocation is None else allocation.status.pods
    cpus = number(next((each.used_cpus for each in counts if each.pod_uid == uid), None))
    if cpus is None and (measured := (facts.use.pods or {}).get((namespace, name))):
        cpus = measured.cpus
    return None if cpus is None else cores_of_cpu(facts, node) * cpus


def used_by_node(facts: Facts, node: str) -> tuple[float | None, int | None]:
    """Return likewise what all that runs on a node uses."""
    measured = (facts.use.nodes or {}).get(node)
    if not isinstance(measured, Used):
        return None, None
    return cores_of_cpu(facts, node) * measured.cpus, measured.memory
