"""Facts: how the node is after a look, for whoever is to be told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from walras.resources.node_status import (
    Condition,
    MeasuredFraction,
    NodeAllocationStatus,
    NodeTopology,
    PlannedWrite,
    PodHolding,
    ProfilingSample,
    ProfilingStatus,
)
from walras.resources.status import decimals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_agent.cpuset import CpuSet
    from walras_agent.profiling.request import Report as Measured
    from walras_agent.status import NodeStatus, PodStatus
    from walras_agent.topology import Topology
    from walras_agent.tree import Setting

Verdict = tuple[Literal["True", "False"], str, str]

_DIGITS = 9  # of what was counted, which may be in any unit
_LISTED = 5  # problems in a condition's message


@dataclass(frozen=True, slots=True)
class Report:
    """One look.

    Attributes:
        node: What it found and did.
        seconds: That it took.
        topology: The node's CPUs and memory.
        problems: Of a plan that could not be taken; empty if there is none.
        enforced: Epoch of the last plan that held in full.
        delay: Seconds from taking the present plan until it held; None but in the look that
            first found it so.
        profiling: The last measurement.
    """

    node: NodeStatus
    seconds: float
    topology: NodeTopology
    problems: tuple[str, ...] = ()
    enforced: int | None = None
    delay: float | None = None
    profiling: ProfilingStatus | None = None


def status_of(
    report: Report, before: Sequence[Condition] = (), now: str = ""
) -> NodeAllocationStatus:
    """The status of a NodeAllocation.

    Args:
        report: The last look.
        before: The conditions of the status before, for the times of their transitions.
        now: The time (RFC 3339).
    """
    node = report.node
    return NodeAllocationStatus(
        epoch=node.epoch,
        enforced_epoch=report.enforced,
        mode=node.mode,
        topology=report.topology,
        shared_cpus=str(node.shared),
        pods=[_holding(pod) for pod in node.pods],
        would_write=[
            PlannedWrite(file=str(setting), value=value) for setting, value in _planned(node)
        ],
        profiling=report.profiling,
        conditions=_conditions(report, before, now or _now()),
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def holds(node: NodeStatus) -> bool:
    """Whether all that is here is as the plan says; a pod without a container is not."""
    in_time = all(pod.state in {"Enforced", "Absent"} for pod in node.pods)
    return node.mode == "enforce" and not node.refused and not node.failures and in_time


def _planned(node: NodeStatus) -> Sequence[tuple[Setting, str]]:
    return node.writes if node.mode == "observe" else ()


def _holding(pod: PodStatus) -> PodHolding:
    namespace, _, name = pod.title.partition("/")
    return PodHolding(
        pod_uid=pod.pod,
        namespace=namespace,
        name=name,
        cpus=None if pod.cpus is None else str(pod.cpus),
        memory=None if pod.memory is None else str(pod.memory),
        memory_demand=None if pod.demand is None else str(pod.demand),
        state=pod.state,
        reason=pod.reason,
    )


def topology_of(topology: Topology, reserved: CpuSet, memory: int) -> NodeTopology:
    """A node in short.

    Args:
        topology: Its CPUs.
        reserved: Those that nobody may have of their own.
        memory: Bytes in all.
    """
    return NodeTopology(
        cpus=str(topology.cpuset),
        cores=len(topology.cores()),
        threads=len(topology.cpus),
        sockets=len({cpu.socket for cpu in topology.cpus}),
        numa_nodes=len({cpu.numa for cpu in topology.cpus}),
        reserved=str(reserved),
        memory=str(memory),
    )


def profiling_status(report: Measured) -> ProfilingStatus:
    """How a measurement goes, as a part of a document.

    Samples are told when it has ended: every change of a status is a write, and news to whoever
    watches.
    """
    fit = report.fit
    bandwidth = report.memory_bandwidth
    return ProfilingStatus(
        id=report.id,
        pod_uid=report.pod,
        state=report.state,
        reason=report.reason,
        source=report.source,
        warnings=list(report.warnings),
        samples=[
            ProfilingSample(
                cores=sample.cores,
                seconds=decimals(sample.seconds, _DIGITS),
                progress=decimals(sample.progress, _DIGITS),
            )
            for sample in report.samples
        ]
        if report.state != "Running"
        else [],
        planned=report.planned,
        fractions=[
            MeasuredFraction(cores=cores, fraction=_decimal(fraction))
            for cores, fraction in sorted(fit.by_cores.items())
        ]
        if fit
        else [],
        mean=None if fit is None else _decimal(fit.mean),
        variance=None if fit is None else _decimal(fit.variance),
        memory_bandwidth=None if bandwidth is None else _decimal(bandwidth / 1e9),
    )


def ended(status: ProfilingStatus) -> ProfilingStatus:
    """How a measurement went of an agent that is no more."""
    if status.state != "Running":
        return status
    reason = "the agent was started anew in the midst of it: ask for another one"
    return status.model_copy(update={"state": "Failed", "reason": reason})


def _decimal(value: float) -> str:
    """A plain decimal with what a measurement can tell."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _conditions(report: Report, before: Sequence[Condition], now: str) -> list[Condition]:
    verdicts: dict[Literal["Ready", "PlanAccepted"], Verdict] = {
        "Ready": _ready(report.node),
        "PlanAccepted": _accepted(report),
    }
    since = {each.type: (each.status, each.last_transition_time) for each in before}
    conditions = []
    for kind, (status, reason, message) in verdicts.items():
        known, when = since.get(kind, (None, now))
        conditions.append(
            Condition(
                type=kind,
                status=status,
                reason=reason,
                message=message,
                last_transition_time=when if known == status else now,
            )
        )
    return conditions


def _accepted(report: Report) -> Verdict:
    if report.problems:
        return "False", "PlanRefused", _listed(report.problems)
    if report.node.epoch is None:
        return "False", "NoPlan", "no plan has come yet"
    return "True", "Taken", f"the plan of epoch {report.node.epoch} is in force"


def _ready(node: NodeStatus) -> Verdict:
    if node.epoch is None:
        return "False", "NoPlan", "no plan has come yet"
    if node.refused:
        return "False", "Refused", node.refused
    if node.mode == "observe":
        return "True", "Observing", f"nothing is written; {len(node.writes)} writes would be made"
    if holds(node):
        absent = sum(pod.state == "Absent" for pod in node.pods)
        beside = f"; {absent} have no container here" if absent else ""
        return "True", "Enforced", f"{len(node.pods)} grants are held{beside}"
    problems = [f"{pod.title}: {pod.reason}" for pod in node.pods if pod.state == "Failed"]
    if problems:
        return "False", "Failed", _listed(problems)
    waiting = [f"{pod.title}: {pod.reason}" for pod in node.pods if pod.state == "Pending"]
    return "False", "Pending", _listed(waiting or [each.reason for each in node.failures])


def _listed(problems: Sequence[str]) -> str:
    more = f"; and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
    return "; ".join(problems[:_LISTED]) + more
