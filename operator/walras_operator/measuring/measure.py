"""Pure: choose what nodes measure next.

1. `outcomes`: results of earlier requests; the market is cleared with them.
2. `subjects`: profiles without a stated speedup, and the pods that could be measured for them.
3. `lost_requests`: requests that nodes have received but no profile has recorded.
4. `queue`: the profiles that are measured next.
5. `reasons`: why the others have no measurement yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from walras.resources.model import API_VERSION
from walras.resources.parse import parse_resource
from walras.resources.speedup_profile import SpeedupProfile
from walras_operator.measuring.lost_requests import lost_request
from walras_operator.measuring.outcomes import is_asked, outcomes
from walras_operator.measuring.queue import ask
from walras_operator.measuring.reasons import reason_of
from walras_operator.measuring.record import asked, noted, online_of, withdrawn
from walras_operator.measuring.requests import request_of
from walras_operator.measuring.subjects import Subject, subjects
from walras_operator.world import ProfileWrite, Reference

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from walras.resources.allocation import ProfilingRequest
    from walras.resources.kinds import MarketSpec
    from walras.resources.market import ProfilingPolicy
    from walras.resources.terms import Name
    from walras_operator.measuring.queue import NewRequest
    from walras_operator.status.conditions import Problem
    from walras_operator.status.job import Outcomes
    from walras_operator.world import Document, World

LABEL_MANAGED = "app.kubernetes.io/managed-by"
LABEL_JOB = "walras.dev/market-job"
LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class Measuring:
    """What agents measure next.

    Attributes:
        requests: Requests by node.
        profiles: All profiles, new ones included, with their new statuses without conditions.
        made: Profiles to create.
        reasons: Why a job's speedup is not measured yet, by namespace and name of the job.
    """

    requests: Mapping[str, ProfilingRequest]
    profiles: tuple[SpeedupProfile, ...]
    made: tuple[ProfileWrite, ...] = ()
    reasons: Mapping[Name, Problem] = field(default_factory=dict)


def with_outcomes(world: World, rules: MarketSpec) -> World:
    """Return the world with the results of all finished measurements."""
    found = outcomes(world, rules.profiling.reprofile_threshold)
    if not found:
        return world
    profiles = _with_statuses(world.objects.profiles, found)
    return replace(world, objects=replace(world.objects, profiles=profiles))


def measure(world: World, rules: MarketSpec, decided: Outcomes) -> Measuring:
    """Choose what nodes measure now.

    Args:
        world: World with the results of all finished measurements.
        rules: Rules of the market.
        decided: Grants of all pods, and whether they are enforced.
    """
    if rules.mode == "observe" or not rules.profiling.automatic:
        return withdraw(world)
    found = subjects(world, decided)
    requests = _running(found, world, rules.profiling)
    waiting = [each for each in found if each.record.request is None]
    begun = _unnoted(waiting, world, requests)
    requests.update((each.request.node, each.order) for each in begun.values())
    waiting = [each for each in waiting if each.key not in begun]
    active = len(found) - len(waiting)
    begun |= ask(waiting, requests, active, rules.profiling, world.now)
    requests.update((each.request.node, each.order) for each in begun.values())
    found = [
        each._replace(record=asked(each.record, begun[each.key].request))
        if each.key in begun
        else each
        for each in found
    ]
    made = [each for each in found if each.profile is None and each.key in begun]
    changed = {
        each.key: noted(None if each.profile is None else each.profile.status, each.record)
        for each in found
        if each.key in begun
    }
    profiles = (*_without_others(world, found), *map(_profile, made))
    return Measuring(
        requests,
        tuple(_with_statuses(profiles, changed)),
        tuple(_write(each) for each in made),
        {
            (job.metadata.namespace, job.metadata.name): reason_of(each)
            for each in found
            if not each.record.measurements
            for job in each.jobs
        },
    )


def withdraw(world: World) -> Measuring:
    """End all measurements."""
    return Measuring({}, _without_others(world, ()))


def _running(
    found: Iterable[Subject], world: World, rules: ProfilingPolicy
) -> dict[str, ProfilingRequest]:
    """Return requests that have not ended, by node.

    A node without its request gets it again: the write failed, or somebody has removed it.
    """
    requests: dict[str, ProfilingRequest] = {}
    for subject in found:
        asked_for = subject.record.request
        if asked_for is None or asked_for.node in requests:
            continue
        allocation = world.allocations.get(asked_for.node)
        present = None if allocation is None else allocation.spec.profiling
        if present is not None and present.id == asked_for.id:
            requests[asked_for.node] = present
            continue
        for each in subject.candidates:
            if (each.pod.cgroup_uid, each.node) == (asked_for.pod_uid, asked_for.node):
                requests[asked_for.node] = request_of(
                    asked_for.id, asked_for.purpose, each, subject.sampling, rules
                )
    return requests


def _unnoted(
    waiting: Iterable[Subject], world: World, busy: Collection[str]
) -> dict[Name, NewRequest]:
    """Return requests of idle nodes that no profile has recorded, by profile."""
    found: dict[Name, NewRequest] = {}
    taken = set(busy)
    for subject in waiting:
        asked_for = lost_request(subject, world.allocations)
        if asked_for is not None and asked_for.request.node not in taken:
            taken.add(asked_for.request.node)
            found[subject.key] = asked_for
    return found


def _without_others(world: World, found: Iterable[Subject]) -> tuple[SpeedupProfile, ...]:
    """Return all profiles, without requests that are no longer needed."""
    wanted = {each.key for each in found}
    idle = {
        _key(each): noted(each.status, withdrawn(online_of(each.status)))
        for each in world.objects.profiles
        if is_asked(each) and _key(each) not in wanted
    }
    return tuple(_with_statuses(world.objects.profiles, idle))


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
    """Return the profile of a job, which is owned by the job and deleted with it."""
    namespace, name = subject.key
    owner = subject.jobs[0].metadata
    labels = {LABEL_MANAGED: "walras-operator"}
    if len(name) <= LONGEST_LABEL:
        labels[LABEL_JOB] = name
    reference = {"apiVersion": API_VERSION, "kind": "MarketJob", "name": name, "uid": owner.uid}
    return {
        "apiVersion": API_VERSION,
        "kind": "SpeedupProfile",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [reference],
        },
        "spec": {},
    }
