"""Pure: which pods belong to workloads that take part in the market.

A workload is whatever stands at the top of a pod's owners: a Deployment above a ReplicaSet, a
RayJob above a RayCluster. What makes workloads on a schedule, such as a CronJob, is none: each of
its Jobs is a workload, and the schedule names the program that they all run.
"""

from __future__ import annotations

from collections import ChainMap, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from walras_api.cluster import OwnerReference, group_of
from walras_api.contract import JOB_LABEL
from walras_api.selection import NO_CONTROLLERS, OwnerKey, owners, select
from walras_operator.decide.workload_owners import is_readable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walras_api.cluster import ObjectMeta, Pod, Workload
    from walras_api.kinds import MarketJob
    from walras_api.selection import Controllers

SCHEDULES = frozenset({"CronJob", "CronWorkflow", "ScheduledSparkApplication", "RayCronJob"})
"""Kinds that make a new workload for every run of a program."""

PER_NODE = frozenset({"DaemonSet", "Node"})
"""Kinds whose pods belong to nodes, and take part only if they are labelled."""


class Target(NamedTuple):
    """The workload that a MarketJob names as its target."""

    namespace: str
    kind: str
    name: str
    group: str


class Origin(NamedTuple):
    """The workload that made a pod.

    Attributes:
        workload: Reference to the workload.
        schedule: Name of the schedule that made the workload; empty if none did.
        labelled: Labelled owners of the pod, the nearest first.
    """

    workload: OwnerReference
    schedule: str
    labelled: tuple[Workload, ...]


class Member(NamedTuple):
    """A pod of a workload that takes part, and where it comes from."""

    pod: Pod
    origin: Origin

    @property
    def age(self) -> tuple[str, str]:
        """Sort key by age."""
        return self.pod.metadata.creation_timestamp, self.pod.metadata.name

    @property
    def sources(self) -> list[ObjectMeta]:
        """Metadata whose labels and annotations count, those of the pod first."""
        return [self.pod.metadata, *(each.metadata for each in self.origin.labelled)]

    @property
    def settings(self) -> Mapping[str, str]:
        """Annotations and labels that set fields of its MarketJob."""
        kept = (kept for each in self.sources for kept in (each.annotations, each.labels))
        return ChainMap(*kept)


def target_of(job: MarketJob) -> Target | None:
    """Return the workload of an automatic MarketJob; None if somebody has written the MarketJob."""
    target = job.spec.target_ref
    if target is None or not job.is_automatic:
        return None
    group = group_of(target.api_version)
    return Target(job.metadata.namespace, target.kind, target.name, group)


def workload_members(
    pods: Sequence[Pod],
    workloads: Sequence[Workload],
    jobs: Sequence[MarketJob],
    controllers: Controllers,
    admitted: Collection[str],
    create: str,
) -> tuple[Mapping[Target, Sequence[Member]], Collection[str]]:
    """Return the pods of all workloads that take part, and namespaces with owners to look up.

    Args:
        pods: Pods of the cluster.
        workloads: Labelled workloads.
        jobs: MarketJobs, automatic ones and others.
        controllers: Controllers of the owners of pods, as far as they are known.
        admitted: Namespaces of which unlabelled workloads take part, too.
        create: ``spec.jobs.create`` of the Market.
    """
    by_target: defaultdict[Target, list[Member]] = defaultdict(list)
    undecided: set[str] = set()
    if create == "Never":
        return by_target, undecided
    labelled = {
        Target(
            each.metadata.namespace, each.kind, each.metadata.name, group_of(each.api_version)
        ): each
        for each in workloads
        if JOB_LABEL in each.metadata.labels
    }
    followed = {target.namespace for target in labelled}
    origins: dict[tuple[str, str, str, str, str], Origin | None] = {}
    for pod in pods:
        namespace = pod.metadata.namespace
        if not pod.alive or pod.is_static:
            continue
        if not (JOB_LABEL in pod.metadata.labels or namespace in followed or namespace in admitted):
            continue
        owner = next(owners(pod, NO_CONTROLLERS), None) or _itself(pod)
        key = namespace, owner.api_version, owner.kind, owner.name, owner.uid
        if key not in origins:
            origins[key] = _origin(pod, controllers, labelled)
        origin = origins[key]
        if origin is None:
            undecided.add(namespace)
        elif _takes_part(member := Member(pod, origin), admitted):
            top = origin.workload
            by_target[Target(namespace, top.kind, top.name, top.group)].append(member)
    written = [job for job in jobs if target_of(job) is None]
    if written:
        theirs = [(target, each.pod) for target, members in by_target.items() for each in members]
        for number in select(written, [pod for _, pod in theirs], controllers).job:
            by_target.pop(theirs[number][0], None)
    return by_target, undecided


def _itself(pod: Pod) -> OwnerReference:
    """Return a reference to a pod, which is its own workload if nothing owns it."""
    name, uid = pod.metadata.name, pod.metadata.uid
    return OwnerReference.model_construct(api_version="v1", kind="Pod", name=name, uid=uid)


def _origin(
    pod: Pod, controllers: Controllers, labelled: Mapping[Target, Workload]
) -> Origin | None:
    """Return where a pod comes from; None while the controller of an owner is to be looked up."""
    namespace, workload = pod.metadata.namespace, _itself(pod)
    schedule, marks = "", []
    for owner in owners(pod, controllers):
        if owner.kind in SCHEDULES:
            schedule = owner.name
            break
        workload = owner
        mark = labelled.get(Target(namespace, owner.kind, owner.name, owner.group))
        if mark is not None:
            marks.append(mark)
    else:
        owned = workload.uid != pod.metadata.uid
        if owned and is_readable(workload) and OwnerKey(namespace, workload) not in controllers:
            return None
    return Origin(workload, schedule, tuple(marks))


def _takes_part(member: Member, admitted: Collection[str]) -> bool:
    for each in member.sources:
        if JOB_LABEL in each.labels:
            return each.labels[JOB_LABEL] != "false"
    return member.pod.metadata.namespace in admitted and member.origin.workload.kind not in PER_NODE
