"""Pure: choose the MarketJobs that are made, changed or deleted for labelled workloads."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, count
from typing import TYPE_CHECKING, Any, NamedTuple

from walras.market.admission import AccessPolicy
from walras_api.assembly import entitlement_of
from walras_api.contract import (
    API_VERSION,
    ENTITLEMENT_LABEL,
    GROUP,
    JOB_SETTINGS,
    MANAGED_BY_LABEL,
    OPERATOR,
)
from walras_api.kinds import MarketJob
from walras_api.parse import ResourceError, parse_resource
from walras_api.selection import select
from walras_operator.decide.conditions import Problem
from walras_operator.decide.workload_members import Member, Target, target_of, workload_members
from walras_operator.decide.world import AutomaticWrite, Reference, reference_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from walras_api.assembly import Objects
    from walras_api.cluster import OwnerReference
    from walras_api.job_inputs import Name
    from walras_api.kinds import MarketJobSpec, MarketSpec
    from walras_operator.decide.world import Document, World

_PLAIN = {
    "deadline": "deadline",
    "maxCores": "max-cores",
    "minCores": "min-cores",
    "parallelFraction": "parallel-fraction",
    "program": "program",
    "work": "work",
}
"""Fields of a MarketJob's spec that are set by one annotation each, and its name."""

_WHOLE_NUMBERS = frozenset({"maxCores", "minCores"})
_LONGEST_NUMBER = 12

_LONGEST_NAME = 200
"""Characters of the name of an automatic MarketJob, of which profiles and Events are named, too."""

_SPECS_KEPT = 1 << 14


@dataclass(frozen=True, slots=True)
class WorkloadJobs:
    """The MarketJobs of labelled workloads.

    Attributes:
        writes: MarketJobs to create, change or delete, sorted by namespace and name.
        problems: Annotations that cannot be used, by namespace and name of the MarketJob.
    """

    writes: tuple[AutomaticWrite, ...] = ()
    problems: Mapping[Name, Problem] = field(default_factory=dict)


class _Spec(NamedTuple):
    """The spec of a workload's MarketJob, as a document and parsed, and what is wrong with it."""

    document: Document
    parsed: MarketJobSpec
    wrong: tuple[str, ...]


def workload_jobs(world: World, rules: MarketSpec) -> WorkloadJobs:
    """Return the MarketJobs to write, so that every workload that takes part has one.

    A MarketJob that somebody writes for the same pods replaces the automatic one.
    """
    objects = world.objects
    automatic = {target: job for job in objects.jobs if (target := target_of(job)) is not None}
    admitted = _admitted_namespaces(objects) if rules.jobs.create == "Entitled" else frozenset()
    members, undecided = world.kept.of(
        "",
        workload_members,
        objects.pods,
        objects.workloads,
        objects.jobs,
        objects.controllers,
        admitted,
        rules.jobs.create,
    )
    if not members and not automatic:
        return WorkloadJobs()
    specs = _specs(world, members)
    taken = {(job.metadata.namespace, job.metadata.name) for job in objects.jobs}
    taken |= {(each.namespace, each.name) for each in world.broken if each.kind == "MarketJob"}
    writes: list[AutomaticWrite] = []
    problems: dict[Name, Problem] = {}
    for target, spec in sorted(specs.items()):
        present = automatic.get(target)
        name = _free_name(target, taken) if present is None else present.metadata.name
        taken.add((target.namespace, name))
        if spec.wrong:
            problems[target.namespace, name] = Problem("Invalid", "; ".join(spec.wrong))
        if present is None or present.spec != spec.parsed:
            new = Reference("MarketJob", name, target.namespace)
            workload = members[target][0].origin.workload
            document = _document(name, target.namespace, workload, spec.document)
            writes.append(
                AutomaticWrite(new if present is None else reference_of(present), document)
            )
    deserted = [
        job
        for target, job in automatic.items()
        if target not in members and target.namespace not in undecided
    ]
    if deserted:
        selected = select(deserted, objects.pods, objects.controllers).job.values()
        ending = {job.metadata.uid for job in deserted if job.metadata.deletion_timestamp}
        unused = {reference_of(job) for job in selected}
        writes += (AutomaticWrite(each, None) for each in unused if each.uid not in ending)
    return WorkloadJobs(tuple(sorted(writes, key=lambda each: each.object)), problems)


def _specs(world: World, members: Mapping[Target, Sequence[Member]]) -> dict[Target, _Spec]:
    """Return the specs of the workloads' MarketJobs, without workloads that cannot exist."""
    objects = world.objects
    queues = {} if world.quotas is None else world.quotas.queue_of_owner
    divided = {each.spec.parent for each in objects.entitlements}
    access = AccessPolicy(map(entitlement_of, objects.entitlements))
    labels = {each.metadata.name: each.metadata.labels for each in objects.namespaces}
    defaults: dict[str, str] = {}
    specs = {}
    for target, pods in members.items():
        newest, namespace = max(pods, key=lambda each: each.age), target.namespace
        if namespace not in defaults:
            own = labels.get(namespace, {})
            defaults[namespace] = _default_entitlement(namespace, own, access)
        settings, origin = newest.settings, newest.origin
        chosen = tuple((key, settings[key]) for key in JOB_SETTINGS if key in settings)
        made_by = ((namespace, each) for each in (origin.workload.uid, newest.pod.metadata.uid))
        queue = next((queues[each] for each in made_by if each in queues), "")
        default = defaults[namespace] if not queue or queue in divided else queue
        entitlement = settings.get(ENTITLEMENT_LABEL) or default
        version = origin.workload.api_version
        spec = _spec(target, version, entitlement, origin.schedule, chosen)
        if spec is not None:
            specs[target] = spec
    return specs


def _admitted_namespaces(objects: Objects) -> frozenset[str]:
    """Return the namespaces that name an entitlement, or that only one entitlement admits."""
    access = AccessPolicy(map(entitlement_of, objects.entitlements))
    labels = {each.metadata.name: each.metadata.labels for each in objects.namespaces}
    return frozenset(
        name
        for name, own in labels.items()
        if ENTITLEMENT_LABEL in own or access.only_entitlement(name, own) is not None
    )


def _default_entitlement(namespace: str, labels: Mapping[str, str], access: AccessPolicy) -> str:
    """Return the entitlement of a namespace's workloads.

    It is the one that the namespace names by a label, else the only one that admits the namespace,
    else one with the namespace's name: if it does not exist, the MarketJob's conditions say so.
    """
    named = labels.get(ENTITLEMENT_LABEL)
    return named or access.only_entitlement(namespace, labels) or namespace


def _free_name(target: Target, taken: Collection[Name]) -> str:
    """Return the workload's name, or one made of it that no other MarketJob has.

    Thousands of workloads may have names with the same beginning, so their digests follow.
    """
    identity = f"{target.group}/{target.kind}/{target.name}"
    kind, digest = target.kind.lower(), hashlib.sha256(identity.encode()).hexdigest()[:10]
    endings = chain(
        ("", f"-{kind}", f"-{kind}-{digest}"), (f"-{kind}-{digest}-{n}" for n in count(2))
    )
    candidates = (target.name[: _LONGEST_NAME - len(end)].rstrip("-.") + end for end in endings)
    return next(each for each in candidates if (target.namespace, each) not in taken)


@lru_cache(maxsize=_SPECS_KEPT)
def _spec(
    target: Target,
    api_version: str,
    entitlement: str,
    schedule: str,
    settings: tuple[tuple[str, str], ...],
) -> _Spec | None:
    """Return the spec of a workload's MarketJob; None if no workload has such a name.

    Args:
        target: Namespace, kind and name of the workload.
        api_version: Version of its API.
        entitlement: Name of the entitlement to draw on.
        schedule: Name of the schedule that made it; empty if none did.
        settings: Annotations that set fields, by name.
    """
    reference = {"apiVersion": api_version, "kind": target.kind, "name": target.name}
    spec: Document = {"entitlement": target.namespace, "targetRef": reference}
    if _problem(spec, target.namespace):
        return None
    wrong = []
    given = dict(settings)
    wanted = [("entitlement", ENTITLEMENT_LABEL, entitlement), *_fields(given)]
    if schedule and f"{GROUP}/program" not in given:
        wanted.append(("program", "", schedule))
    for name, annotation, value in wanted:
        problem = _problem({**spec, name: value}, target.namespace)
        if problem:
            wrong.append(f"annotation {annotation}: {problem}")
        else:
            spec[name] = value
    return _Spec(spec, _parsed(_document("job", target.namespace, None, spec)).spec, tuple(wrong))


def _fields(given: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """Yield the fields that annotations set: name of the field, annotation, and value."""
    for field_name, name in _PLAIN.items():
        if (key := f"{GROUP}/{name}") in given:
            value = given[key]
            is_number = field_name in _WHOLE_NUMBERS and value.isascii() and value.isdecimal()
            yield field_name, key, int(value[:_LONGEST_NUMBER]) if is_number else value
    if (key := f"{GROUP}/memory") in given:
        yield "memory", key, {"demand": given[key]}
    port, file = f"{GROUP}/progress-port", f"{GROUP}/progress-file"
    whole = f"{GROUP}/progress-total"
    total = {"total": given[whole]} if whole in given else {}
    if port in given:
        number = given[port]
        page: Document = {"port": int(number[:6]) if number.isdecimal() else number}
        page |= {
            name: given[key]
            for name in ("path", "metric")
            if (key := f"{GROUP}/progress-{name}") in given
        }
        yield "progress", port, {"http": page, **total}
    elif file in given:
        yield "progress", file, {"file": given[file], **total}


def _problem(spec: Document, namespace: str) -> str:
    """Return what is wrong with a MarketJob's spec; empty if nothing is."""
    try:
        _parsed(_document("job", namespace, None, spec))
    except ResourceError as error:
        return error.problems[0].partition(": ")[2]
    return ""


def _document(
    name: str, namespace: str, workload: OwnerReference | None, spec: Document
) -> Document:
    """Return a MarketJob, which is owned by its workload and deleted with it."""
    metadata: Document = {
        "name": name,
        "namespace": namespace,
        "labels": {MANAGED_BY_LABEL: OPERATOR},
    }
    if workload is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": workload.api_version,
                "kind": workload.kind,
                "name": workload.name,
                "uid": workload.uid,
            }
        ]
    return {"apiVersion": API_VERSION, "kind": "MarketJob", "metadata": metadata, "spec": spec}


def _parsed(document: Document) -> MarketJob:
    made = parse_resource(document)
    if not isinstance(made, MarketJob):
        raise TypeError("the document is a MarketJob")
    return made
