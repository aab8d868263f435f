"""The status of a NodeAllocation: the report of its agent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from walras_api.fields import MOST_EXACT, MOST_INT32, Unique
from walras_api.node_allocation import MOST_GRANTS
from walras_api.status import Amount, Condition, Decimals, Status, Time, at_most

MOST_SOCKETS = 256
"""Maximum number of sockets that the report of a pod lists."""

MOST_CPUS = 8192
"""Most CPUs that Linux supports."""

# An agent may have been taken over, so whatever it reports is bounded.
CpuCount = Annotated[int, Field(ge=0, le=MOST_CPUS)]
Epoch = Annotated[int, Field(ge=0, le=MOST_EXACT)]
Ordinal = Annotated[int, Field(ge=0, le=MOST_INT32)]


class NodeAllocationCondition(Condition):
    """A condition of a NodeAllocation.

    Attributes:
        type: Aspect that the condition describes: ``Ready`` (the node is as the plan says) or
            ``PlanAccepted`` (the agent can use the plan).
        status: Whether the condition holds: True, False or Unknown.
        reason: Machine-readable reason for the status, in one CamelCase word.
        message: Explanation for people.
        last_transition_time: Time at which ``status`` last changed (RFC 3339).
        observed_generation: Generation of the NodeAllocation that this condition was computed from;
            absent without a cluster.
    """

    type: Literal["Ready", "PlanAccepted"]
    observed_generation: Epoch | None = None


class PodDemand(Status):
    """How many CPUs a pod can use at once, as far as its node's agent has seen.

    Attributes:
        at_once: CPUs that it used at once in the last hour, at most, or would have used if nobody
            else had.
        wanted: CPUs that it may want, since it waits all the time; absent if it is not known to
            want more than it has used.
        threads: Largest number of its threads in that time; absent if unknown.
        seconds: How long it was seen while nothing held it back: 20, 60, 240, 900, 3600, 14400 or
            86400 seconds, or more.
        held_back_seconds: How long it was seen while it waited for CPUs, in the same steps.
    """

    at_once: Decimals
    wanted: Decimals | None = None
    threads: Ordinal | None = None
    seconds: Ordinal = 0
    held_back_seconds: Ordinal = 0


class GrantStatus(Status):
    """The state of one pod's grant on the node.

    Attributes:
        pod_uid: UID of the pod.
        namespace: Namespace of the pod.
        name: Name of the pod.
        cpus: CPUs that the pod may use now, as ``0-3,8``; absent while the pod has no container on
            the node.
        sockets: Numbers of the sockets that these CPUs are on; absent while the pod has no
            container on the node.
        memory: Memory limit that is enforced, in bytes; absent if the pod's memory is left alone.
        memory_demand: Memory that the pod could use, in bytes, as estimated from kernel statistics;
            absent if the pod's memory is left alone. It is updated when it grows, or falls by a
            fifth.
        used_cpus: CPUs that the pod used on average in the last minutes, by the kernel's count,
            such as 1.52; it is updated at most once a minute, when it changes by a twentieth.
        demand: CPUs that the pod can use at once; absent until it has been seen.
        state: State of the grant: Enforced, Pending (being applied), Failed (the kernel refused a
            write) or Absent (the pod has no container on the node).
        reason: Why the grant is not enforced.
    """

    pod_uid: Annotated[str, Field(alias="podUID")]
    namespace: str
    name: str
    cpus: str | None = None
    sockets: Annotated[list[Ordinal], Field(max_length=MOST_SOCKETS)] | None = None
    memory: Amount | None = None
    memory_demand: Amount | None = None
    used_cpus: Decimals | None = None
    demand: PodDemand | None = None
    state: Literal["Enforced", "Pending", "Failed", "Absent"]
    reason: str = ""


class CorePlace(Status):
    """The place of a physical core.

    Attributes:
        socket: Number of its socket.
        numa_node: Number of its NUMA node.
        cpus: Its hardware threads among the CPUs that the agent manages, as ``0,24``.
    """

    socket: Ordinal
    numa_node: Ordinal
    cpus: str


MOST_CORES = 4096
"""Physical cores that a NodeAllocation's status lists, more than any node has."""


class NodeTopology(Status):
    """The processors and memory of the node.

    Attributes:
        cpus: CPUs that the agent manages, as ``0-47``.
        cores: Number of physical cores among these CPUs.
        threads: Number of hardware threads among these CPUs.
        sockets: Number of sockets.
        numa_nodes: Number of NUMA nodes with CPUs.
        reserved: CPUs that are never a pod's own.
        memory: Memory of the whole node, in bytes.
        layout: Place of each physical core, sorted by socket, NUMA node and CPU.
    """

    cpus: str
    cores: CpuCount
    threads: CpuCount
    sockets: CpuCount
    numa_nodes: CpuCount
    reserved: str = ""
    memory: Amount
    layout: list[CorePlace] = at_most(MOST_CORES)


class NodeKernel(Status):
    """The kernel of the node.

    Attributes:
        release: Release of the kernel, such as ``6.12.57``.
        cgroup_mode: How it counts the weight of a pod that runs on several CPUs, as in
            ``/sys/kernel/debug/sched/cgroup_mode``: ``smp`` (once, as all kernels before 7.0 do),
            ``concur`` (once for each thread that runs at the same time) or another mode.
        assumed: Whether ``cgroupMode`` is the default of the release, because the agent cannot read
            what is set.
    """

    release: str
    cgroup_mode: str
    assumed: bool = False


class PlannedWrite(Status):
    """A write that the agent would make in mode ``enforce``.

    Attributes:
        file: Path of the file.
        value: Text that would be written to the file.
    """

    file: str
    value: str


class ProgressSample(Status):
    """One sample: the progress of a pod over a time at one core count.

    Attributes:
        cores: Number of cores that the pod used.
        seconds: Length of the sample, in seconds, without what other programs on the node added.
        progress: Progress that was counted, in the unit of the source.
        error: Relative standard error of the length; absent if the pod waited for no CPUs.
    """

    cores: CpuCount
    seconds: Decimals
    progress: Decimals
    error: Decimals | None = None


class ProfilingStatus(Status):
    """The progress and result of a measurement.

    Attributes:
        id: Identifier of the request.
        pod_uid: UID of the pod.
        state: State of the measurement: Running, Complete, Expired (its lease ran out), Failed, or
            Cancelled (the request was withdrawn).
        reason: Why the measurement is not complete.
        source: Progress counter that was used: instructions, cpuTime, file or http.
        warnings: Limits of the measurement, and reasons to doubt its result.
        samples: Samples in the order in which they were taken.
        planned: Number of samples that the measurement consists of.
        memory_bandwidth: Memory bandwidth of the pod on all its cores, in gigabytes (10**9 bytes)
            per second.
    """

    id: str
    pod_uid: Annotated[str, Field(alias="podUID")]
    state: Literal["Running", "Complete", "Expired", "Failed", "Cancelled"]
    reason: str = ""
    source: Literal["instructions", "cpuTime", "file", "http"] | None = None
    warnings: list[str] = Field(default_factory=list)
    samples: list[ProgressSample] = Field(default_factory=list)
    planned: Annotated[int, Field(ge=0, le=MOST_EXACT)] = 0
    memory_bandwidth: Decimals | None = None


class CounterReading(Status):
    """The last reading of a pod's progress counter.

    Attributes:
        pod_uid: UID of the pod.
        value: Value of the counter; absent before the first reading.
        time: Time of that reading, by the node's clock.
        problem: Why the counter cannot be read now.
    """

    pod_uid: Annotated[str, Field(alias="podUID")]
    value: Decimals | None = None
    time: Time | None = None
    problem: str = ""


class NodeAllocationStatus(Status):
    """The report of the node's agent.

    Attributes:
        epoch: Number of the plan that this status describes.
        enforced_epoch: Number of the last plan that was fully enforced.
        mode: Mode of the plan.
        accepts_new_fields: Whether the agent ignores fields of a plan that it does not know. Agents
            of version 0.1.0 refuse such a plan.
        topology: Processors and memory of the node.
        kernel: Kernel of the node; absent if the agent cannot read its release.
        shared_cpus: CPUs that are no pod's own.
        pods: State of each grant.
        would_write: Writes that mode ``enforce`` would make, reported in mode ``observe``.
        profiling: Last measurement.
        counters: Last readings of progress counters.
        conditions: Conditions ``Ready`` and ``PlanAccepted``.
    """

    epoch: Epoch | None = None
    enforced_epoch: Epoch | None = None
    mode: Literal["enforce", "observe"] = "observe"
    accepts_new_fields: bool = False
    topology: NodeTopology | None = None
    kernel: NodeKernel | None = None
    shared_cpus: str = ""
    pods: list[GrantStatus] = at_most(MOST_GRANTS)
    would_write: list[PlannedWrite] = Field(default_factory=list)
    profiling: ProfilingStatus | None = None
    counters: list[CounterReading] = at_most(MOST_GRANTS)
    conditions: Annotated[
        list[NodeAllocationCondition], Unique("conditions of type", key="type")
    ] = Field(default_factory=list)
