"""Pure: the owners above pods: which of them must be looked up, and whether they can exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from walras_api.contract import JOB_LABEL
from walras_api.fields import NAME
from walras_api.selection import OwnerKey, owners

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from walras_api.assembly import Objects
    from walras_api.cluster import OwnerReference
    from walras_api.selection import Controllers

READABLE_KINDS: Mapping[str, frozenset[str]] = {
    "apps": frozenset({"ReplicaSet", "StatefulSet"}),
    "argoproj.io": frozenset({"Workflow"}),
    "batch": frozenset({"Job"}),
    "jobset.x-k8s.io": frozenset({"JobSet"}),
    "kubeflow.org": frozenset(
        {"JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"}
    ),
    "leaderworkerset.x-k8s.io": frozenset({"LeaderWorkerSet"}),
    "ray.io": frozenset({"RayCluster", "RayJob"}),
    "sparkoperator.k8s.io": frozenset({"SparkApplication"}),
}
"""Kinds that may have a controller, by API group; the operator has the right to read them."""

_BUILT_IN = frozenset({"Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"})
_VERSION = re.compile(r"v[0-9]{1,3}((alpha|beta)[0-9]{1,3})?")
_OBJECT_NAME = re.compile(NAME)


def unread_owners(
    objects: Objects, controllers: Controllers, *, every_namespace: bool
) -> set[OwnerKey]:
    """Return the owners of pods whose own controllers a decision needs.

    Args:
        objects: Objects of the cluster.
        controllers: Controllers that are known.
        every_namespace: Whether unlabelled workloads take part, too.
    """
    followed = {each.metadata.namespace for each in objects.workloads} | {
        job.metadata.namespace
        for job in objects.jobs
        if job.spec.target_ref is not None and job.spec.target_ref.kind not in _BUILT_IN
    }
    return {
        OwnerKey(pod.metadata.namespace, owner)
        for pod in objects.pods
        if every_namespace or JOB_LABEL in pod.metadata.labels or pod.metadata.namespace in followed
        for owner in owners(pod, controllers)
        if is_readable(owner)
    }


def is_plausible(owner: OwnerReference) -> bool:
    """Return whether an object can have this version and name, of which paths are made."""
    version = owner.api_version.rpartition("/")[2]
    return bool(_VERSION.fullmatch(version) and _OBJECT_NAME.fullmatch(owner.name))


def pods_controllers(objects: Objects, wanted: Collection[OwnerKey]) -> Controllers:
    """Return the controllers of owners that are pods, such as the driver of a Spark application."""
    wanted = [key for key in wanted if is_pod(key.owner)]
    if not wanted:
        return {}
    pods = {(pod.metadata.namespace, pod.metadata.uid): pod for pod in objects.pods}
    owner_pods = {key: pods.get((key.namespace, key.owner.uid)) for key in wanted}
    return {
        key: None if pod is None else next(owners(pod, {}), None) for key, pod in owner_pods.items()
    }


def is_pod(owner: OwnerReference) -> bool:
    """Whether an owner is a pod."""
    return (owner.group, owner.kind) == ("", "Pod")


def is_readable(owner: OwnerReference) -> bool:
    """Return whether the operator can look up the controller of an owner."""
    return is_pod(owner) or owner.kind in READABLE_KINDS.get(owner.group, ())
