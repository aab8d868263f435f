"""NodeAllocation, field by field: what the operator wants of a node, and what its agent answers."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from walras.resources.fields import (
    Cores,
    Name,
    NotNegativeInt,
    PositiveBytes,
    PositiveInt,
    Unique,
)
from walras.resources.market_job import ProgressSource  # noqa: TC001 - pydantic reads it
from walras.resources.model import Model, Resource, Rule

MOST_GRANTS = 1000
"""More pods than any node runs."""


def _address(value: str) -> str:
    try:
        return str(ip_address(value.replace("%", " ")))  # no zone: it means nothing elsewhere
    except ValueError:
        raise ValueError(f"is {value!r}; write an IP address") from None


IPAddress = Annotated[
    str,
    AfterValidator(_address),
    WithJsonSchema({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}),
]

POD_UID = r"^[0-9a-zA-Z-]{1,64}$"

PodUID = Annotated[str, Field(alias="podUID", pattern=POD_UID)]
"""What the kubelet calls a pod by in its cgroups."""


class PodGrant(Model):
    """What a pod was sold on this node.

    Attributes:
        pod_uid: the pod; of a static pod, its annotation ``kubernetes.io/config.hash``.
        namespace: of the pod, for people.
        name: of the pod, for people.
        cores: how many, in the plan's unit: whole ones are its own, a rest is time on shared ones.
        memory: that it may use; without it, its memory is left alone.
    """

    pod_uid: PodUID
    namespace: Name = "default"
    name: Name
    cores: Cores
    memory: PositiveBytes | None = None


class ProfilingRequest(Model):
    """A measurement that the agent is to make of one pod while it runs.

    Attributes:
        id: of this measurement; another one is another measurement.
        pod_uid: the pod. It must have a grant of whole cores.
        purpose: Speedup varies its cores; Progress only counts how fast it gets on with all that
            it holds.
        cores: core counts to measure at, none above the grant; by default powers of two up to it.
        sample_seconds: how long each sample takes.
        repeats: samples at each core count.
        lease_seconds: the measurement ends by itself so long after the last renewal.
        renewals: a number that grows with every renewal of the lease.
        progress: the job's own counter; without it instructions are counted, or CPU time.
        pod_ip: where the pod answers, if it counts its progress by HTTP.
    """

    RULES = (
        Rule(
            "counts progress by HTTP without podIP; give the pod's address",
            "!has(self.progress) || !has(self.progress.http) || has(self.podIP)",
            lambda asked: (
                asked.progress is None or asked.progress.http is None or asked.pod_ip is not None
            ),
        ),
    )

    id: Name
    pod_uid: PodUID
    purpose: Literal["Speedup", "Progress"] = "Speedup"
    cores: Annotated[list[PositiveInt], Field(min_length=1, max_length=1000)] | None = None
    sample_seconds: PositiveInt = 2
    repeats: PositiveInt = 3
    lease_seconds: PositiveInt = 120
    renewals: NotNegativeInt = 0
    progress: ProgressSource | None = None
    pod_ip: Annotated[IPAddress | None, Field(alias="podIP")] = None


class NodeAllocationSpec(Model):
    """What the operator wants of a node.

    Attributes:
        epoch: grows from plan to plan; an older plan than the last is ignored.
        mode: enforce holds pods to their grants; observe puts all back and tells what it would do.
        unit: what ``cores`` counts: physical cores with all their hardware threads, or threads.
        memory_nodes: whether pods with cores of their own take memory from any NUMA node, as
            before, or only from those of their cores (``cpuset.mems``).
        grants: at most one for each pod.
        profiling: a measurement to make.
    """

    RULES = (
        Rule(
            "has an epoch before the last one; only a later decision may replace it",
            "self.epoch >= oldSelf.epoch",
            None,
        ),
    )

    epoch: NotNegativeInt
    mode: Literal["enforce", "observe"] = "enforce"
    unit: Literal["core", "thread"] = "core"
    memory_nodes: Literal["any", "local"] = "any"
    grants: Annotated[
        list[PodGrant], Field(max_length=MOST_GRANTS), Unique("grants for the pod", key="podUID")
    ] = Field(default_factory=list)
    profiling: ProfilingRequest | None = None


class NodeAllocation(Resource):
    """The only channel from the operator to a node's agent; cluster-wide, named as its node."""

    kind: Literal["NodeAllocation"]
    spec: NodeAllocationSpec
