"""The JSON API's answer about a node, as values: its processors, and who has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from walras_dashboard.models import ApiModel, NodeSummary
from walras_dashboard.state import Moved
from walras_view.explain.faults import Fault
from walras_view.explain.node import Holder, Supply


class Owner(ApiModel):
    """A pod that has CPUs.

    Attributes:
        namespace: Namespace of the pod.
        pod: Name of the pod.
        job: Its MarketJob; null if that may not be seen.
        user: Its Entitlement; null if that may not be seen.
    """

    namespace: str
    pod: str
    job: str | None
    user: str | None


class Thread(ApiModel):
    """A hardware thread.

    Attributes:
        cpu: Number of the CPU.
        owner: Pod that has it to itself; null if none has.
        state: Whether it is owned by one pod, shared by several, never given to one pod (reserved),
            free, not managed by the agent (outside), or unknown.
    """

    cpu: int
    owner: Owner | None
    state: Literal["owned", "shared", "reserved", "free", "outside", "unknown"]


class Core(ApiModel):
    """A physical core, named after its lowest thread."""

    id: int
    threads: list[Thread]


class NumaNode(ApiModel):
    """A NUMA node."""

    id: int
    cores: list[Core]


class Socket(ApiModel):
    """A processor package."""

    id: int
    numa_nodes: list[NumaNode]


class CpuLayout(ApiModel):
    """The processors of a node."""

    sockets: list[Socket]


class Pool(ApiModel):
    """CPUs that several pods share.

    Attributes:
        cpus: Numbers of the CPUs, as ``0-3,8``.
        owners: Pods with a grant that share them.
    """

    cpus: str
    owners: list[Owner]


@dataclass(frozen=True, slots=True)
class NodeGrant(Holder):
    """Cores and memory that a pod has of a node.

    Attributes:
        memory_limit: Limit that the agent enforces.
        memory_used: Memory that the pod uses.
    """

    memory_limit: float | None
    memory_used: int | None


class NodeDetail(ApiModel):
    """Everything about a node.

    Attributes:
        row: The node in a list.
        topology: Its processors; null where its agent has not reported them.
        pools: CPUs that several pods share.
        grants: Pods with a grant, the most cores first.
        moved: Last changes of who has which CPUs, newest first, since this server began.
        supply: How it comes to what it sells.
        faults: Its conditions that do not hold.
        notes: Figures that are left out, and the way out.
    """

    row: NodeSummary
    topology: CpuLayout | None
    pools: list[Pool]
    grants: list[NodeGrant]
    moved: tuple[Moved, ...]
    supply: Supply
    faults: tuple[Fault, ...]
    notes: list[str]
