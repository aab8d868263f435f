"""Who may use how many CPUs, as a cluster says it: by ResourceQuotas, or by Kueue's queues.

Kueue's objects are read in its versions v1beta1, v1beta2 and v1, of which only the name of the
field for the cohort of a ClusterQueue differs here. CPUs are in thousandths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras_api.api_object import quantity, whole_units
from walras_api.cluster import Requirement
from walras_api.model import MOST_ENTRIES
from walras_api.pod_request import AskedByPod, GivenToPod, request_of
from walras_api.waiting import is_met

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KUEUE = "kueue.x-k8s.io"
"""API group of Kueue."""

QUEUE_LABEL = f"{KUEUE}/queue-name"
"""Label of a workload or its pods: the LocalQueue in which it waits."""

_LONGEST_NAME = 253
_NOT_REPORTED = GivenToPod()


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """A ResourceQuota on the CPUs that all pods of a namespace request."""

    namespace: str
    name: str
    cpus: int


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue of Kueue.

    Attributes:
        name: Its name.
        cpus: Its nominal quotas of CPUs, of all flavors together.
        cohort: Name of its cohort, whose members lend each other quota; empty for none.
        labels: Labels of the namespaces that may use it, with their values.
        requirements: What else it demands of these labels.
        is_open: Whether any namespace may use it.
    """

    name: str
    cpus: int
    cohort: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    requirements: tuple[Requirement, ...] = ()
    is_open: bool = True

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Return whether a namespace with these labels may use it."""
        return (
            self.is_open
            and all(labels.get(key) == value for key, value in self.labels)
            and all(is_met(each, labels) for each in self.requirements)
        )


@dataclass(frozen=True, slots=True)
class Cohort:
    """A Cohort of Kueue, which exists as an object only if it has a parent or a quota.

    Attributes:
        name: Its name.
        cpus: CPUs that its members share beyond their own quotas.
        parent: Name of the cohort above it; empty for none.
    """

    name: str
    cpus: int
    parent: str = ""


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A LocalQueue of Kueue: the way from a namespace to a ClusterQueue."""

    namespace: str
    name: str
    cluster_queue: str


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A Workload of Kueue that has not finished.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        local_queue: LocalQueue in which it waits or waited.
        admitted_by: ClusterQueue that has set quota aside for it; empty if none has.
        cpus: CPUs that were set aside for it, or that it requests.
        is_waiting: Whether it waits to be admitted.
        owners: UIDs of the objects that it stands for, such as a Job, or the pods of a group; only
            the first while no ClusterQueue has admitted it.
    """

    namespace: str
    name: str
    local_queue: str
    admitted_by: str
    cpus: int
    is_waiting: bool
    owners: tuple[str, ...] = ()


Quota = CpuQuota | ClusterQueue | Cohort | LocalQueue | QueuedWorkload


def read_quota(document: Mapping[str, Any]) -> Quota | None:
    """Return what a document of any kind says of quotas; None if it says nothing.

    What is malformed in it counts as absent.
    """
    metadata, spec = _dict(document.get("metadata")), _dict(document.get("spec"))
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    match str(document.get("apiVersion")).partition("/")[0], document.get("kind"):
        case "v1", "ResourceQuota":
            return _cpu_quota(namespace, name, spec)
        case group, "ClusterQueue" if group == KUEUE:
            return _cluster_queue(name, spec)
        case group, "Cohort" if group == KUEUE:
            return Cohort(name, _nominal(spec), _name(spec.get("parentName")))
        case group, "LocalQueue" if group == KUEUE:
            return LocalQueue(namespace, name, _name(spec.get("clusterQueue")))
        case group, "Workload" if group == KUEUE:
            status = _dict(document.get("status"))
            return _workload(namespace, name, metadata.get("ownerReferences"), spec, status)
    return None


def _cpu_quota(namespace: str, name: str, spec: Mapping[str, Any]) -> CpuQuota | None:
    """Return a quota of CPUs; None if there is none, or if it is only for some pods."""
    hard = _dict(spec.get("hard"))
    stated = [hard[each] for each in ("requests.cpu", "cpu") if hard.get(each) is not None]
    if not stated or spec.get("scopes") or spec.get("scopeSelector"):
        return None
    return CpuQuota(namespace, name, min(map(_thousandths, stated)))


def _cluster_queue(name: str, spec: Mapping[str, Any]) -> ClusterQueue:
    cohort = _name(spec.get("cohortName") or spec.get("cohort"))
    selector, requirements = spec.get("namespaceSelector"), []
    labels = _dict(_dict(selector).get("matchLabels"))
    is_open = isinstance(selector, dict)  # without one, Kueue admits no namespace
    for each in _dicts(_dict(selector).get("matchExpressions")):
        try:
            requirements.append(Requirement.model_validate(each))
        except ValueError:
            is_open = False
    wanted = tuple(sorted((str(key), str(value)) for key, value in labels.items()))
    return ClusterQueue(name, _nominal(spec), cohort, wanted, tuple(requirements), is_open)


def _workload(
    namespace: str, name: str, owners: Any, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> QueuedWorkload | None:
    """Return a Workload; None if it has finished."""
    held = {str(each.get("type")) for each in _true(status.get("conditions"))}
    if "Finished" in held:
        return None
    admission = _dict(status.get("admission"))
    queue = _name(admission.get("clusterQueue"))
    # Users may write thousands that wait, with hundreds of owners each, as a group of pods has.
    most = MOST_ENTRIES if queue else 1
    uids = (str(each.get("uid") or "")[:_LONGEST_NAME] for each in _dicts(owners)[:most])
    return QueuedWorkload(
        namespace,
        name,
        _name(spec.get("queueName")),
        queue,
        sum(_set_aside(admission, status)) if queue else sum(_requested(spec)),
        spec.get("active") is not False and not (queue and "Admitted" in held),
        tuple(filter(None, uids)),
    )


def _set_aside(admission: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[int]:
    """Yield the CPUs that each set of pods of an admitted Workload still needs."""
    ended = {
        str(each.get("name")): _count(each.get("count"), 0)
        for each in _dicts(status.get("reclaimablePods"))
    }
    for each in _dicts(admission.get("podSetAssignments")):
        cpus = _thousandths(_dict(each.get("resourceUsage")).get("cpu"))
        pods = _count(each.get("count"), 0)
        left = max(pods - ended.get(str(each.get("name")), 0), 0)
        yield cpus * left // pods if pods else cpus


def _requested(spec: Mapping[str, Any]) -> Iterator[int]:
    """Yield the CPUs that each set of pods of a Workload requests."""
    for each in _dicts(spec.get("podSets")):
        try:
            pod = AskedByPod.model_validate(_dict(_dict(each.get("template")).get("spec")))
            cpus = whole_units("cpu", max(request_of(pod, _NOT_REPORTED, "cpu"), quantity(0)))
        except ValueError:
            continue
        yield cpus * _count(each.get("count"), 1)


def _nominal(spec: Mapping[str, Any]) -> int:
    """Return the nominal quotas of CPUs of a ClusterQueue or a Cohort."""
    return sum(
        _thousandths(resource.get("nominalQuota"))
        for group in _dicts(spec.get("resourceGroups"))
        for flavor in _dicts(group.get("flavors"))
        for resource in _dicts(flavor.get("resources"))
        if resource.get("name") == "cpu"
    )


def _true(conditions: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in _dicts(conditions) if each.get("status") == "True")


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _name(value: Any) -> str:
    return value[:_LONGEST_NAME] if isinstance(value, str) else ""


def _count(value: Any, default: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return default
    return min(max(value, 0), 1 << 31)


def _thousandths(amount: Any) -> int:
    """Return a quantity of CPUs in thousandths; 0 if it is none."""
    try:
        return 0 if amount is None else max(whole_units("cpu", quantity(amount)), 0)
    except ValueError:
        return 0
