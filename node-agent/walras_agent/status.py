"""Pure choice: what is told of a node, of what was seen and written in one step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from walras_agent.cpuset import CpuSet
from walras_agent.memory.pressure import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras_agent.enforce import Failure, Round
    from walras_agent.holdings import Grant
    from walras_agent.memory.keeper import Step as MemoryStep
    from walras_agent.memory.nodes import Local
    from walras_agent.node_plan import Mode
    from walras_agent.observe import Pod
    from walras_agent.tree import Setting


@dataclass(frozen=True, slots=True)
class PodStatus:
    """How one grant is held.

    Attributes:
        pod: UID.
        title: ``namespace/name``.
        cpus: CPUs that the pod may use now; None while it has no container here.
        memory: Bytes that it is held to; None where its memory is left alone.
        state: ``Enforced``; ``Pending`` on its way; ``Failed`` when the kernel refuses; ``Absent``
            while the pod has no container here.
        reason: Why it is not enforced, for people.
        own: CPUs that nobody else may use.
        memory_nodes: NUMA nodes that its memory is held to; None where it is not.
        limit: How many of its own cores all its containers are held to now, because a measurement
            asked for that; None while they are not.
        demand: Bytes of memory that the pod could use; None where that is not looked at.
    """

    pod: str
    title: str
    cpus: CpuSet | None
    memory: int | None
    state: Literal["Enforced", "Pending", "Failed", "Absent"]
    reason: str = ""
    own: CpuSet = field(default_factory=CpuSet)
    memory_nodes: CpuSet | None = None
    limit: int | None = None
    demand: int | None = None


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How the node is.

    Attributes:
        epoch: Of the plan that this is about; None before the first.
        mode: Of that plan.
        refused: Why nothing may be written here; empty if it may.
        pods: One for each grant.
        shared: CPUs of all pods without one.
        writes: What this step wrote; in ``observe`` what it would have written.
        repaired: Containers whose CPUs others have changed since the last step, and pods whose
            quotas or weights.
        failures: Groups that are not as they should be, and why.
    """

    epoch: int | None
    mode: Mode
    refused: str = ""
    pods: tuple[PodStatus, ...] = ()
    shared: CpuSet = field(default_factory=CpuSet)
    writes: tuple[tuple[Setting, str], ...] = ()
    repaired: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether all is as the plan says."""
        return not self.refused and all(pod.state == "Enforced" for pod in self.pods)


def pod_status(
    grant: Grant,
    pod: Pod | None,
    done: Round,
    memory: MemoryStep,
    local: Mapping[str, Local],
) -> PodStatus:
    """How a grant is held.

    Args:
        grant: The grant.
        pod: Its pod; None if it is not here.
        done: What was written about CPUs.
        memory: What was written about memory.
        local: Pods that are held to memory nodes.
    """
    if pod is None or not pod.containers:
        return PodStatus(
            grant.pod, grant.title, None, None, "Absent", "the pod has no container on this node"
        )
    holding = done.holdings.pods[grant.pod]
    report, refusal = memory.pods.get(grant.pod), memory.refused.get(grant.pod)
    status = PodStatus(
        grant.pod,
        grant.title,
        holding.cpus,
        report.limit if report and report.limit < UNLIMITED else None,
        "Enforced",
        own=holding.own,
        memory_nodes=local[grant.pod].nodes if grant.pod in local else None,
        limit=holding.limit.units if holding.limit else None,
        demand=memory.demands.get(grant.pod),
    )
    groups = {pod.group, *(each.group.name for each in pod.containers)}
    failures = [each for each in done.failures if each.group in groups]
    if failures:
        status = replace(status, limit=None)
    if failures or refusal:
        reasons = [each.reason for each in failures] + ([str(refusal)] if refusal else [])
        stuck = all(each.kind != "permanent" for each in failures) and not refusal
        return replace(status, state="Pending" if stuck else "Failed", reason="; ".join(reasons))
    if holding.missing:
        missing = (
            f"{holding.missing} of the cores granted are not to be had on this node now: CPUs are "
            "offline, or pods that share need one; have the Market keep it (cores.reservedCores)"
        )
        return replace(status, state="Pending", reason=missing)
    if report is not None and report.state == "Pending":
        return replace(status, state="Pending", reason=report.reason)
    if grant.pod in local and local[grant.pod].reason:
        return replace(status, state="Pending", reason=local[grant.pod].reason)
    return status
