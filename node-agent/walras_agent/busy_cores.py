"""Pure: the cores that pods have while all pods of their node are busy, by what the agent writes.

Pods are on the CPU sets that the agent writes, and weigh what they bought or, without a grant, what
they requested; the kernel divides the time of CPUs by that (`walras.analysis.cpu_time`). QoS
classes take nothing from pods, since the agent weighs them by their pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.analysis.cpu_time import BusyGroup, cpu_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_agent.pod_cpus import NodeCpus, PodCpus

_DIGITS = 9  # of cores: sums of floating-point numbers differ in the later ones


def busy_cores(
    node_cpus: NodeCpus, threads: int = 1, others: Sequence[int] = ()
) -> dict[str, float]:
    """Return the cores of each pod with a grant, by UID.

    Args:
        node_cpus: CPUs of the pods with a grant, and the time on them that they bought.
        threads: CPUs of each unit that the market sells.
        others: Requests of the pods without a grant, in thousandths of a CPU; they use the CPUs
            that no pod owns.
    """
    groups = [_group(each) for each in node_cpus.pods.values()]
    if others:
        shared = tuple(node_cpus.shared)
        groups.append(BusyGroup(shared, max(sum(others), 1)))
    times = dict(zip(node_cpus.pods, cpu_time(groups), strict=False))
    return {uid: round(time / threads, _DIGITS) for uid, time in times.items()}


def _group(pod: PodCpus) -> BusyGroup:
    # It may use more, but that is only what others leave.
    return BusyGroup(tuple(pod.cpus), pod.milli, pod.milli / 1000)
