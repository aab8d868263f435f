"""Pure: follow the pods of jobs with deadlines: the work that they have done and have left.

`follow` reads everything known before the market is cleared; `with_deadlines` gives the market the
time and the work that are left, and `counters` asks agents to read the counters of these pods.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.market.snapshot import Deadline
from walras.speedup.work_left import WorkLeft, deadline_time, left_by_profile
from walras_api.job_inputs import profile_of
from walras_api.market_job import full_size
from walras_api.market_job_status import MOST_UNDERWAY
from walras_api.node_allocation import CounterRequest, is_address
from walras_api.speedup_profile import samples_of
from walras_operator.decide.conditions import listed
from walras_operator.decide.deadlines.predicted import widened_before, widening_of
from walras_operator.decide.deadlines.progress import CounterSample, PodProgress, read_progress
from walras_operator.decide.numbers import LARGEST
from walras_operator.decide.runs.lifetimes import seconds_of
from walras_operator.decide.world import Reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walras.market.snapshot import Snapshot
    from walras_api.cluster import Pod
    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJob, SpeedupProfile
    from walras_api.node_allocation import NodeAllocation
    from walras_operator.decide.validation import Validated
    from walras_operator.decide.world import World

_NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,40})?")

MOST_PROBLEM = 300
"""Characters of an agent's message about a counter that a condition repeats."""


class FollowedPod(NamedTuple):
    """A running pod of a job with a deadline.

    Attributes:
        pod: The pod.
        progress: Work that it has done, with the latest reading of its counter.
        left: Work that it has left; None if that is not known.
        problem: Why its counter cannot be read; empty if it can.
    """

    pod: Pod
    progress: PodProgress
    left: WorkLeft | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FollowedJob:
    """A job with a deadline.

    Attributes:
        job: The MarketJob.
        time: Its deadline, in seconds since 1970.
        pods: Its running pods, by name.
        widened: Factor by which the errors of their work left are widened.
        ended: Progress of its pods that no longer run, by name.
    """

    job: MarketJob
    time: int
    pods: Sequence[FollowedPod]
    widened: float = 1.0
    ended: Sequence[PodProgress] = field(default=())


def follow(world: World, validated: Validated) -> dict[Name, FollowedJob]:
    """Return the jobs with deadlines, by namespace and name."""
    jobs = {
        (job.metadata.namespace, job.metadata.name): job
        for job in world.objects.jobs
        if job.spec.deadline is not None
    }
    if not jobs:
        return {}
    now = seconds_of(world.now) or 0
    pods: defaultdict[Name, list[Pod]] = defaultdict(list)
    for number, job in validated.assembled.selection.job.items():
        key = job.metadata.namespace, job.metadata.name
        if key in jobs and key in validated.speedups:
            pods[key].append(validated.objects.pods[number])
    profiles = {
        (each.metadata.namespace, each.metadata.name): each for each in world.objects.profiles
    }
    widened = widening_of(world.objects.jobs)
    return {
        key: _followed(job, pods[key], world, profiles, now, widened) for key, job in jobs.items()
    }


def _followed(
    job: MarketJob,
    pods: Sequence[Pod],
    world: World,
    profiles: Mapping[Name, SpeedupProfile],
    now: int,
    widened: float,
) -> FollowedJob:
    created = seconds_of(job.metadata.creation_timestamp)
    start = datetime.fromtimestamp(now if created is None else created, UTC)
    time = int(deadline_time(job.spec.deadline or "", start).timestamp())
    progress = _progress_of(job)
    whole = _whole_work(job, profiles) if pods else None
    running = [
        _followed_pod(job, pod, progress.pop(pod.metadata.uid, None), whole, world, now)
        for pod in sorted(pods, key=lambda pod: pod.metadata.name)[:MOST_UNDERWAY]
    ]
    factor = widened_before(_report_of(job)) or widened
    running = [_widened(each, factor) for each in running]
    return FollowedJob(job, time, running, factor, tuple(progress.values()))


def _widened(pod: FollowedPod, factor: float) -> FollowedPod:
    """Return a pod whose work left errs by so many times as much, as predictions showed."""
    if pod.left is None or factor == 1:
        return pod
    return pod._replace(left=pod.left._replace(error=factor * pod.left.error))


def _progress_of(job: MarketJob) -> dict[str, PodProgress]:
    """Return the progress of a job's pods as its status has it, by UID."""
    by_uid = {}
    for entry in listed(_report_of(job), "pods"):
        progress = read_progress(entry)
        if progress is not None:
            by_uid[progress.uid] = progress
    return by_uid


def _report_of(job: MarketJob) -> Mapping[str, Any]:
    report = (job.status or {}).get("deadline")
    return report if isinstance(report, dict) else {}


def _followed_pod(
    job: MarketJob,
    pod: Pod,
    recorded: PodProgress | None,
    whole: WorkLeft | None,
    world: World,
    now: int,
) -> FollowedPod:
    progress = recorded or PodProgress(pod.metadata.uid, pod.metadata.name)
    total = None if job.spec.progress is None else job.spec.progress.total
    if total is None:
        left = None if whole is None else left_by_profile(whole, progress.work_at(now))
        return FollowedPod(pod, progress, left)
    reading, problem = _reading(world.allocations.get(pod.spec.node_name or ""), progress.uid, now)
    if reading is not None:
        progress = progress.read(reading)
    left = progress.left(float(total), reading, now)
    if left is None and whole is not None and reading is not None:
        done = min(reading.value / float(total), 1.0)
        left = WorkLeft((1 - done) * whole.seconds, (1 - done) * whole.error)
    return FollowedPod(pod, progress, left, problem)


def _reading(
    allocation: NodeAllocation | None, uid: str, now: int
) -> tuple[CounterSample | None, str]:
    """Return the last reading of a pod's counter, and why there is no later one.

    Agents are not trusted: they may report counters of pods on their node only, and plausible
    numbers. A time in the future is now.
    """
    if allocation is None or all(each.pod_uid != uid for each in allocation.spec.counters):
        return None, ""
    for counter in listed(allocation.status or {}, "counters"):
        if counter.get("podUID") != uid:
            continue
        problem, value = counter.get("problem"), counter.get("value")
        at = seconds_of(counter.get("time"))
        why = problem[:MOST_PROBLEM] if isinstance(problem, str) else ""
        if at is None or not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
            return None, why
        number = float(value)
        return (CounterSample(number, min(at, now)) if number <= LARGEST else None), why
    return None, ""


def _whole_work(job: MarketJob, profiles: Mapping[Name, SpeedupProfile]) -> WorkLeft | None:
    """Return the predicted time of a whole run on one core; None if its profile has no times.

    Times that are refused are none.
    """
    try:
        profile = profile_of(job, profiles)
        if profile is None or not profile.spec.measurements or profile.refused:
            return None
        fit, size = profile.fit, full_size(job.spec.data)
        seconds = fit.predict_seconds(1, size)
        if 1 in fit.time_models:
            return WorkLeft(seconds, fit.time_models[1].residual)
        alone = [each for each in samples_of(profile.spec) if each.cores == 1]
        return WorkLeft(seconds, seconds * max(each.uncertainty for each in alone))
    except ValueError:
        return None


def with_deadlines(snapshot: Snapshot, followed: Mapping[Name, FollowedJob], now: str) -> Snapshot:
    """Return the snapshot with the deadlines of running pods whose work left is known."""
    moment = seconds_of(now) or 0
    deadlines = {
        (each.pod.metadata.namespace, each.pod.metadata.name): Deadline(
            seconds=float(job.time - moment),
            left=each.left.seconds,
            error=each.left.error,
            reserved=each.progress.reserved,
        )
        for job in followed.values()
        for each in job.pods
        if each.left is not None
    }
    if not deadlines:
        return snapshot
    jobs = tuple(
        replace(job, deadline=deadlines[job.namespace, job.pod])
        if job.node and (job.namespace, job.pod) in deadlines
        else job
        for job in snapshot.jobs
    )
    return replace(snapshot, jobs=jobs)


def counters(followed: Mapping[Name, FollowedJob]) -> dict[str, tuple[CounterRequest, ...]]:
    """Return the counters that agents are to read, by node, sorted by UID of the pod."""
    by_node: defaultdict[str, list[CounterRequest]] = defaultdict(list)
    for job in followed.values():
        progress = job.job.spec.progress
        if progress is None or progress.total is None:
            continue
        for pod in job.pods:
            address = pod.pod.status.pod_ip if progress.http is not None else None
            if pod.pod.spec.node_name is None or (address is not None and not is_address(address)):
                continue
            document = {
                "podUID": pod.pod.metadata.uid,
                **progress.model_dump(by_alias=True, exclude={"total"}),
                "podIP": address,
            }
            by_node[pod.pod.spec.node_name].append(CounterRequest.model_validate(document))
    return {
        node: tuple(sorted(each, key=lambda asked: asked.pod_uid)) for node, each in by_node.items()
    }


def ended_pods(world: World) -> Iterator[Reference]:
    """Yield the pods of jobs with deadlines that no longer run and whose end no status has yet."""
    alive: frozenset[str] | None = None
    for job in world.objects.jobs:
        if job.spec.deadline is None:
            continue
        for progress in _progress_of(job).values():
            if alive is None:
                alive = world.live_pods()
            if progress.finished is None and progress.uid not in alive:
                yield Reference("Pod", progress.name, job.metadata.namespace, progress.uid)
