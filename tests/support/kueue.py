"""Kueue's objects and kinds, written after its public API, and a small part that plays admission.

The definitions have the fields that Walras reads, in both versions that Kueue serves, and keep all
others. The controller admits Workloads as Kueue does in its simplest setting: in the order of their
names, up to the nominal quota of their queue and what its cohort does not use.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from walras_service.api import MERGE
from walras_service.kinds import Kind

if TYPE_CHECKING:
    from walras_service.api import Api

Document = dict[str, Any]

GROUP = "kueue.x-k8s.io"
NOW = "2026-01-31T12:00:00Z"

PLURALS = {
    "ClusterQueue": ("clusterqueues", False),
    "Cohort": ("cohorts", False),
    "LocalQueue": ("localqueues", True),
    "Workload": ("workloads", True),
}


def _object(kind: str, name: str, namespace: str, version: str, spec: Document) -> Document:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def _groups(cpus: dict[str, str]) -> list[Document]:
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": amount}]}
        for name, amount in cpus.items()
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def cluster_queue(
    name: str,
    *cpus: str,
    cohort: str = "",
    version: str = "v1beta2",
    selector: Document | None = None,
) -> Document:
    """Return a ClusterQueue with a nominal quota of CPUs for each of its flavors."""
    spec: Document = {"namespaceSelector": {} if selector is None else selector}
    spec["resourceGroups"] = _groups({f"flavor-{n}": each for n, each in enumerate(cpus)})
    if cohort:
        spec["cohort" if version == "v1beta1" else "cohortName"] = cohort
    return _object("ClusterQueue", name, "", version, spec)


def cohort(name: str, *cpus: str, parent: str = "", version: str = "v1beta2") -> Document:
    """Return a Cohort with a quota of CPUs for each of its flavors."""
    spec: Document = {"resourceGroups": _groups({f"f{n}": each for n, each in enumerate(cpus)})}
    if parent:
        spec["parentName"] = parent
    return _object("Cohort", name, "", version, spec)


def local_queue(namespace: str, name: str, queue: str, version: str = "v1beta2") -> Document:
    """Return a LocalQueue."""
    return _object("LocalQueue", name, namespace, version, {"clusterQueue": queue})


def workload(
    namespace: str,
    name: str,
    queue: str,
    cpus: str,
    *,
    pods: int = 1,
    owner: str = "",
    admitted_by: str = "",
    version: str = "v1beta2",
) -> Document:
    """Return a Workload with one set of equal pods, each of which requests some CPUs."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpus}}}]
    sets = [{"name": "main", "count": pods, "template": {"spec": {"containers": containers}}}]
    spec = {"queueName": queue, "active": True, "podSets": sets}
    found = _object("Workload", name, namespace, version, spec)
    if owner:
        job = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": owner}
        found["metadata"]["ownerReferences"] = [{**job, "controller": True}]
    if admitted_by:
        found["status"] = admission(admitted_by, str(int(cpus) * pods), pods)
    return found


def admission(queue: str, cpus: str, pods: int = 1) -> Document:
    """Return the status of an admitted Workload."""
    assigned = {"name": "main", "count": pods, "resourceUsage": {"cpu": cpus}}
    return {
        "admission": {"clusterQueue": queue, "podSetAssignments": [assigned]},
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
    }


def condition(type_: str) -> Document:
    """Return a condition that is true."""
    text = {"reason": type_, "message": "", "lastTransitionTime": NOW}
    return {"type": type_, "status": "True", **text}


def definitions(*versions: str) -> list[Document]:
    """Return the definitions of Kueue's kinds; the last version is the stored one."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    found = []
    for kind, (plural, namespaced) in PLURALS.items():
        served = [
            {
                "name": version,
                "served": True,
                "storage": version == versions[-1],
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }
            for version in versions
        ]
        spec = {
            "group": GROUP,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": served,
        }
        found.append(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": f"{plural}.{GROUP}",
                    # As the API server demands of groups of Kubernetes, under which Kueue's is.
                    "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
                },
                "spec": spec,
            }
        )
    return found


class PlayedKueue:
    """Writes Kueue's objects, and plays its admission whenever it is told to."""

    def __init__(self, api: Api, version: str) -> None:
        self.api, self.version = api, version

    def path(self, kind: str, namespace: str = "", name: str = "", part: str = "") -> str:
        plural, namespaced = PLURALS[kind]
        return Kind(GROUP, self.version, plural, namespaced).path(namespace, name, part)

    def make(self, *documents: Document) -> None:
        for each in documents:
            place = self.path(each["kind"], each["metadata"].get("namespace", ""))
            self.api.request("POST", place, each)

    def change(self, kind: str, name: str, patch: Document) -> None:
        self.api.request("PATCH", self.path(kind, name=name), patch, content_type=MERGE)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        self.api.request("DELETE", self.path(kind, namespace, name))

    def all(self, kind: str) -> list[Document]:
        found: list[Document] = self.api.request("GET", self.path(kind))["items"]
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def admit(self) -> list[str]:
        """Admit what fits; return the names of the Workloads that were admitted now."""
        queues = {each["metadata"]["name"]: each for each in self.all("ClusterQueue")}
        local = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"]["clusterQueue"]
            for each in self.all("LocalQueue")
        }
        room: Counter[str] = Counter()  # by cohort, or queue without one
        for name, queue in queues.items():
            room[_tree(name, queue)] += sum(map(int, _quotas(queue)))
        waiting = []
        for each in self.all("Workload"):
            held = each.get("status", {}).get("admission")
            if held is None:
                waiting.append(each)
            else:
                name = held["clusterQueue"]
                used = held["podSetAssignments"][0]["resourceUsage"]["cpu"]
                room[_tree(name, queues[name])] -= int(used)
        admitted = []
        for each in waiting:
            metadata, pods = each["metadata"], each["spec"]["podSets"][0]
            name = local[metadata["namespace"], each["spec"]["queueName"]]
            one = pods["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            cpus, tree = pods["count"] * int(one), _tree(name, queues[name])
            if cpus > room[tree]:
                continue
            room[tree] -= cpus
            path = self.path("Workload", metadata["namespace"], metadata["name"], "status")
            status = {"status": admission(name, str(cpus), pods["count"])}
            self.api.request("PATCH", path, status, content_type=MERGE)
            admitted.append(metadata["name"])
        return admitted


def _tree(name: str, queue: Document) -> str:
    spec = queue["spec"]
    return spec.get("cohortName") or spec.get("cohort") or f"queue {name}"


def _quotas(queue: Document) -> list[str]:
    return [
        resource["nominalQuota"]
        for group in queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    ]
