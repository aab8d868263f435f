"""Pure: learn how many CPUs programs can use at once, from the reports of agents.

What is known of a program is in the statuses of its MarketJobs, by the images of its pods, so any
later leader continues from there. Jobs that run the same program know the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.market.demand import MOST_PEAKS, Demand, Peak, Seen, bound_of, learn, merged
from walras_api.assembly import select_pods
from walras_api.market_job_status import MOST_IMAGES, MOST_SECONDS, DemandPeak, LearnedDemand
from walras_api.node_allocation_status import MOST_CPUS
from walras_api.status import decimals
from walras_api.supply import reported_processors
from walras_operator.decide.conditions import listed, number_at
from walras_operator.decide.runs.lifetimes import seconds_of
from walras_operator.decide.runs.tally import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_api.cluster import Pod
    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJob
    from walras_api.node_allocation import NodeAllocation
    from walras_api.selection import Selection
    from walras_operator.decide.world import Document, World

_MOST_THREADS = 1 << 22
"""Most threads that Linux supports."""

_GRAIN = 600
"""Seconds by which the time of what is learned is rounded."""


class _Pod(NamedTuple):
    """A pod of a program."""

    uid: str
    images: str


def with_learned_demand(world: World) -> World:
    """Return the world with what agents report now in the statuses of jobs."""
    now = seconds_of(world.now)
    if now is None:
        return world
    seen: dict[str, Seen] = {}
    for node, allocation in world.allocations.items():
        seen |= world.kept.of(node, _seen_on, allocation)
    _, selection = select_pods(world.objects, world.kept)
    pods = world.kept.of("", _pods_of_programs, selection, world.objects.pods)
    programs: defaultdict[Name, list[MarketJob]] = defaultdict(list)
    for job in world.objects.jobs:
        programs[job.metadata.namespace, job.profile_name].append(job)
    after: dict[str, list[Document]] = {}
    for program, jobs in programs.items():
        here = [each for each in pods.get(program, ()) if each.uid in seen]
        stored = [known for job in jobs if (known := (job.status or {}).get("demand"))]
        if here or stored:
            documents = world.kept.of(
                "/".join(program),
                _learned,
                stored,
                [each.images for each in here],
                [seen[each.uid] for each in here],
                now - now % _GRAIN,
            )
            after |= {job.metadata.uid: documents for job in jobs}
    jobs = [_with(job, after.get(job.metadata.uid)) for job in world.objects.jobs]
    return replace(world, objects=replace(world.objects, jobs=jobs))


def demand_by_job(world: World) -> dict[Name, list[Mapping[str, Any]]]:
    """Return the field ``demand`` of statuses, by job; jobs of which nothing is known are left out.

    Args:
        world: World with what was learned.
    """
    return {
        (job.metadata.namespace, job.metadata.name): [*listed(job.status or {}, "demand")]
        for job in world.objects.jobs
        if (job.status or {}).get("demand")
    }


def _with(job: MarketJob, documents: list[Document] | None) -> MarketJob:
    status = job.status or {}
    if documents is None or documents == status.get("demand", []):
        return job
    return job.model_copy(update={"status": {**status, "demand": documents}})


def _seen_on(allocation: NodeAllocation) -> dict[str, Seen]:
    """Return what an agent has seen of pods, by UID.

    Agents are not trusted: they may report of pods on their node only, and plausible numbers.
    """
    status = allocation.status or {}
    granted = {each.pod_uid for each in allocation.spec.grants}
    processors = reported_processors(status)
    most = float(MOST_CPUS if processors is None else processors.threads)
    found = {}
    for pod in listed(status, "pods"):
        uid = str(pod.get("podUID"))
        at_once, threads, seconds, wanted = (
            number_at(pod, "demand", each) for each in ("atOnce", "threads", "seconds", "wanted")
        )
        if uid in granted and at_once is not None:
            found[uid] = Seen(
                _within(at_once, most),
                math.inf if threads is None else _within(threads, _MOST_THREADS),
                _within(seconds or 0.0, MOST_SECONDS),
                _within(wanted or 0.0, most),
            )
    return found


def _within(value: float, most: float) -> float:
    return min(max(value, 0.0), most)


def _pods_of_programs(selection: Selection, pods: Sequence[Pod]) -> dict[Name, list[_Pod]]:
    """Return the pods of programs that have begun, by namespace and name of the program.

    Until all its containers have, a pod does not show what its program can use.
    """
    found: defaultdict[Name, list[_Pod]] = defaultdict(list)
    for number, job in selection.job.items():
        pod = pods[number]
        program = job.metadata.namespace, job.profile_name
        if pod.status.phase != "Pending":
            found[program].append(_Pod(pod.metadata.uid, pod.images))
    return found


def _learned(
    stored: Sequence[object], images: Sequence[str], seen: Sequence[Seen], now: int
) -> list[Document]:
    """Return what is known of a program, by images: those of its pods first, then the latest.

    Args:
        stored: What the statuses of its jobs say.
        images: Images of each of its pods.
        seen: What is seen of each of them.
        now: Time in seconds since 1970.
    """
    parts: defaultdict[str, list[Demand]] = defaultdict(list)
    for known in stored:
        for name, demand in _read_all(known).items():
            parts[name].append(demand)
    here: defaultdict[str, list[Seen]] = defaultdict(list)
    for name, each in zip(images, seen, strict=True):
        here[name].append(each)
    demands = {
        name: learn(merged(parts[name], now), here[name], now)
        for name in parts.keys() | here.keys()
    }
    order = sorted(demands, key=lambda name: (name not in here, -_last_seen(demands[name]), name))
    told = (_document(name, demands[name], now) for name in order[:MOST_IMAGES])
    return [each for each in told if each is not None]


def _last_seen(demand: Demand) -> float:
    return max((peak.at for peak in (*demand.at_once, *demand.threads)), default=0.0)


def _document(images: str, demand: Demand, now: int) -> Document | None:
    bound = bound_of(demand, now)
    if math.isinf(bound.cpus):
        return None
    return LearnedDemand(
        images=images,
        cpus=decimals(bound.cpus),
        error=decimals(bound.error, 2),
        seen=time_of(round(now - bound.age)),
        seconds=int(_within(demand.seconds, MOST_SECONDS)),
        at_once=_peaks_told(demand.at_once),
        threads=_peaks_told(demand.threads),
    ).document()


def _peaks_told(peaks: Iterable[Peak]) -> list[DemandPeak]:
    return [DemandPeak(amount=decimals(each.amount), at=time_of(round(each.at))) for each in peaks]


def _read_all(known: object) -> dict[str, Demand]:
    """Return what a status knows, without what is malformed."""
    return {
        images: Demand(
            _peaks(each, "atOnce"), _peaks(each, "threads"), number_at(each, "seconds") or 0
        )
        for each in listed({"demand": known}, "demand")
        if isinstance(images := each.get("images", ""), str)
    }


def _peaks(document: Mapping[str, Any], field: str) -> tuple[Peak, ...]:
    found = []
    for each in listed(document, field)[:MOST_PEAKS]:
        amount, at = number_at(each, "amount"), seconds_of(each.get("at"))
        if amount is not None and amount >= 0 and at is not None:
            found.append(Peak(amount, at))
    return tuple(found)
