"""The kinds of Kubernetes that the market reads: Node, Pod, Namespace, and labelled workloads.

Only the fields that the market needs are parsed; all other fields are ignored.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from walras_api.api_object import ApiObject, Quantities, whole_units, without_nulls
from walras_api.contract import JOB_SETTINGS, PARTNER_ANNOTATION, STATIC_POD_ANNOTATION
from walras_api.model import bounded
from walras_api.pod_request import AskedByPod, GivenToPod, request_of, resources_named

_GPUS = frozenset({"amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "nvidia.com/gpu"})
"""Resources by which the device plugins of AMD, Intel and NVIDIA count whole GPUs."""

LONGEST_IMAGES = 512
"""Characters of a pod's images by which its program is told from others."""

PODS = "pods"
"""Resource of which every pod requests one."""


def _text(given: Any) -> str:
    """Return a text; the API server writes null for a time that is not set."""
    return str(given or "")


class OwnerReference(ApiObject):
    """A reference to the owner of an object."""

    api_version: str = ""
    kind: str
    name: str
    uid: str = ""
    controller: bool = False

    @property
    def group(self) -> str:
        """API group of the owner; empty for the core group."""
        return group_of(self.api_version)


def group_of(api_version: str) -> str:
    """Return the API group in a document's ``apiVersion``; empty for the core group."""
    return api_version.rpartition("/")[0]


_LONGEST_ANNOTATION = 256
"""Characters, more than any value has that is used."""


def _those_read(annotations: Any) -> Any:
    """Drop annotations that nobody reads, which may be most of an object."""
    if not isinstance(annotations, dict):
        return {}
    return {
        key: str(annotations[key])[:_LONGEST_ANNOTATION]
        for key in (STATIC_POD_ANNOTATION, PARTNER_ANNOTATION, *JOB_SETTINGS)
        if key in annotations
    }


class ObjectMeta(ApiObject):
    """The metadata of an object."""

    name: str
    namespace: str = "default"
    uid: str = ""
    creation_timestamp: Annotated[str, BeforeValidator(_text)] = ""
    labels: Annotated[dict[str, str], BeforeValidator(bounded)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], BeforeValidator(_those_read)] = Field(
        default_factory=dict
    )
    owner_references: Annotated[tuple[OwnerReference, ...], BeforeValidator(bounded)] = ()


class _NodeMeta(ObjectMeta):
    deletion_timestamp: Annotated[str, BeforeValidator(_text)] = ""


class NodeCondition(ApiObject):
    """A condition of a node."""

    type: str
    status: str
    last_transition_time: Annotated[str, BeforeValidator(_text)] = ""


class Taint(ApiObject):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""


class _NodeSpec(ApiObject):
    unschedulable: bool = False
    taints: list[Taint] = Field(default_factory=list)


class _NodeStatus(ApiObject):
    allocatable: Quantities = Field(default_factory=dict)
    conditions: list[NodeCondition] = Field(default_factory=list)


class NodeObject(ApiObject):
    """A node of the cluster."""

    kind: Literal["Node"]
    metadata: _NodeMeta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its kubelet says that it is, or says nothing."""
        return all(each.status == "True" for each in self.status.conditions if each.type == "Ready")

    @property
    def ready_since(self) -> str:
        """Time since when it is ready, or is not (RFC 3339); empty if unknown."""
        times = (e.last_transition_time for e in self.status.conditions if e.type == "Ready")
        return next(times, "")

    @property
    def cores(self) -> Decimal:
        """CPUs that pods may use."""
        return self.status.allocatable.get("cpu", Decimal(0))

    @property
    def gpus(self) -> int:
        """GPUs that pods may use."""
        return sum(int(self.status.allocatable.get(each, 0)) for each in _GPUS)

    @property
    def memory(self) -> int:
        """Bytes that pods may use."""
        return int(self.status.allocatable.get("memory", Decimal(0)))


class _SchedulingGate(ApiObject):
    name: str


class Toleration(ApiObject):
    """A taint that a pod stands."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(ApiObject):
    """A requirement on a label or a field of a node."""

    key: str
    operator: str
    values: list[str] = Field(default_factory=list)


class Term(ApiObject):
    """Requirements that must all hold."""

    match_expressions: list[Requirement] = Field(default_factory=list)
    match_fields: list[Requirement] = Field(default_factory=list)


class _Terms(ApiObject):
    node_selector_terms: list[Term] = Field(default_factory=list)


class _NodeAffinity(ApiObject):
    required_during_scheduling_ignored_during_execution: _Terms | None = None


class _PodAffinity(ApiObject):
    required_during_scheduling_ignored_during_execution: list[Any] = Field(default_factory=list)


class _Affinity(ApiObject):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Spread(ApiObject):
    when_unsatisfiable: str = ""


class _Volume(ApiObject):
    persistent_volume_claim: Any = None
    ephemeral: Any = None
    csi: Any = None


_OF_SCHEDULING = (
    "affinity",
    "nodeSelector",
    "resourceClaims",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)


class _PodSpec(AskedByPod):
    node_name: str | None = None
    scheduling_gates: tuple[_SchedulingGate, ...] = ()
    scheduler_name: str = ""
    node_selector: Annotated[dict[str, str], BeforeValidator(without_nulls)] = Field(
        default_factory=dict
    )
    affinity: _Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[_Spread, ...] = ()
    volumes: tuple[_Volume, ...] = ()
    resource_claims: tuple[Any, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _where_it_is(cls, spec: Any) -> Any:
        """Drop what says where it may go of a pod that is somewhere: of most, that is."""
        if not isinstance(spec, dict) or not spec.get("nodeName"):
            return spec
        return {key: value for key, value in spec.items() if key not in _OF_SCHEDULING}

    @cached_property
    def node_constraints(self) -> str:
        """Node selector, node affinity and tolerations as text, which is equal if they are."""
        nodes = None if self.affinity is None else self.affinity.node_affinity
        return repr((sorted(self.node_selector.items()), nodes, self.tolerations))


class _PodStatus(GivenToPod):
    phase: str = "Running"
    start_time: Annotated[str, BeforeValidator(_text)] = ""
    pod_ip: Annotated[str, Field(alias="podIP")] = ""
    qos_class: Annotated[str, Field(alias="qosClass")] = ""


class Pod(ApiObject):
    """A pod of the cluster."""

    kind: Literal["Pod"]
    metadata: ObjectMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def alive(self) -> bool:
        """Whether it has or will have containers that run; one that is being deleted has."""
        return self.status.phase not in {"Succeeded", "Failed"}

    @property
    def admitted(self) -> bool:
        """Whether its kubelet has taken it: it can have been sent there by anybody."""
        return self.alive and (self.status.phase != "Pending" or bool(self.status.start_time))

    @property
    def is_static(self) -> bool:
        """Whether it says that it mirrors a static pod, whose cgroup has another UID."""
        return STATIC_POD_ANNOTATION in self.metadata.annotations

    @cached_property
    def is_guaranteed(self) -> bool:
        """Whether its quality of service class is Guaranteed."""
        if self.status.qos_class:
            return self.status.qos_class == "Guaranteed"
        whole = self.spec.resources
        if whole.requests or whole.limits:
            return whole.guaranteed
        containers = (*self.spec.containers, *self.spec.init_containers)
        return bool(containers) and all(each.resources.guaranteed for each in containers)

    @cached_property
    def images(self) -> str:
        """Images of its containers, which tell its program from other versions of it."""
        return ",".join(each.image for each in self.spec.containers)[:LONGEST_IMAGES]

    @cached_property
    def cpus_requested(self) -> Decimal:
        """CPUs that the scheduler sets aside for it."""
        return self.request("cpu")

    @cached_property
    def memory_requested(self) -> int:
        """Bytes that the scheduler sets aside for it."""
        return int(self.request("memory"))

    @cached_property
    def gpus(self) -> int:
        """GPUs that the scheduler sets aside for it."""
        return sum(
            int(self.request(each)) for each in _GPUS.intersection(resources_named(self.spec))
        )

    @property
    def cpu_limit(self) -> float:
        """CPUs that it may use at once; infinity if that is not limited."""
        whole = self.spec.resources.limits.get("cpu")
        if whole is not None:
            return float(whole) or math.inf
        limits = [each.resources.limits.get("cpu") for each in self.spec.containers]
        given = [float(each) for each in limits if each]
        return sum(given) if given and len(given) == len(limits) else math.inf

    @cached_property
    def effective_requests(self) -> tuple[tuple[str, int], ...]:
        """What the scheduler sets aside for it, by resource, in whole units (CPUs: thousandths)."""
        amounts = {
            each: whole_units(each, self.request(each)) for each in resources_named(self.spec)
        }
        return (
            (PODS, 1),
            *sorted((each, amount) for each, amount in amounts.items() if amount > 0),
        )

    def request(self, resource: str) -> Decimal:
        """Return what the scheduler sets aside for it."""
        return request_of(self.spec, self.status, resource)


class Namespace(ApiObject):
    """A namespace of the cluster."""

    kind: Literal["Namespace"]
    metadata: ObjectMeta


class Workload(ApiObject):
    """An object whose controller makes pods."""

    api_version: str
    kind: str
    metadata: ObjectMeta


ClusterObject = NodeObject | Pod | Namespace | Workload

CLUSTER_KINDS: dict[tuple[str, str], type[ClusterObject]] = {
    ("v1", "Node"): NodeObject,
    ("v1", "Pod"): Pod,
    ("v1", "Namespace"): Namespace,
    ("apps/v1", "Deployment"): Workload,
    ("apps/v1", "StatefulSet"): Workload,
    ("batch/v1", "Job"): Workload,
}
"""Kinds of Kubernetes that the market reads, by apiVersion and kind."""
