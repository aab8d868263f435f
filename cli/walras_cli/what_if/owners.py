"""Pure: who owns what in a cluster, from documents: the workloads at the top of pods' owners."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from walras_api.cluster import OwnerReference
from walras_api.selection import OwnerKey, owners

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_api.cluster import Pod
    from walras_api.selection import Controllers

_OF_A_SCHEDULE = re.compile(r"(.+)-[0-9]{8,}")
"""Name of a Job that a CronJob made: the CronJob's, and the minute."""

_VERSIONS = {"Deployment": "apps/v1", "CronJob": "batch/v1"}


class Workload(NamedTuple):
    """What made a pod: the top of its owners, or the pod itself."""

    namespace: str
    kind: str
    name: str

    @property
    def title(self) -> str:
        """Its name in texts for people."""
        return f"{self.namespace}/{self.name}"


def controllers_in(documents: Iterable[Mapping[str, Any]], pods: Iterable[Pod]) -> Controllers:
    """Return the controllers of the owners of pods.

    What is not among the documents is told by its name: a ReplicaSet of a Deployment and a Job of a
    CronJob are named after these.

    Args:
        documents: Objects of the cluster, of any kind.
        pods: Pods of the cluster.
    """
    owned = {}
    for document in documents:
        metadata = document.get("metadata")
        if isinstance(metadata, dict) and metadata.get("uid"):
            owned[metadata["uid"]] = metadata.get("ownerReferences")
    controllers: dict[OwnerKey, OwnerReference | None] = {}
    for pod in pods:
        for owner in owners(pod, {}):
            above: OwnerReference | None = owner
            while above is not None:
                key = OwnerKey(pod.metadata.namespace, above)
                if key in controllers:
                    break
                controllers[key] = above = (
                    _controller(owned[above.uid])
                    if above.uid in owned
                    else _by_name(above, pod.metadata.labels)
                )
    return controllers


def _controller(references: Any) -> OwnerReference | None:
    """Return the controller that references of a document name."""
    listed = references if isinstance(references, list) else []
    for each in listed:
        if isinstance(each, dict) and each.get("controller") and each.get("kind"):
            return OwnerReference.model_validate(each)
    return None


def _by_name(owner: OwnerReference, labels: Mapping[str, str]) -> OwnerReference | None:
    template = labels.get("pod-template-hash")
    if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
        return _made("Deployment", owner.name.removesuffix(f"-{template}"))
    match = _OF_A_SCHEDULE.fullmatch(owner.name) if owner.kind == "Job" else None
    return None if match is None else _made("CronJob", match[1])


def _made(kind: str, name: str) -> OwnerReference:
    return OwnerReference.model_validate(
        {"apiVersion": _VERSIONS[kind], "kind": kind, "name": name, "controller": True}
    )


def workload_of(pod: Pod, controllers: Controllers) -> Workload:
    """Return what made a pod."""
    top = None
    for top in owners(pod, controllers):  # noqa: B007 - the last one counts
        pass
    if top is None:
        return Workload(pod.metadata.namespace, "Pod", pod.metadata.name)
    return Workload(pod.metadata.namespace, top.kind, top.name)
