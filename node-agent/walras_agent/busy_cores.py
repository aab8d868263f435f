"""Pure: the cores that pods have while all pods of their node are busy, by what the agent writes.

CPU sets and weights are those that the agent writes, in the kernel's units, and the kernel divides
the time of CPUs by them (`walras.analysis.cpu_time`). Weights are those of cgroup v1. QoS classes
take nothing from pods, since the agent weighs them by their pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.analysis.cpu_time import BusyGroup, cpu_time
from walras_agent.pod_cpus import KUBELETS_WEIGHTS
from walras_agent.quota import cpu_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_agent.pod_cpus import NodeCpus, PodCpus

_DIGITS = 9  # of cores: sums of floating-point numbers differ in the later ones


def busy_cores(
    node_cpus: NodeCpus, threads: int = 1, others: Sequence[int] = ()
) -> dict[str, float]:
    """Return the cores of each pod with a grant, by UID.

    Args:
        node_cpus: CPUs and weights of the pods with a grant, weighed as by the kubelet.
        threads: CPUs of each unit that the market sells.
        others: Requests of the pods without a grant, in thousandths of a CPU, of which their
            weights follow; they use the CPUs that no pod owns.
    """
    groups = [_group(each) for each in node_cpus.pods.values()]
    if others:
        shared = tuple(node_cpus.shared)
        groups.append(BusyGroup(shared, sum(map(cpu_shares, others))))
    times = dict(zip(node_cpus.pods, cpu_time(groups), strict=False))
    return {uid: round(time / threads, _DIGITS) for uid, time in times.items()}


def _group(pod: PodCpus) -> BusyGroup:
    # It may use more, but that is only what others leave.
    granted = KUBELETS_WEIGHTS.cpus(pod.milliweight)
    return BusyGroup(tuple(pod.cpus), cpu_shares(pod.milliweight), granted)
