"""NodeAllocation: the plan of a node; `node_allocation_status` has the report of its agent."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from walras_api.fields import Cores, Name, NotNegativeInt, PositiveBytes, PositiveInt, Unique
from walras_api.market_job import CounterFile, HttpCounter, ProgressSource  # noqa: TC001 - pydantic reads them
from walras_api.model import Model, Resource, Rule

MOST_GRANTS = 1000
"""Maximum number of grants of a node, which is more pods than any node runs."""

MIN_MEMORY_GRANT = 1 << 16
"""Bytes of the smallest memory grant: limits are whole pages, and pages are up to 64 KiB."""


def _address(value: str) -> str:
    """Return an IP address in its usual form; one with a zone is refused, as it is local to a host.

    Raises:
        ValueError: The text is not such an address.
    """
    try:
        return str(ip_address(value.replace("%", " ")))
    except ValueError:
        raise ValueError(f"is {value!r}; write an IP address") from None


def is_address(text: str) -> bool:
    """Return whether a text is an IP address that a NodeAllocation can have."""
    try:
        _address(text)
    except ValueError:
        return False
    return True


IPAddress = Annotated[
    str,
    AfterValidator(_address),
    WithJsonSchema({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}),
]

POD_UID = r"^[0-9a-zA-Z-]{1,64}$"

PodUID = Annotated[str, Field(alias="podUID", pattern=POD_UID)]
"""UID of a pod, as the kubelet names its cgroups."""


class PodGrant(Model):
    """The cores and memory that the market granted to a pod on this node.

    Attributes:
        pod_uid: UID of the pod.
        namespace: Namespace of the pod, for information only.
        name: Name of the pod, for information only.
        cores: Cores of which the pod is to have the time whenever it wants it, in the unit of the
            plan.
        memory: Memory that the pod may use, at least 64 KiB. If unset, the pod's memory limits are
            left alone.
        entitlement: Entitlement that pays for the pod: what one of its pods leaves idle, its other
            pods have first.
        isolated: Whether its whole cores are CPUs of its own, which no other pod uses even while
            they are idle. A remainder is time on CPUs that pods share, as is all otherwise.
        partner_uid: UID of the pod with which it was matched, and is to share a socket if there is
            room on one.
    """

    pod_uid: PodUID
    namespace: Name = "default"
    name: Name
    cores: Cores
    memory: PositiveBytes | None = None
    entitlement: Name | None = None
    isolated: bool | None = None
    partner_uid: Annotated[
        Annotated[str, Field(pattern=POD_UID)] | None, Field(alias="partnerUID")
    ] = None


class ProfilingRequest(Model):
    """A measurement that the agent makes of one running pod.

    Attributes:
        id: Identifier of this measurement; a new id requests a new measurement.
        pod_uid: UID of the pod, which must have a grant of whole cores.
        purpose: Kind of measurement: Speedup varies the pod's cores; Progress only measures its
            rate on all the cores that it holds.
        cores: Core counts to measure at, none above the grant; by default, powers of two up to the
            grant.
        sample_seconds: Length of each sample, in seconds.
        repeats: Number of samples at each core count.
        lease_seconds: Seconds after its last renewal at which the measurement ends on its own.
        renewals: Number of renewals of the lease; an increase renews it.
        progress: Progress counter of the job. If unset, the agent counts instructions or CPU time.
        pod_ip: IP address of the pod, required for a progress counter that is served by HTTP.
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


class CounterRequest(Model):
    """A progress counter of a pod that the agent reads from time to time: a file, or a page.

    Attributes:
        pod_uid: UID of the pod.
        file: Path, inside the pod's containers, of a file whose first word is the counter.
        http: HTTP endpoint that serves the counter, if it is not in a file.
        pod_ip: IP address of the pod, for a counter that is served by HTTP.
    """

    pod_uid: PodUID
    file: CounterFile | None = None
    http: HttpCounter | None = None
    pod_ip: Annotated[IPAddress | None, Field(alias="podIP")] = None


class NodeAllocationSpec(Model):
    """The plan of a node, written by the operator.

    Attributes:
        epoch: Number of the plan, which only increases; agents ignore a plan older than the last.
        paused: Whether the plan stays as it is, by ``walras pause``. Until that is taken back, the
            API server refuses another epoch.
        mode: Whether the agent enforces the plan: enforce applies the grants; observe restores the
            node and reports what would be written.
        unit: Unit of ``cores``: a physical core with all its hardware threads (core), or a single
            hardware thread (thread).
        memory_nodes: NUMA nodes from which pods with CPUs of their own allocate memory: any node
            (any), or only the nodes of their CPUs (local, by ``cpuset.mems``).
        limits: Whether the CPU limits of pods with a grant stay (Kept) or are lifted (Lifted, also
            if absent).
        grants: Grants of the node's pods, at most one for each pod.
        profiling: Measurement to make, if any.
        counters: Progress counters to read and report, of pods with deadlines.
    """

    RULES = (
        Rule(
            "has an epoch before the last one; only a later decision may replace it",
            "self.epoch >= oldSelf.epoch",
            None,
        ),
        Rule(
            "is paused, so its plan stays; go on with walras resume",
            "!has(oldSelf.paused) || !oldSelf.paused || self.epoch == oldSelf.epoch",
            None,
        ),
    )

    epoch: NotNegativeInt
    paused: bool | None = None
    mode: Literal["enforce", "observe"] = "enforce"
    unit: Literal["core", "thread"] = "core"
    memory_nodes: Literal["any", "local"] = "any"
    limits: Literal["Lifted", "Kept"] | None = None
    grants: Annotated[
        list[PodGrant], Field(max_length=MOST_GRANTS), Unique("grants for the pod", key="podUID")
    ] = Field(default_factory=list)
    profiling: ProfilingRequest | None = None
    counters: Annotated[
        list[CounterRequest],
        Field(max_length=MOST_GRANTS),
        Unique("counters for the pod", key="podUID"),
    ] = Field(default_factory=list)


class NodeAllocation(Resource):
    """The plan of one node, and its agent's report; cluster-scoped and named after the node."""

    kind: Literal["NodeAllocation"]
    spec: NodeAllocationSpec
