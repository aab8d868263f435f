"""Pure: why a job has the cores that it has, and what would bring it more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras.market.demand import ENOUGH
from walras_view.documents import Shown
from walras_view.explain.faults import MEASURING, Fault, failing
from walras_view.explain.margin import Buyer, OneMore, one_more
from walras_view.explain.penalties import CoRunnerPenalty, penalties_of
from walras_view.figures import amount, beyond, number, ready_condition, used_by_pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_api.market_job_status import (
        AuctionReport,
        LearnedDemand,
        MarketJobStatus,
        PodOutcome,
        WeightReport,
    )
    from walras_api.speedup_profile_status import SpeedupProfileStatus
    from walras_view.facts import ApiObject, Facts

SOURCES: Mapping[str, str] = {
    "Given": "given by spec.parallelFraction",
    "Written": "written in SpeedupProfile {name}",
    "Measured": "measured beforehand (SpeedupProfile {name})",
    "Online": "measured while it ran (SpeedupProfile {name})",
    "Assumed": "assumed until it is measured; to set it, use spec.parallelFraction or a profile",
}

WITHOUT_PROFILE: Mapping[str, str] = {
    **SOURCES,
    "Written": "written in a profile",
    "Measured": "measured beforehand",
    "Online": "measured while it ran",
}
"""The same of an F that no SpeedupProfile of the cluster has, as in a run on one machine."""


REFUSED = (
    "assumed, since the measurements of SpeedupProfile {name} are too uncertain to be used; "
    "profile the program anew, or set spec.parallelFraction"
)
"""Source of F where the measurements of its profile are refused."""


@dataclass(frozen=True, slots=True)
class CanUse(Shown):
    """How many CPUs a pod of a program can use at once, as learned.

    Attributes:
        images: Images of the pod's containers; empty if unknown.
        cpus: Most CPUs that it can use at once.
        error: CPUs by which that may be wrong.
        seen: Time at which a pod was last seen to use so many.
        by_threads: Whether only the number of its threads is known, since it always waits.
    """

    images: str
    cpus: float
    error: float
    seen: str
    by_threads: bool


@dataclass(frozen=True, slots=True)
class Budget(Shown):
    """The budget that pays for a job.

    Attributes:
        entitlement: Entitlement that has the budget.
        cores: The budget: cores that the entitlement is entitled to; None if unknown.
        spend: Amount that all pods of the job spend.
        part: Part of the budget that this is, from 0 to 1.
    """

    entitlement: str
    cores: float | None
    spend: float | None
    part: float | None


@dataclass(frozen=True, slots=True)
class Worth(Shown):
    """The value of a whole resource of its nodes to a job that bids in auctions.

    Attributes:
        value: Value with which the job bids.
        lower: Lower end of the 95 % confidence interval; None unless it is estimated.
        upper: Upper end of the confidence interval; None if unknown, or if it is unbounded.
    """

    value: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class AuctionWeights(Shown):
    """The weights with which a job bids in auctions, and their source.

    Attributes:
        source: Given, Estimated or Equal.
        cause: Why weights are Equal: TooFew, TooSimilar or NoGain; None if that is not known.
        runs: Number of runs to estimate weights from.
        recorded: Number of these runs that the operator recorded.
        cores: Weight of its share of the cores.
        memory: Weight of its share of the memory.
    """

    source: str
    cause: str | None
    runs: int
    recorded: int
    cores: Worth
    memory: Worth


@dataclass(frozen=True, slots=True)
class DeadlineOutlook(Shown):
    """The deadline of a job, and whether it is expected to be met.

    Attributes:
        time: The deadline.
        accepted: Whether its cores are reserved or given anyway; None if that is not known.
        needed: Cores that its pods need from now on; None if not known, or if none suffice.
        reserved: Cores that are reserved for its pods.
        finish: Expected end of its last pod; its end if it has ended; None if neither is known.
        earliest: Expected end with less work left; None if not known.
        latest: Expected end with more work left; None if not known.
        met: Whether it was met; None while a pod runs.
        state: Status of the condition ``OnTime``.
        message: Message of that condition: what it takes, and the way out.
    """

    time: str
    accepted: bool | None
    needed: float | None
    reserved: float | None
    finish: str | None
    earliest: str | None
    latest: str | None
    met: bool | None
    state: str
    message: str


@dataclass(frozen=True, slots=True)
class PodCoRunner(Shown):
    """The co-runner of a pod (Cooper), and the advice to its user.

    Attributes:
        partner: Co-runner of the pod; None if it has a socket to itself.
        predicted: Predicted penalty: part of its throughput that it loses, from 0 to 1.
        measured: Measured penalty; None if it was not measured.
        companion: Co-runner with which both would gain; None if the advice is to stay.
        gain: Part of its throughput that it would gain beside the companion.
        exploration: Part of its throughput that it was expected to lose so that penalties are
            measured; None if the policy chose the co-runner.
    """

    partner: str | None
    predicted: float | None
    measured: float | None
    companion: str | None
    gain: float | None
    exploration: float | None


@dataclass(frozen=True, slots=True)
class PodReason(Shown):
    """The cores and memory of a pod, and the reasons for them.

    Attributes:
        name: Name of the pod.
        node: Node that it runs on.
        state: State of its grant.
        held: Cores that it holds.
        bought: Cores that it bought.
        used: Cores that it uses.
        used_beyond: Those of them beyond what it holds, which others left idle.
        price: Price of a core on its node.
        spend: Amount of its user's budget that it spends.
        speedup: Predicted speedup.
        memory: Memory grant, in bytes.
        reason: Sentence of the operator about its cores.
        memory_reason: Why it has this memory.
        cpus: Numbers of the CPUs that it may use.
        co_runner: Its co-runner, if Walras placed it; None otherwise.
    """

    name: str
    node: str | None
    state: str
    held: float | None
    bought: float | None
    used: float | None
    used_beyond: float | None
    price: float | None
    spend: float | None
    speedup: float | None
    memory: int | None
    reason: str
    memory_reason: str | None
    cpus: str | None
    co_runner: PodCoRunner | None


@dataclass(frozen=True, slots=True)
class JobExplanation(Shown):
    """Everything about a MarketJob.

    Attributes:
        namespace: Namespace of the job.
        name: Name of the job.
        ready: Status of the condition ``Ready``.
        reason: Reason of the condition ``Ready``.
        message: Message of the condition ``Ready``.
        budget: Budget that pays for it.
        parallel_fraction: Parallel fraction F that it bids with; None if there is none.
        source: Source of F.
        source_text: Source of F in words.
        speedup: Predicted speedup, as the mean of its pods.
        can_use: How many CPUs its pods can use at once, those that run first; empty if unknown.
        weights: Weights of its bids; None without an auction.
        deadline: Its deadline; None if it has none.
        pods: Its pods, sorted by name.
        unlisted: Number of pods for which its status has no room.
        penalties: Throughput that its program loses beside others, those that count first.
        interference: Whether the Market counts penalties; None if the Market is not visible.
        one_more: One more core for each pod that bought cores.
        faults: Problems of the job or of its entitlement.
    """

    namespace: str
    name: str
    ready: str
    reason: str
    message: str
    budget: Budget
    parallel_fraction: float | None
    source: str | None
    source_text: str
    speedup: float | None
    can_use: tuple[CanUse, ...]
    weights: AuctionWeights | None
    deadline: DeadlineOutlook | None
    pods: tuple[PodReason, ...]
    unlisted: int
    penalties: tuple[CoRunnerPenalty, ...]
    interference: bool | None
    one_more: tuple[OneMore, ...]
    faults: tuple[Fault, ...]


def explain_job(
    facts: Facts,
    job: ApiObject[MarketJobStatus],
    program: ApiObject[SpeedupProfileStatus] | None = None,
) -> JobExplanation:
    """Explain a job.

    Args:
        facts: Its entitlement and all jobs and NodeAllocations that the user may read.
        job: The job to explain.
        program: Its SpeedupProfile; None if there is none, or the user may not read it.
    """
    status, ready = job.status, ready_condition(job)
    budget, profile = _budget(facts, job), status.profile
    return JobExplanation(
        namespace=job.namespace,
        name=job.name,
        ready=ready.status,
        reason=ready.reason,
        message=ready.message,
        budget=budget,
        parallel_fraction=None if profile is None else number(profile.parallel_fraction),
        source=None if profile is None else profile.source,
        source_text=_source_text(status),
        speedup=number(status.speedup),
        can_use=tuple(map(_can_use, status.demand)),
        weights=_auction_weights(status.auction),
        deadline=_deadline(status),
        pods=tuple(_pod(facts, job.namespace, pod) for pod in status.pods),
        unlisted=0 if status.counts is None else status.counts.unlisted,
        penalties=() if program is None else penalties_of(program),
        interference=_counts_interference(facts),
        one_more=tuple(_one_more(facts, job, budget)),
        faults=tuple(_faults(facts, job)),
    )


def _counts_interference(facts: Facts) -> bool | None:
    if facts.market is None:
        return None
    rules = facts.market.spec.get("cores") or {}
    return bool(rules.get("interference", "counted") == "counted")


def _source_text(status: MarketJobStatus) -> str:
    profile = status.profile
    if profile is None:
        return "not known yet"
    measuring = [each.message for each in status.conditions if each.reason == MEASURING]
    if measuring and profile.source == "Assumed":
        return f"assumed; {measuring[0]}"
    if profile.source == "Assumed" and profile.name:
        return REFUSED.format(name=profile.name)
    sources = SOURCES if profile.name else WITHOUT_PROFILE
    return sources[profile.source].format(name=profile.name)


def _budget(facts: Facts, job: ApiObject[MarketJobStatus]) -> Budget:
    name = str(job.spec.get("entitlement", ""))
    entitlement = facts.entitlements.get(name)
    entitled = None if entitlement is None else entitlement.status.cores
    cores, spend = None if entitled is None else float(entitled.entitled), number(job.status.spend)
    part = spend / cores if spend is not None and cores else None
    return Budget(name, cores, spend, part)


def _auction_weights(auction: AuctionReport | None) -> AuctionWeights | None:
    weights = None if auction is None else auction.weights
    if weights is None:
        return None
    cores, memory = _worth(weights.cores), _worth(weights.memory)
    return AuctionWeights(
        weights.source, weights.cause, weights.runs, weights.recorded, cores, memory
    )


def _deadline(status: MarketJobStatus) -> DeadlineOutlook | None:
    report = status.deadline
    if report is None:
        return None
    on_time = next((each for each in status.conditions if each.type == "OnTime"), None)
    return DeadlineOutlook(
        time=report.time,
        accepted=report.accepted,
        needed=number(report.needed_cores),
        reserved=number(report.reserved_cores),
        finish=report.finished or report.expected_finish,
        earliest=report.earliest_finish,
        latest=report.latest_finish,
        met=report.met,
        state="Unknown" if on_time is None else on_time.status,
        message="" if on_time is None else on_time.message,
    )


def _can_use(learned: LearnedDemand) -> CanUse:
    return CanUse(
        learned.images,
        float(learned.cpus),
        float(learned.error),
        learned.seen,
        learned.seconds < ENOUGH,
    )


def _worth(weight: WeightReport) -> Worth:
    return Worth(float(weight.value), number(weight.lower), number(weight.upper))


def _pod(facts: Facts, namespace: str, pod: PodOutcome) -> PodReason:
    allocation = facts.allocations.get(pod.node or "")
    holdings = () if allocation is None else allocation.status.pods
    used = used_by_pod(facts, namespace, pod.name, pod.node or "", pod.pod_uid)
    return PodReason(
        name=pod.name,
        node=pod.node,
        state=pod.state,
        held=number(pod.held),
        bought=number(pod.bought),
        used=used,
        used_beyond=beyond(used, number(pod.held)),
        price=number(pod.price),
        spend=number(pod.spend),
        speedup=number(pod.speedup),
        memory=amount(pod.memory),
        reason=pod.reason,
        memory_reason=pod.memory_reason,
        cpus=next((each.cpus for each in holdings if each.pod_uid == pod.pod_uid), None),
        co_runner=_co_runner(pod),
    )


def _co_runner(pod: PodOutcome) -> PodCoRunner | None:
    placed = pod.colocation
    if placed is None:
        return None
    return PodCoRunner(
        partner=placed.partner,
        predicted=number(placed.predicted_penalty),
        measured=number(placed.measured_penalty),
        companion=placed.companion,
        gain=number(placed.gain),
        exploration=number(placed.exploration),
    )


def _one_more(facts: Facts, job: ApiObject[MarketJobStatus], budget: Budget) -> Iterator[OneMore]:
    mine = list(_buyers(job))
    siblings = [
        buyer
        for key, other in facts.jobs.items()
        if other.spec.get("entitlement") == budget.entitlement and key != (job.namespace, job.name)
        for buyer in _buyers(other)
    ]
    for buyer in mine:
        others = [each for each in mine if each is not buyer]
        yield one_more(buyer, [*others, *siblings], budget.cores)


def _buyers(job: ApiObject[MarketJobStatus]) -> Iterator[Buyer]:
    spec, profile = job.spec, job.status.profile
    if profile is None:
        return
    for pod in job.status.pods:
        if pod.bought is not None and pod.price is not None:
            yield Buyer(
                job=job.title,
                pod=pod.name,
                node=pod.node or "",
                cores=float(pod.bought),
                price=float(pod.price),
                fraction=float(profile.parallel_fraction),
                work=float(spec.get("work", 1)),
                least=spec.get("minCores", 1),
                most=spec.get("maxCores"),
            )


def _faults(facts: Facts, job: ApiObject[MarketJobStatus]) -> Iterator[Fault]:
    yield from failing(f"MarketJob {job.title}", job.status.conditions)
    entitlement = facts.entitlements.get(str(job.spec.get("entitlement")))
    if entitlement is not None:
        yield from failing(f"Entitlement {entitlement.name}", entitlement.status.conditions)
