"""The objects of Kubernetes itself that a market looks at: Node, Pod and Namespace.

Only the fields that matter here are read; whatever else `kubectl get -o yaml` prints is accepted.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

QUANTITY = re.compile(
    r"(?P<number>[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))(?P<unit>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
)
_UNITS = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: Decimal(1000) ** -power for power, unit in enumerate("mun", 1)},
}


def quantity(value: Any) -> Decimal:
    """Read a Kubernetes quantity such as "3920m", "16Gi", "4" or 2e3, exactly.

    Raises:
        ValueError: it is none.
    """
    text = str(value)
    match = QUANTITY.fullmatch(text) if not isinstance(value, bool) else None
    if match is None or len(text) > 40:
        raise ValueError(f"is {text[:40]!r}; write a quantity such as 500m, 4 or 16Gi")
    unit = match["unit"] or ""
    if unit[:1] in {"e", "E"} and len(unit) > 1 and unit != "Ei":
        return Decimal(text)
    return Decimal(match["number"]) * _UNITS.get(unit, Decimal(1))


Quantity = Annotated[Decimal, BeforeValidator(quantity)]


class _Object(BaseModel):
    """A part of an object of the API server's: camelCase fields, others are passed over."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", frozen=True, populate_by_name=False
    )


class OwnerReference(_Object):
    """Who made an object."""

    kind: str
    name: str


class ObjectMeta(_Object):
    """What names an object."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    owner_references: list[OwnerReference] = Field(default_factory=list)


class Condition(_Object):
    """One condition of a status."""

    type: str
    status: str


class _NodeSpec(_Object):
    unschedulable: bool = False


class _NodeStatus(_Object):
    allocatable: dict[str, Quantity] = Field(default_factory=dict)
    conditions: list[Condition] = Field(default_factory=list)


class Node(_Object):
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
    def cores(self) -> Decimal:
        """CPUs that pods may use."""
        return self.status.allocatable.get("cpu", Decimal(0))

    @property
    def memory(self) -> int:
        """Bytes that pods may use."""
        return int(self.status.allocatable.get("memory", Decimal(0)))


class _Resources(_Object):
    requests: dict[str, Quantity] = Field(default_factory=dict)
    limits: dict[str, Quantity] = Field(default_factory=dict)

    def request(self, resource: str) -> Decimal:
        """Return what is requested; a limit without a request is one, as to the API server."""
        return self.requests.get(resource, self.limits.get(resource, Decimal(0)))


class _Container(_Object):
    resources: _Resources = _Resources()
    restart_policy: str | None = None


class _SchedulingGate(_Object):
    name: str


class _PodSpec(_Object):
    node_name: str | None = None
    containers: list[_Container] = Field(default_factory=list)
    init_containers: list[_Container] = Field(default_factory=list)
    overhead: dict[str, Quantity] = Field(default_factory=dict)
    scheduling_gates: list[_SchedulingGate] = Field(default_factory=list)


class _PodStatus(_Object):
    phase: str = "Running"


class Pod(_Object):
    """A pod of the cluster."""

    kind: Literal["Pod"]
    metadata: ObjectMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def alive(self) -> bool:
        """Whether it has or will have containers that run."""
        return self.status.phase not in {"Succeeded", "Failed"}

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


ClusterObject = Node | Pod | Namespace

CLUSTER_KINDS: dict[str, type[ClusterObject]] = {"Node": Node, "Pod": Pod, "Namespace": Namespace}
"""Kinds of apiVersion v1 that are read."""
