"""Pure: computes the status of a node and its pods from what one step observed and wrote."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from walras_agent.cpuset import CpuSet
from walras_agent.memory.stats import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_agent.cpu_demand import CpuDemand
    from walras_agent.enforce import CpuRound
    from walras_agent.memory.enforce import MemoryRound as MemoryStep
    from walras_agent.memory.numa import NumaBinding
    from walras_agent.node_plan import EnforcedGrant, Mode
    from walras_agent.observe import ObservedPod
    from walras_agent.round_log import GroupFailure
    from walras_agent.topology import Topology
    from walras_agent.tree import CgroupFile


@dataclass(frozen=True, slots=True)
class PodStatus:
    """How far one grant is enforced.

    Attributes:
        pod: UID of the pod.
        title: Name of the pod in messages, ``namespace/name``.
        cpus: CPUs that the pod may use; None while it has no container on this node.
        memory: Memory limit in bytes; None if the pod has none.
        state: ``Enforced``; ``Pending`` while the pod is on its way; ``Failed`` if the kernel
            refuses a write for good; ``Absent`` while the pod has no container on this node.
        reason: Message why the grant is not enforced, or that it is too small to be weighed; empty
            if nothing is to be said.
        exclusive: CPUs that no other pod may use.
        memory_nodes: NUMA nodes that the pod's memory is bound to; None if it is not bound.
        limit: Number of its own cores that a measurement limits all containers to; None without a
            measurement, or while a container is not limited yet.
        demand: Bytes of memory that the pod could use; None if that is not measured.
        sockets: Sockets that the pod's CPUs are on; None while it has no container on this node.
        millicores: Thousandths of a core that the grant gives, as `EnforcedGrant.millicores`.
        used: CPUs that the pod used on average of late (`shown_use`); None if unknown.
        could_use: On how many CPUs it can run at once (`watched_demand`); None if unknown.
    """

    pod: str
    title: str
    cpus: CpuSet | None
    memory: int | None
    state: Literal["Enforced", "Pending", "Failed", "Absent"]
    reason: str = ""
    exclusive: CpuSet = field(default_factory=CpuSet)
    memory_nodes: CpuSet | None = None
    limit: int | None = None
    demand: int | None = None
    sockets: tuple[int, ...] | None = None
    millicores: int = 0
    used: float | None = None
    could_use: CpuDemand | None = None


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How far the plan of a node is enforced after one step.

    Attributes:
        epoch: Epoch of the plan; None before the first plan.
        mode: Mode of the plan.
        refused: Message why the agent must not write on this node; empty if it may.
        pods: One status for each grant.
        shared: CPUs that may be assigned, but that no pod owns.
        writes: Writes of this step; in mode ``observe`` those that ``enforce`` would make.
        repaired: Cgroups that others changed since the last step: containers by their CPUs, pods
            by their quota or weight.
        failures: Cgroups that could not be brought to the plan.
    """

    epoch: int | None
    mode: Mode
    refused: str = ""
    pods: tuple[PodStatus, ...] = ()
    shared: CpuSet = field(default_factory=CpuSet)
    writes: tuple[tuple[CgroupFile, str], ...] = ()
    repaired: tuple[str, ...] = ()
    failures: tuple[GroupFailure, ...] = ()

    @property
    def is_enforced(self) -> bool:
        """Whether every grant is enforced whose pod has a container on this node.

        In mode ``observe`` no grant is.
        """
        in_time = all(pod.state in {"Enforced", "Absent"} for pod in self.pods)
        return self.mode == "enforce" and not self.refused and not self.failures and in_time


def pod_status(
    grant: EnforcedGrant,
    pod: ObservedPod | None,
    done: CpuRound,
    memory: MemoryStep,
    bindings: Mapping[str, NumaBinding],
    topology: Topology,
    used: Mapping[str, float],
    could_use: Mapping[str, CpuDemand],
) -> PodStatus:
    """Return the status of one grant.

    Args:
        grant: The grant.
        pod: The pod as observed; None if it is not on this node.
        done: Result of the step for CPUs.
        memory: Result of the step for memory.
        bindings: NUMA bindings of pods, by UID.
        topology: CPUs of the node.
        used: CPUs that pods used of late, by UID.
        could_use: On how many CPUs pods can run at once, by UID.
    """
    if pod is None or not pod.containers:
        return PodStatus(
            grant.pod,
            grant.title,
            None,
            None,
            "Absent",
            "the pod has no container on this node",
            millicores=grant.millicores,
        )
    pod_cpus = done.node_cpus.pods[grant.pod]
    report, refusal = memory.pods.get(grant.pod), memory.refused.get(grant.pod)
    status = PodStatus(
        grant.pod,
        grant.title,
        pod_cpus.cpus,
        report.limit if report and report.limit < UNLIMITED else None,
        "Enforced",
        exclusive=pod_cpus.exclusive,
        memory_nodes=bindings[grant.pod].nodes if grant.pod in bindings else None,
        limit=pod_cpus.limit.units if pod_cpus.limit else None,
        demand=memory.demands.get(grant.pod),
        sockets=topology.sockets_of(pod_cpus.cpus),
        millicores=grant.millicores,
        used=used.get(grant.pod),
        could_use=could_use.get(grant.pod),
    )
    groups = {*pod.groups, pod.parent}  # its weight decides how much of the shared CPUs the pod has
    failures = [each for each in done.failures if each.group in groups]
    if failures:
        status = replace(status, limit=None)
    if failures or refusal:
        reasons = [each.reason for each in failures] + ([str(refusal)] if refusal else [])
        kinds = [each.kind for each in failures] + ([refusal.kind] if refusal else [])
        stuck = not {"permanent", "unreadable"}.isdisjoint(kinds)
        return replace(status, state="Failed" if stuck else "Pending", reason="; ".join(reasons))
    if pod_cpus.missing:
        missing = (
            f"{pod_cpus.missing} of the granted cores cannot be its own on this node: CPUs are "
            "offline, or pods on shared CPUs need one; reserve it in the Market "
            "(cores.reservedCores)"
        )
        return replace(status, state="Pending", reason=missing)
    if report is not None and report.state == "Pending":
        return replace(status, state="Pending", reason=report.reason)
    if grant.pod in bindings and bindings[grant.pod].reason:
        return replace(status, state="Pending", reason=bindings[grant.pod].reason)
    if pod_cpus.milli < round(done.least_cpus * 1000):
        least = f"{done.least_cpus:.3f} CPUs, the least that the node can weigh"
        return replace(status, reason=f"its grant counts as {least}")
    return status
