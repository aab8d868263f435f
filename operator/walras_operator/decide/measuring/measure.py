"""Pure: choose what nodes measure next.

1. `results`: results of earlier requests; the market is cleared with them.
2. `subjects`: profiles without a stated speedup, and the pods that could be measured for them.
3. `queue`: the profiles that are measured next.
4. `reasons`: why the others have no measurement yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from walras_api.contract import API_VERSION, MANAGED_BY_LABEL, MARKET_JOB_LABEL, OPERATOR
from walras_api.parse import parse_resource
from walras_api.speedup_profile import SpeedupProfile
from walras_operator.decide.measuring.co_runners import Company
from walras_operator.decide.measuring.measurement_record import (
    read_record,
    with_record,
    with_request,
    without_request,
)
from walras_operator.decide.measuring.queue import QueueContext, lost_requests, new_requests
from walras_operator.decide.measuring.reasons import unmeasured_reason
from walras_operator.decide.measuring.requests import build_request
from walras_operator.decide.measuring.results import has_request, results
from walras_operator.decide.measuring.subjects import Subject, subjects
from walras_operator.decide.world import ProfileWrite, Reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketSpec
    from walras_api.market import ProfilingPolicy
    from walras_api.node_allocation import ProfilingRequest
    from walras_operator.decide.conditions import Problem
    from walras_operator.decide.job_outcomes import JobOutcomes
    from walras_operator.decide.world import Document, World

LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """The measurements that nodes make now.

    Attributes:
        requests: Requests by node.
        profiles: All profiles, new ones included, with their new statuses without conditions.
        created: Profiles to create.
        reasons: Why a job's speedup is not measured yet, by namespace and name of the job.
    """

    requests: Mapping[str, ProfilingRequest]
    profiles: tuple[SpeedupProfile, ...]
    created: tuple[ProfileWrite, ...] = ()
    reasons: Mapping[Name, Problem] = field(default_factory=dict)


def with_results(world: World, rules: MarketSpec) -> World:
    """Return the world with the results of all finished measurements."""
    statuses = results(world, rules.profiling.reprofile_threshold)
    if not statuses:
        return world
    profiles = _with_statuses(world.objects.profiles, statuses)
    return replace(world, objects=replace(world.objects, profiles=profiles))


def plan_measurements(world: World, rules: MarketSpec, decided: JobOutcomes) -> MeasurementPlan:
    """Choose what nodes measure now.

    Args:
        world: World with the results of all finished measurements.
        rules: Rules of the market.
        decided: Grants of all pods, and whether they are enforced.
    """
    if rules.mode == "observe" or not rules.profiling.automatic:
        return without_measurements(world)
    all_subjects = subjects(world, decided)
    waiting = [each for each in all_subjects if each.record.request is None]
    requests = _running(all_subjects, world, rules.profiling)
    begun = lost_requests(waiting, world.allocations, requests)
    requests.update((each.request.node, each.order) for each in begun.values())
    waiting = [each for each in waiting if each.key not in begun]
    active = len(all_subjects) - len(waiting)
    pairing = rules.colocation.policy != "None"
    context = QueueContext(rules.profiling, world.now, Company(world), pairing)
    begun |= new_requests(waiting, requests, active, context)
    requests.update((each.request.node, each.order) for each in begun.values())
    recorded = {
        each.key: each._replace(record=with_request(each.record, begun[each.key].request))
        for each in all_subjects
        if each.key in begun
    }
    created = [each for each in recorded.values() if each.profile is None]
    statuses = {
        key: with_record(None if each.profile is None else each.profile.status, each.record)
        for key, each in recorded.items()
    }
    profiles = (*_without_stale_requests(world, all_subjects), *map(_profile, created))
    return MeasurementPlan(
        requests,
        tuple(_with_statuses(profiles, statuses)),
        tuple(map(_write, created)),
        {
            (job.metadata.namespace, job.metadata.name): unmeasured_reason(each)
            for each in (recorded.get(each.key, each) for each in all_subjects)
            if not each.record.measurements
            for job in each.jobs
        },
    )


def without_measurements(world: World) -> MeasurementPlan:
    """Return the plan that ends all measurements."""
    return MeasurementPlan({}, _without_stale_requests(world, ()))


def _running(
    subjects: Iterable[Subject], world: World, rules: ProfilingPolicy
) -> dict[str, ProfilingRequest]:
    """Return requests that have not ended, by node.

    A node without its request gets it again: the write failed, or somebody has removed it.
    """
    requests: dict[str, ProfilingRequest] = {}
    for subject in subjects:
        request = subject.record.request
        if request is None or request.node in requests:
            continue
        allocation = world.allocations.get(request.node)
        present = None if allocation is None else allocation.spec.profiling
        if present is not None and present.id == request.id:
            requests[request.node] = present
            continue
        for each in subject.candidates:
            if (each.pod.metadata.uid, each.node) == (request.pod_uid, request.node):
                requests[request.node] = build_request(
                    request.id, request.purpose, each, subject.sampling, rules
                )
    return requests


def _without_stale_requests(
    world: World, subjects: Iterable[Subject]
) -> tuple[SpeedupProfile, ...]:
    """Return all profiles, without the requests of profiles that are not measured any more."""
    wanted = {each.key for each in subjects}
    stale = {
        _key(each): with_record(each.status, without_request(read_record(each.status)))
        for each in world.objects.profiles
        if has_request(each) and _key(each) not in wanted
    }
    return tuple(_with_statuses(world.objects.profiles, stale))


def _with_statuses(
    profiles: Iterable[SpeedupProfile], statuses: Mapping[Name, Document]
) -> list[SpeedupProfile]:
    if not statuses:
        return list(profiles)
    return [
        each.model_copy(update={"status": statuses[_key(each)]}) if _key(each) in statuses else each
        for each in profiles
    ]


def _key(profile: SpeedupProfile) -> Name:
    return profile.metadata.namespace, profile.metadata.name


def _profile(subject: Subject) -> SpeedupProfile:
    made = parse_resource(_document(subject))
    if not isinstance(made, SpeedupProfile):
        raise TypeError("the document is a SpeedupProfile")
    return made


def _write(subject: Subject) -> ProfileWrite:
    namespace, name = subject.key
    return ProfileWrite(Reference("SpeedupProfile", name, namespace), _document(subject))


def _document(subject: Subject) -> Document:
    """Return a profile; a job's is owned by the job and deleted with it, a program's stays."""
    namespace, name = subject.key
    owner = subject.jobs[0]
    metadata: Document = {
        "name": name,
        "namespace": namespace,
        "labels": {MANAGED_BY_LABEL: OPERATOR},
    }
    if all(job.spec.program is None for job in subject.jobs):
        uid = owner.metadata.uid
        reference = {"apiVersion": API_VERSION, "kind": "MarketJob", "name": name, "uid": uid}
        metadata["ownerReferences"] = [reference]
        if len(name) <= LONGEST_LABEL:
            metadata["labels"][MARKET_JOB_LABEL] = name
    return {
        "apiVersion": API_VERSION,
        "kind": "SpeedupProfile",
        "metadata": metadata,
        "spec": {},
    }
