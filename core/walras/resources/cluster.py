"""The kinds of Kubernetes that the market reads: Node, Pod, Namespace, and labelled workloads.

Only the fields that the market needs are parsed; all other fields are ignored.
"""

from __future__ import annotations

import json
import re
from decimal import ROUND_CEILING, Decimal
from functools import cached_property
from typing import Annotated, Any, Literal, Self
from weakref import WeakValueDictionary

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from walras.resources.contract import JOB_SETTINGS, PARTNER_ANNOTATION, STATIC_POD_ANNOTATION
from walras.resources.model import bounded

QUANTITY = re.compile(
    r"(?P<number>[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))(?P<unit>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
)
_UNITS = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: Decimal(1000) ** -power for power, unit in enumerate("mun", 1)},
}


PODS = "pods"
"""Resource of which every pod requests one."""

MOST_UNITS = 1 << 60
"""Bound on the units of a resource."""

_MILLI = 1000


def quantity(value: Any) -> Decimal:
    """Read a Kubernetes quantity such as "3920m", "16Gi", "4" or 2e3, exactly.

    Raises:
        ValueError: The value is not a quantity.
    """
    text = str(value)
    match = QUANTITY.fullmatch(text) if not isinstance(value, bool) else None
    if match is None or len(text) > 40:
        raise ValueError(f"is {text[:40]!r}; write a quantity such as 500m, 4 or 16Gi")
    unit = match["unit"] or ""
    if unit[:1] in {"e", "E"} and len(unit) > 1 and unit != "Ei":
        return Decimal(text)
    return Decimal(match["number"]) * _UNITS.get(unit, Decimal(1))


def whole_units(resource: str, amount: Decimal, rounding: str = ROUND_CEILING) -> int:
    """Return an amount of a resource in whole units; CPUs in thousandths."""
    scaled = amount * _MILLI if resource == "cpu" else amount
    return min(int(scaled.to_integral_value(rounding)), MOST_UNITS)


Quantity = Annotated[Decimal, BeforeValidator(quantity)]


class _Object(BaseModel):
    """A part of an object of the API server, with camelCase fields; unknown fields are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", frozen=True, populate_by_name=False
    )

    def model_post_init(self, _: Any) -> None:
        """Drop the set of given fields, which nobody reads and takes a third of the memory."""
        object.__setattr__(self, "__pydantic_fields_set__", _NOT_KEPT)

    def __copy__(self) -> Self:
        """Copy the fields only: cached properties may have other values once a field is changed."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


_NOT_KEPT: set[str] = set()


def _text(given: Any) -> str:
    """Return a text; the API server writes null for a time that is not set."""
    return str(given or "")


class OwnerReference(_Object):
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


class ObjectMeta(_Object):
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


class NodeCondition(_Object):
    """A condition of a node."""

    type: str
    status: str
    last_transition_time: Annotated[str, BeforeValidator(_text)] = ""


class Taint(_Object):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""


class _NodeSpec(_Object):
    unschedulable: bool = False
    taints: list[Taint] = Field(default_factory=list)


class _NodeStatus(_Object):
    allocatable: dict[str, Quantity] = Field(default_factory=dict)
    conditions: list[NodeCondition] = Field(default_factory=list)


class NodeObject(_Object):
    """A node of the cluster."""

    kind: Literal["Node"]
    metadata: ObjectMeta
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
    def memory(self) -> int:
        """Bytes that pods may use."""
        return int(self.status.allocatable.get("memory", Decimal(0)))


def _those_of_the_host(ports: Any) -> Any:
    """Drop ports of pods' own networks."""
    return [port for port in ports or () if isinstance(port, dict) and port.get("hostPort")]


class _Resources(_Object):
    requests: dict[str, Quantity] = Field(default_factory=dict)
    limits: dict[str, Quantity] = Field(default_factory=dict)

    def request(self, resource: str) -> Decimal:
        """Return what is requested; a limit without a request is one, as to the API server."""
        return self.requests.get(resource, self.limits.get(resource, Decimal(0)))

    @property
    def guaranteed(self) -> bool:
        """Whether CPUs and memory are limited to what is requested."""
        limits = [self.limits.get(resource, Decimal(0)) for resource in ("cpu", "memory")]
        return all(limits) and limits == [self.request(each) for each in ("cpu", "memory")]


class _Port(_Object):
    host_port: int = 0


class _Container(_Object):
    resources: _Resources = _Resources()
    restart_policy: str | None = None
    ports: Annotated[tuple[_Port, ...], BeforeValidator(_those_of_the_host)] = ()


_CONTAINERS: WeakValueDictionary[str, _Container] = WeakValueDictionary()
"""Containers of pods, by what is read of them as JSON; they go with the last pod that has them."""


def _shared(given: Any) -> Any:
    """Return one shared instance for equal containers, such as those of a workload's pods."""
    if not (isinstance(given, list) and all(isinstance(each, dict) for each in given)):
        return given
    try:
        return [_container(json.dumps(_what_is_read(each))) for each in given]
    except (TypeError, ValueError):
        return given  # what is wrong with them is told by the field


def _container(text: str) -> _Container:
    found = _CONTAINERS.get(text)
    if found is None:
        found = _CONTAINERS[text] = _Container.model_validate_json(text)
    return found


def _what_is_read(container: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a container that are read, without ports of the pod's own network."""
    fields = "resources", "restartPolicy"
    kept = {key: container[key] for key in fields if key in container}
    if ports := _those_of_the_host(container.get("ports")):
        kept["ports"] = ports
    return kept


_Containers = Annotated[tuple[_Container, ...], BeforeValidator(_shared)]


class _SchedulingGate(_Object):
    name: str


class Toleration(_Object):
    """A taint that a pod stands."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(_Object):
    """A requirement on a label or a field of a node."""

    key: str
    operator: str
    values: list[str] = Field(default_factory=list)


class Term(_Object):
    """Requirements that must all hold."""

    match_expressions: list[Requirement] = Field(default_factory=list)
    match_fields: list[Requirement] = Field(default_factory=list)


class _Terms(_Object):
    node_selector_terms: list[Term] = Field(default_factory=list)


class _NodeAffinity(_Object):
    required_during_scheduling_ignored_during_execution: _Terms | None = None


class _PodAffinity(_Object):
    required_during_scheduling_ignored_during_execution: list[Any] = Field(default_factory=list)


class _Affinity(_Object):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Spread(_Object):
    when_unsatisfiable: str = ""


class _Volume(_Object):
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


class _PodSpec(_Object):
    node_name: str | None = None
    containers: _Containers = ()
    init_containers: _Containers = ()
    overhead: dict[str, Quantity] = Field(default_factory=dict)
    scheduling_gates: tuple[_SchedulingGate, ...] = ()
    scheduler_name: str = ""
    node_selector: dict[str, str] = Field(default_factory=dict)
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


class _PodStatus(_Object):
    phase: str = "Running"
    start_time: Annotated[str, BeforeValidator(_text)] = ""
    pod_ip: Annotated[str, Field(alias="podIP")] = ""
    qos_class: Annotated[str, Field(alias="qosClass")] = ""


class Pod(_Object):
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
        containers = (*self.spec.containers, *self.spec.init_containers)
        return bool(containers) and all(each.resources.guaranteed for each in containers)

    @cached_property
    def cpus_requested(self) -> Decimal:
        """CPUs that the scheduler sets aside for it."""
        return self.request("cpu")

    @cached_property
    def memory_requested(self) -> int:
        """Bytes that the scheduler sets aside for it."""
        return int(self.request("memory"))

    @cached_property
    def effective_requests(self) -> tuple[tuple[str, int], ...]:
        """What the scheduler sets aside for it, by resource, in whole units (CPUs: thousandths)."""
        asked = {
            resource
            for each in (*self.spec.containers, *self.spec.init_containers)
            for resource in (*each.resources.requests, *each.resources.limits)
        }
        amounts = {
            each: whole_units(each, self.request(each)) for each in {*asked, *self.spec.overhead}
        }
        return (
            (PODS, 1),
            *sorted((each, amount) for each, amount in amounts.items() if amount > 0),
        )

    def request(self, resource: str) -> Decimal:
        """Return what the scheduler sets aside for it.

        That is the sum over containers (with those that start first and stay), or what the
        largest of the init containers needs, and the sandbox's overhead.
        """
        stay = [each for each in self.spec.init_containers if each.restart_policy == "Always"]
        start = [each for each in self.spec.init_containers if each.restart_policy != "Always"]
        running = [each.resources.request(resource) for each in (*self.spec.containers, *stay)]
        starting = [each.resources.request(resource) for each in start]
        overhead = self.spec.overhead.get(resource, Decimal(0))
        return max(sum(running, Decimal(0)), *starting, Decimal(0)) + overhead


class Namespace(_Object):
    """A namespace of the cluster."""

    kind: Literal["Namespace"]
    metadata: ObjectMeta


class Workload(_Object):
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
