"""Pure: the status of a NodeAllocation, from what a reconcile pass found and did."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from walras_agent.cpuset import CpuSet
from walras_agent.profiling.measurement import LEAST_PROGRESS, MOST_PROGRESS
from walras_api.node_allocation_status import (
    CorePlace,
    CounterReading,
    GrantStatus,
    NodeAllocationCondition,
    NodeAllocationStatus,
    NodeKernel,
    NodeTopology,
    PlannedWrite,
    PodDemand,
    ProfilingStatus,
    ProgressSample,
)
from walras_api.status import decimals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_agent.cpu_demand import CpuDemand
    from walras_agent.kernel import Kernel
    from walras_agent.profiling.request import MeasurementReport
    from walras_agent.profiling.watched_counters import CounterValue
    from walras_agent.status import NodeStatus, PodStatus
    from walras_agent.topology import Topology
    from walras_agent.tree import CgroupFile

ConditionState = tuple[Literal["True", "False"], str, str]
"""Status, reason and message of a condition."""

_DIGITS = 9  # significant digits of a counter's readings, which may be in any unit
_COUNTER_DIGITS = 12  # significant digits of a counter's value
_MAX_LISTED = 5  # problems in a condition's message


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """Result of one reconcile pass.

    Attributes:
        node: State of the node and the writes of this pass.
        seconds: Duration of the pass.
        topology: CPUs and memory of the node.
        problems: Reasons why the latest plan was refused; empty if it was accepted.
        enforced: Epoch of the last plan that was enforced in full; None before the first.
        delay: Seconds from accepting the plan until it was enforced; None in every pass but the
            one that first found it enforced.
        profiling: Last measurement; None before the first.
        counters: Last readings of progress counters, by UID of the pod.
        kernel: Kernel of the node; None if unknown.
    """

    node: NodeStatus
    seconds: float
    topology: NodeTopology
    problems: tuple[str, ...] = ()
    enforced: int | None = None
    delay: float | None = None
    profiling: ProfilingStatus | None = None
    counters: Mapping[str, CounterValue] = field(default_factory=dict)
    kernel: Kernel | None = None


def status_of(
    report: ReconcileReport, now: str, before: Sequence[NodeAllocationCondition] = ()
) -> NodeAllocationStatus:
    """Return the status of a NodeAllocation.

    Args:
        report: Result of the last reconcile pass.
        now: Present time (RFC 3339).
        before: Conditions of the previous status, for their transition times.
    """
    node = report.node
    return NodeAllocationStatus(
        epoch=node.epoch,
        enforced_epoch=report.enforced,
        mode=node.mode,
        accepts_new_fields=True,
        topology=report.topology,
        kernel=_kernel(report.kernel),
        shared_cpus=str(node.shared),
        pods=[_holding(pod) for pod in node.pods],
        would_write=[
            PlannedWrite(file=str(setting), value=value) for setting, value in _planned(node)
        ],
        profiling=report.profiling,
        counters=[_reading(pod, each) for pod, each in sorted(report.counters.items())],
        conditions=_conditions(report, before, now),
    )


def _kernel(kernel: Kernel | None) -> NodeKernel | None:
    if kernel is None:
        return None
    return NodeKernel(
        release=kernel.release, cgroup_mode=kernel.cgroup_mode, assumed=kernel.assumed
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _planned(node: NodeStatus) -> Sequence[tuple[CgroupFile, str]]:
    return node.writes if node.mode == "observe" else ()


def _reading(pod: str, counter: CounterValue) -> CounterReading:
    number = counter.value
    is_valid = number is not None and 0 <= number <= MOST_PROGRESS
    problem = counter.problem
    if number is not None and not is_valid:
        problem = f"its value of {number:g} is not between 0 and {MOST_PROGRESS:g}"
    return CounterReading(
        pod_uid=pod,
        value=_counted(number) if number is not None and is_valid else None,
        time=_time(counter.at) if is_valid else None,
        problem=problem,
    )


def _counted(value: float) -> str:
    return "0" if value < LEAST_PROGRESS else decimals(value, _COUNTER_DIGITS)


def _holding(pod: PodStatus) -> GrantStatus:
    namespace, _, name = pod.title.partition("/")
    return GrantStatus(
        pod_uid=pod.pod,
        namespace=namespace,
        name=name,
        cpus=None if pod.cpus is None else str(pod.cpus),
        sockets=None if pod.sockets is None else list(pod.sockets),
        memory=None if pod.memory is None else str(pod.memory),
        memory_demand=None if pod.demand is None else str(pod.demand),
        used_cpus=None if pod.used is None else decimals(pod.used),
        demand=None if pod.could_use is None else _demand(pod.could_use),
        state=pod.state,
        reason=pod.reason,
    )


def _demand(seen: CpuDemand) -> PodDemand:
    return PodDemand(
        at_once=decimals(seen.at_once),
        wanted=decimals(seen.wanted) if seen.wanted else None,
        threads=seen.threads,
        seconds=int(seen.free),
        held_back_seconds=int(seen.held_back),
    )


def topology_of(topology: Topology, reserved: CpuSet, memory: int) -> NodeTopology:
    """Return the topology of a node as its status shows it.

    Args:
        topology: CPUs of the node.
        reserved: CPUs that no pod may have exclusively.
        memory: Memory of the node in bytes.
    """
    return NodeTopology(
        cpus=str(topology.cpuset),
        cores=len(topology.cores()),
        threads=len(topology.cpus),
        sockets=len({cpu.socket for cpu in topology.cpus}),
        numa_nodes=len({cpu.numa for cpu in topology.cpus}),
        reserved=str(reserved),
        memory=str(memory),
        layout=_layout(topology),
    )


def _layout(topology: Topology) -> list[CorePlace]:
    cores: dict[tuple[int, int, int], list[int]] = {}
    for cpu in topology.cpus:
        cores.setdefault((cpu.socket, cpu.numa, cpu.core), []).append(cpu.id)
    return [
        CorePlace(socket=socket, numa_node=numa, cpus=str(CpuSet(cpus)))
        for (socket, numa, _), cpus in sorted(
            cores.items(), key=lambda each: (*each[0][:2], min(each[1]))
        )
    ]


def profiling_status(report: MeasurementReport) -> ProfilingStatus:
    """Return a measurement as the status shows it.

    Samples are left out until the measurement has ended, because every change of a status is a
    write that all watchers receive.
    """
    bandwidth = report.memory_bandwidth
    return ProfilingStatus(
        id=report.id,
        pod_uid=report.pod,
        state=report.state,
        reason=report.reason,
        source=report.source,
        warnings=list(report.warnings),
        samples=[
            ProgressSample(
                cores=sample.cores,
                seconds=decimals(sample.seconds, _DIGITS),
                progress=decimals(sample.progress, _DIGITS),
                error=_decimal(sample.error) if sample.error else None,
            )
            for sample in report.samples
        ]
        if report.state != "Running"
        else [],
        planned=report.planned,
        memory_bandwidth=None if bandwidth is None else _decimal(bandwidth / 1e9),
    )


def mark_interrupted(status: ProfilingStatus) -> ProfilingStatus:
    """Return the status of a measurement after a restart of the agent: a running one has failed."""
    if status.state != "Running":
        return status
    reason = "the agent restarted during the measurement: request a new one"
    return status.model_copy(update={"state": "Failed", "reason": reason})


def _decimal(value: float) -> str:
    """Return a decimal of at most six places, without trailing zeros."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _conditions(
    report: ReconcileReport, before: Sequence[NodeAllocationCondition], now: str
) -> list[NodeAllocationCondition]:
    states: dict[Literal["Ready", "PlanAccepted"], ConditionState] = {
        "Ready": _ready(report.node),
        "PlanAccepted": _accepted(report),
    }
    since = {each.type: (each.status, each.last_transition_time) for each in before}
    conditions = []
    for kind, (status, reason, message) in states.items():
        last, when = since.get(kind, (None, now))
        conditions.append(
            NodeAllocationCondition(
                type=kind,
                status=status,
                reason=reason,
                message=message,
                last_transition_time=when if last == status else now,
            )
        )
    return conditions


def _accepted(report: ReconcileReport) -> ConditionState:
    if report.problems:
        return "False", "PlanRefused", _listed(report.problems)
    if report.node.epoch is None:
        return "False", "NoPlan", "no plan received yet"
    return "True", "Taken", f"the plan of epoch {report.node.epoch} is in force"


def _ready(node: NodeStatus) -> ConditionState:
    if node.epoch is None:
        return "False", "NoPlan", "no plan received yet"
    if node.refused:
        return "False", "Refused", node.refused
    if node.mode == "observe":
        return "True", "Observing", f"nothing is written; writes withheld: {len(node.writes)}"
    if node.is_enforced:
        absent = sum(pod.state == "Absent" for pod in node.pods)
        beside = f", {absent} of them for pods without a container here" if absent else ""
        return "True", "Enforced", f"{len(node.pods)} grants enforced{beside}"
    problems = [f"{pod.title}: {pod.reason}" for pod in node.pods if pod.state == "Failed"]
    if problems:
        return "False", "Failed", _listed(problems)
    waiting = [f"{pod.title}: {pod.reason}" for pod in node.pods if pod.state == "Pending"]
    return "False", "Pending", _listed(waiting or [each.reason for each in node.failures])


def _listed(problems: Sequence[str]) -> str:
    more = f"; and {len(problems) - _MAX_LISTED} more" if len(problems) > _MAX_LISTED else ""
    return "; ".join(problems[:_MAX_LISTED]) + more
