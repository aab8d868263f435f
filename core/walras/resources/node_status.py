"""The status of a NodeAllocation, field by field: what a node's agent tells."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from walras.resources import status as common
from walras.resources.fields import Unique
from walras.resources.status import Status

Decimals = str
"""A decimal number as text; statuses hold no floating-point numbers either."""


class Condition(common.Condition):
    """A condition of a NodeAllocation.

    Attributes:
        type: ``Ready`` (all is as the plan says) or ``PlanAccepted``.
        status: whether it holds.
        reason: in one word, for programs.
        message: for people.
        last_transition_time: when ``status`` last changed (RFC 3339).
        observed_generation: of the NodeAllocation that this was found of; absent without a cluster.
    """

    type: Literal["Ready", "PlanAccepted"]


class PodHolding(Status):
    """How one grant is held.

    Attributes:
        pod_uid: the pod.
        namespace: of the pod.
        name: of the pod.
        cpus: that it may use now, as ``0-3,8``; absent while it has no container here.
        memory: bytes that it is held to; absent where its memory is left alone.
        memory_demand: bytes that it could use, as far as the kernel tells; absent likewise. It is
            told anew when it grows, or falls by a fifth.
        state: Enforced, Pending (on its way), Failed (the kernel refuses) or Absent (no container).
        reason: why it is not enforced.
    """

    pod_uid: Annotated[str, Field(alias="podUID")]
    namespace: str
    name: str
    cpus: str | None = None
    memory: str | None = None
    memory_demand: str | None = None
    state: Literal["Enforced", "Pending", "Failed", "Absent"]
    reason: str = ""


class NodeTopology(Status):
    """The node's CPUs.

    Attributes:
        cpus: that take part, as ``0-47``.
        cores: physical cores among them.
        threads: hardware threads among them.
        sockets: packages.
        numa_nodes: NUMA nodes with CPUs.
        reserved: CPUs that nobody may have of their own.
        memory: of the whole node, in bytes.
    """

    cpus: str
    cores: int
    threads: int
    sockets: int
    numa_nodes: int
    reserved: str = ""
    memory: str


class PlannedWrite(Status):
    """A write that would be made if the mode were ``enforce``.

    Attributes:
        file: that would be written.
        value: that it would be written.
    """

    file: str
    value: str


class ProfilingSample(Status):
    """What was counted in one stretch of time at one core count.

    Attributes:
        cores: that the pod used.
        seconds: how long.
        progress: what was counted.
    """

    cores: int
    seconds: Decimals
    progress: Decimals


class MeasuredFraction(Status):
    """F as one core count shows it (Karp and Flatt).

    Attributes:
        cores: the core count.
        fraction: F.
    """

    cores: int
    fraction: Decimals


class ProfilingStatus(Status):
    """How a measurement goes, or went.

    Attributes:
        id: of the request.
        pod_uid: the pod.
        state: Running, Complete, Expired (its lease), Failed, or Cancelled (the request was
            withdrawn).
        reason: why it is not complete.
        source: what was counted.
        warnings: what it cannot see, and what is doubtful about the result.
        samples: in the order in which they were taken.
        planned: how many samples there are to be.
        fractions: by core count.
        mean: of F over core counts.
        variance: of F over core counts.
        memory_bandwidth: that the pod drew on all its cores, gigabytes (10**9) a second.
    """

    id: str
    pod_uid: Annotated[str, Field(alias="podUID")]
    state: Literal["Running", "Complete", "Expired", "Failed", "Cancelled"]
    reason: str = ""
    source: Literal["instructions", "cpuTime", "file", "http"] | None = None
    warnings: list[str] = Field(default_factory=list)
    samples: list[ProfilingSample] = Field(default_factory=list)
    planned: int = 0
    fractions: list[MeasuredFraction] = Field(default_factory=list)
    mean: Decimals | None = None
    variance: Decimals | None = None
    memory_bandwidth: Decimals | None = None


class NodeAllocationStatus(Status):
    """What a node's agent tells.

    Attributes:
        epoch: of the plan that this is about.
        enforced_epoch: of the last plan that held in full.
        mode: of the plan.
        topology: the node's CPUs.
        shared_cpus: that pods without a grant of whole cores share.
        pods: one for each grant.
        would_write: in ``observe``, what ``enforce`` would write.
        profiling: the last measurement.
        conditions: ``Ready`` and ``PlanAccepted``.
    """

    epoch: int | None = None
    enforced_epoch: int | None = None
    mode: Literal["enforce", "observe"] = "observe"
    topology: NodeTopology | None = None
    shared_cpus: str = ""
    pods: list[PodHolding] = Field(default_factory=list)
    would_write: list[PlannedWrite] = Field(default_factory=list)
    profiling: ProfilingStatus | None = None
    conditions: Annotated[list[Condition], Unique("conditions of type", key="type")] = Field(
        default_factory=list
    )
