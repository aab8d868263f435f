"""What a pod requests of its node: the amounts that the scheduler sets aside for it.

As `PodRequests` in Kubernetes' ``component-helpers`` counts them (``resource/helpers.go``):

- Containers run together, and sidecars (init containers that are restarted always) with them. An
  init container runs beside the sidecars that are listed before it. The largest sum counts
  (enhancement 753).
- What a pod requests as a whole replaces that sum (enhancement 2837).
- While a resize goes on, the largest counts of what is asked for, what the kubelet has allocated
  and what the runtime has set. What is asked for does not count if it can never fit
  (enhancement 1287).
- The overhead of the pod's sandbox is added (enhancement 688).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any
from weakref import WeakValueDictionary

from pydantic import BeforeValidator, Field

from walras_api.api_object import ApiObject, Quantities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NOTHING = Decimal(0)


def _those_of_the_host(ports: Any) -> Any:
    """Drop ports of pods' own networks."""
    return [port for port in ports or () if isinstance(port, dict) and port.get("hostPort")]


class _Resources(ApiObject):
    requests: Quantities = Field(default_factory=dict)
    limits: Quantities = Field(default_factory=dict)

    def request(self, resource: str) -> Decimal:
        """Return what is requested; a limit without a request is one, as to the API server."""
        return self.requests.get(resource, self.limits.get(resource, Decimal(0)))

    @property
    def guaranteed(self) -> bool:
        """Whether CPUs and memory are limited to what is requested."""
        limits = [self.limits.get(resource, Decimal(0)) for resource in ("cpu", "memory")]
        return all(limits) and limits == [self.request(each) for each in ("cpu", "memory")]


_NO_RESOURCES = _Resources()


def _no_resources() -> _Resources:
    """Return one instance for all: pydantic would copy a default for each object."""
    return _NO_RESOURCES


class _Port(ApiObject):
    host_port: int = 0


class Container(ApiObject):
    """A container of a pod."""

    name: str = ""
    image: str = ""
    resources: _Resources = Field(default_factory=_no_resources)
    restart_policy: str | None = None
    ports: Annotated[tuple[_Port, ...], BeforeValidator(_those_of_the_host)] = ()


class ContainerStatus(ApiObject):
    """What the kubelet reports of a container."""

    name: str = ""
    allocated_resources: Quantities = Field(default_factory=dict)
    resources: _Resources = Field(default_factory=_no_resources)


_Part = Container | ContainerStatus
_PARTS: WeakValueDictionary[tuple[type[_Part], str], _Part] = WeakValueDictionary()
"""Parts of pods, by what is read of them as JSON; they go with the last pod that has them."""


def _shared(kind: type[_Part]) -> Callable[[Any], Any]:
    """Return a function that reads equal parts, such as those of a workload's pods, once."""

    def read(given: Any) -> Any:
        if not (isinstance(given, list) and all(isinstance(each, dict) for each in given)):
            return given
        try:
            return [_part(kind, json.dumps(_what_is_read(each, _READ[kind]))) for each in given]
        except (TypeError, ValueError):
            return given  # what is wrong with them is told by the field

    return read


_READ: dict[type[_Part], tuple[str, ...]] = {
    Container: ("name", "image", "resources", "restartPolicy"),
    ContainerStatus: ("name", "resources", "allocatedResources"),
}
"""Fields of parts that are read."""


def _part(kind: type[_Part], text: str) -> _Part:
    part = _PARTS.get((kind, text))
    if part is None:
        part = _PARTS[kind, text] = kind.model_validate_json(text)
    return part


def _what_is_read(part: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a part that are read, without ports of the pod's own network."""
    kept = {key: part[key] for key in fields if key in part}
    if ports := _those_of_the_host(part.get("ports")):
        kept["ports"] = ports
    return kept


_Containers = Annotated[tuple[Container, ...], BeforeValidator(_shared(Container))]
_Statuses = Annotated[tuple[ContainerStatus, ...], BeforeValidator(_shared(ContainerStatus))]


class AskedByPod(ApiObject):
    """What the spec of a pod says of its resources."""

    containers: _Containers = ()
    init_containers: _Containers = ()
    resources: _Resources = Field(default_factory=_no_resources)
    overhead: Quantities = Field(default_factory=dict)


class _PodCondition(ApiObject):
    type: str
    reason: str = ""


def _those_on_resizes(conditions: Any) -> Any:
    """Drop the conditions that nobody reads."""
    if not isinstance(conditions, list):
        return conditions
    return [each for each in conditions if isinstance(each, dict) and each.get("type") == _RESIZE]


_RESIZE = "PodResizePending"


class GivenToPod(ApiObject):
    """What the status of a pod says of its resources."""

    conditions: Annotated[tuple[_PodCondition, ...], BeforeValidator(_those_on_resizes)] = ()
    resources: _Resources = Field(default_factory=_no_resources)
    allocated_resources: Quantities = Field(default_factory=dict)
    container_statuses: _Statuses = ()
    init_container_statuses: _Statuses = ()

    @property
    def cannot_be_resized(self) -> bool:
        """Whether what the pod asks for can never fit on its node, so that it has less."""
        return any(each.reason == "Infeasible" for each in self.conditions)


def resources_named(spec: AskedByPod) -> set[str]:
    """Return the names of all resources that a pod may request."""
    parts = [each.resources for each in (*spec.containers, *spec.init_containers)]
    named = {name for each in parts for name in (*each.requests, *each.limits)}
    whole = {name for name in (*spec.resources.requests, *spec.resources.limits) if _of_pods(name)}
    return named | whole | spec.overhead.keys()


def request_of(spec: AskedByPod, status: GivenToPod, resource: str) -> Decimal:
    """Return how much of a resource a pod requests, in the unit of its quantities.

    A limit without a request is a request, as the API server would have written it: that of a
    container always, that of a pod if no container requests the resource.
    """
    overhead = spec.overhead.get(resource, _NOTHING)
    of_containers = _of_containers(spec, status, resource)
    if not _of_pods(resource):
        return of_containers + overhead
    asked = spec.resources.requests.get(resource)
    if asked is None:
        return (of_containers or spec.resources.limits.get(resource, _NOTHING)) + overhead
    # The kubelet reports a pod with its overhead.
    reported = [
        max(amounts.get(resource, _NOTHING) - overhead, _NOTHING)
        for amounts in (status.allocated_resources, status.resources.requests)
        if amounts
    ]
    return _largest(asked, reported, status) + overhead


def _of_pods(resource: str) -> bool:
    """Whether a pod can request a resource as a whole."""
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def _of_containers(spec: AskedByPod, status: GivenToPod, resource: str) -> Decimal:
    """Return the most that containers request at a time."""
    reports = {
        each.name: each for each in (*status.init_container_statuses, *status.container_statuses)
    }

    def requested(container: Container) -> Decimal:
        asked = container.resources.request(resource)
        return _largest(asked, _reported(reports.get(container.name), resource), status)

    sidecars = most = _NOTHING
    for each in spec.init_containers:
        beside = sidecars + requested(each)
        most = max(most, beside)
        if each.restart_policy == "Always":
            sidecars = beside
    return max(most, sum(map(requested, spec.containers), sidecars))


def _reported(report: ContainerStatus | None, resource: str) -> Sequence[Decimal]:
    """Return what the kubelet has allocated to a container, and what its runtime has set."""
    if report is None:
        return ()
    reported = (report.allocated_resources, report.resources.requests)
    return [amounts.get(resource, _NOTHING) for amounts in reported if amounts]


def _largest(asked: Decimal, reported: Sequence[Decimal], status: GivenToPod) -> Decimal:
    if reported and status.cannot_be_resized:
        return max(reported)
    return max([asked, *reported])
