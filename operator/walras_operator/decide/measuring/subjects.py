"""Pure: choose which profiles are measured on running pods, and on which pods.

A profile is measured if jobs use it and its spec has no parallel fraction, and no measurements or
such as are refused.
It need not exist yet: for a job without a stated speedup, a profile of the name of its program, or
of the job, is created.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from walras_api.node_allocation import is_address
from walras_operator.decide.measuring.measurement_record import EMPTY, read_record
from walras_operator.decide.world import Reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walras.market.plan import Grant
    from walras_api.cluster import Pod
    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJob, SpeedupProfile
    from walras_api.speedup_profile import ProfileSampling
    from walras_operator.decide.enforcement import Enforcement
    from walras_operator.decide.job_outcomes import JobOutcomes
    from walras_operator.decide.measuring.measurement_record import ProfileRecord
    from walras_operator.decide.world import World

MIN_CORES = 2
"""Least cores on which a speedup shows; a pod that holds one has a second one while it lasts."""


class Candidate(NamedTuple):
    """A pod that can be measured.

    Attributes:
        job: MarketJob of the pod.
        pod: The pod.
        node: Node that it runs on.
        cores: Whole cores that it can be measured on.
        lacks_one: Whether it holds one of them less.
    """

    job: MarketJob
    pod: Pod
    node: str
    cores: int
    lacks_one: bool = False


class Subject(NamedTuple):
    """A profile that is measured.

    Attributes:
        key: Namespace and name of the profile.
        profile: The profile; None if it does not exist yet.
        record: Record of its measurements so far.
        jobs: MarketJobs that use it.
        candidates: Pods that can be measured, those with most cores of their own first, then by
            name.
        granted: Most whole cores that any of their pods could be measured on.
    """

    key: Name
    profile: SpeedupProfile | None
    record: ProfileRecord
    jobs: Sequence[MarketJob]
    candidates: Sequence[Candidate]
    granted: int

    @property
    def sampling(self) -> ProfileSampling | None:
        """Core counts that the profile asks for; None if it asks for none."""
        return None if self.profile is None else self.profile.spec.sampling


def subjects(world: World, outcomes: JobOutcomes) -> list[Subject]:
    """Return the profiles that are measured, sorted by namespace and name."""
    profiles = {
        (each.metadata.namespace, each.metadata.name): each for each in world.objects.profiles
    }
    jobs: defaultdict[Name, list[MarketJob]] = defaultdict(list)
    for job in _unknown(world, outcomes):
        jobs[job.metadata.namespace, job.profile_name].append(job)
    return [
        _subject(key, profiles.get(key), jobs[key], outcomes)
        for key in sorted(jobs)
        if Reference("SpeedupProfile", key[1], key[0]) not in world.broken
    ]


def _unknown(world: World, outcomes: JobOutcomes) -> Iterator[MarketJob]:
    """Yield the jobs that take part and have no stated speedup."""
    speedups: Mapping[Name, object] = outcomes.validated.speedups
    for job in world.objects.jobs:
        key = job.metadata.namespace, job.metadata.name
        if key in speedups and outcomes.validated.speedups[key].source in {"Assumed", "Online"}:
            yield job


def _subject(
    key: Name, profile: SpeedupProfile | None, jobs: Iterable[MarketJob], outcomes: JobOutcomes
) -> Subject:
    granted = [each for job in jobs for each in _granted(job, outcomes)]
    measurable = [each for each in granted if _can_be_measured(each, outcomes.enforced)]
    return Subject(
        key,
        profile,
        EMPTY if profile is None else read_record(profile.status),
        sorted(jobs, key=lambda job: job.metadata.name),
        sorted(measurable, key=lambda each: (-each.cores, each.lacks_one, each.pod.metadata.name)),
        max((each.cores for each in granted), default=0),
    )


def _granted(job: MarketJob, outcomes: JobOutcomes) -> Iterator[Candidate]:
    key = job.metadata.namespace, job.metadata.name
    objects = outcomes.validated.objects
    for number in outcomes.pods.get(key, ()):
        pod = objects.pods[number]
        name = pod.metadata.namespace, pod.metadata.name
        grant: Grant | None = outcomes.grants.get(name)
        if grant is not None and name not in outcomes.ungranted:
            own, most = grant.own_cores, job.spec.max_cores
            # A quota that stays would throttle the pod on the core that it lacks.
            throttled = objects.rules.cores.limits == "Kept" and pod.cpu_limit < math.inf
            lacks_one = own == 1 and (most is None or most > own) and not throttled
            yield Candidate(job, pod, grant.node, own + lacks_one, lacks_one)


def _can_be_measured(each: Candidate, enforced: Mapping[tuple[str, str], Enforcement]) -> bool:
    """Return whether a pod has a core, may use two, and its progress counter is reachable.

    A pending grant counts: memory may be pending for long, and if cores are, which takes seconds,
    the agent waits with the measurement.
    """
    held = enforced.get((each.node, each.pod.metadata.uid))
    progress = each.job.spec.progress
    return (
        each.cores >= MIN_CORES
        and (progress is None or progress.http is None or is_address(each.pod.status.pod_ip))
        and held is not None
        and (held.pending or held.state == "Enforced")
    )
