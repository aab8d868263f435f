"""Pure: what every job has, pays, uses and gets done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, computed_field

from walras_view.documents import Shown
from walras_view.figures import amount, number, ready_condition, total, used_by_job
from walras_view.text import natural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras_api.market_job_status import MarketJobStatus, PodOutcome
    from walras_view.facts import ApiObject, Facts


@dataclass(frozen=True, slots=True)
class PodRow(Shown):
    """A pod of a job.

    Attributes:
        name: Name of the pod.
        node: Node that it runs on.
        state: State of its grant: Granted, Enforced, Failed, Refused or Waiting.
        held: Cores that it holds.
    """

    name: str
    node: str | None
    state: str
    held: float | None


@dataclass(frozen=True, slots=True)
class JobRow(Shown):
    """A row about a MarketJob.

    Attributes:
        namespace: Namespace of the job.
        name: Name of the job.
        entitlement: Entitlement that pays for it.
        pods: Number of active pods.
        granted: Number of these pods that have a grant.
        enforced: Number of these pods whose grant is enforced.
        bought: Cores that all its pods buy.
        held: Cores that the pods hold.
        used: Cores that the pods use.
        used_beyond: Those of them beyond what each pod holds, which others left idle.
        memory: Memory granted to its pods, in bytes.
        memory_used: Memory that its pods use, in bytes.
        speedup: Mean predicted speedup of its pods.
        price: Mean price that it pays for a core, relative to the cluster's average.
        spend: Amount of its entitlement's budget that it spends.
        parallel_fraction: F that it takes part with.
        source: Source of F: Given, Written, Measured, Online or Assumed.
        each: Rows of its pods, which the page lists with one job only.
        ready: Status of the condition ``Ready``.
        reason: Reason of the condition ``Ready``.
        message: Message of the condition ``Ready``.
    """

    namespace: str
    name: str
    entitlement: str
    pods: int
    granted: int
    enforced: int
    bought: float | None
    held: float | None
    used: float | None
    used_beyond: float | None
    memory: float | None
    memory_used: float | None
    speedup: float | None
    price: float | None
    spend: float | None
    parallel_fraction: float | None
    source: str | None
    each: Annotated[tuple[PodRow, ...], Field(exclude=True)]
    ready: str
    reason: str
    message: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def state(self) -> str:
        """State in a word: the reason, or Enforced if the grants of all its pods are."""
        return "Enforced" if self.pods and self.enforced == self.pods else self.reason

    @computed_field  # type: ignore[prop-decorator]
    @property
    def node(self) -> str:
        """Node of its pods, or their number of nodes; empty without pods."""
        nodes = {pod.node for pod in self.each if pod.node}
        return next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else ""


def job_rows(facts: Facts, namespace: str = "") -> list[JobRow]:
    """Return the jobs of a namespace, or of all, by name."""
    jobs = facts.jobs
    keys = sorted(jobs, key=lambda key: [natural(each) for each in key])
    return [job_row(facts, jobs[key]) for key in keys if namespace in {"", key[0]}]


def job_row(facts: Facts, job: ApiObject[MarketJobStatus]) -> JobRow:
    """Return the row of a job; it depends on the Market, its nodes' topologies and use, too."""
    status, counts, ready = job.status, job.status.counts, ready_condition(job)
    profile = status.profile
    cores, spend = number(status.bought), number(status.spend)
    use = used_by_job(facts, job)
    return JobRow(
        namespace=job.namespace,
        name=job.name,
        entitlement=str(job.spec.get("entitlement", "")),
        pods=0 if counts is None else counts.total,
        granted=0 if counts is None else counts.granted,
        enforced=0 if counts is None else counts.enforced,
        bought=cores,
        held=_held(status),
        used=use.cores,
        used_beyond=use.beyond,
        memory=total(amount(pod.memory) for pod in status.pods),
        memory_used=use.memory,
        speedup=number(status.speedup),
        price=spend / cores if cores and spend is not None else None,
        spend=spend,
        parallel_fraction=None if profile is None else number(profile.parallel_fraction),
        source=None if profile is None else profile.source,
        each=tuple(map(_pod, status.pods)),
        ready=ready.status,
        reason=ready.reason,
        message=ready.message,
    )


def _held(status: MarketJobStatus) -> float | None:
    """Return the cores of all pods, those that the status has no room for like the others."""
    counts = status.counts
    held = total(number(pod.held) for pod in status.pods)
    if held is None or counts is None or not counts.unlisted:
        return held
    return held * counts.total / len(status.pods)


def _pod(pod: PodOutcome) -> PodRow:
    return PodRow(pod.name, pod.node, pod.state, number(pod.held))


def per_pod(pods: Iterable[PodRow]) -> str:
    """Return what a job's pods hold, shortly: 4, 0.333, or 2.333-5."""
    amounts = sorted({pod.held for pod in pods if pod.held})
    ends = dict.fromkeys(
        f"{each:.3f}".rstrip("0").rstrip(".") for each in (amounts[:1] + amounts[-1:])
    )
    return "-".join(ends) or "-"
