"""Pure: what the pods of a node have a right to, and whose weights are corrected for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_agent.correction import Purchase
from walras_agent.cpuset import CpuSet
from walras_agent.moves import target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walras_agent.observe import ObservedPod
    from walras_agent.pod_cpus import NodeCpus

_MILLI = 1000


def purchases(
    pods: Iterable[ObservedPod], node_cpus: NodeCpus, requested: Callable[[ObservedPod], float]
) -> dict[str, Purchase]:
    """Return what pods bought, or requested if they have no grant, by UID; not if it is nothing.

    Args:
        pods: Pods of the node.
        node_cpus: CPUs that they have.
        requested: Function that returns the CPUs that a pod requested.
    """
    found = {}
    for pod in pods:
        if granted := node_cpus.pods.get(pod.uid):
            cpus, user, allowed = granted.milli / _MILLI, granted.user, granted.cpus
        else:
            cpus, user = requested(pod), ""
            allowed = CpuSet(cpu for each in pod.containers for cpu in target(pod, each, node_cpus))
        if cpus and allowed:
            found[pod.uid] = Purchase(cpus, user or pod.uid, allowed)
    return found


def correctable(
    bought: Mapping[str, Purchase], node_cpus: NodeCpus, domains: Iterable[CpuSet]
) -> dict[str, Purchase]:
    """Return the purchases of pods that share the CPUs of their domains.

    A pod without a grant that may run on several would make one domain of all of them.
    """
    return {
        uid: each
        for uid, each in bought.items()
        if each.allowed & node_cpus.shared
        and (uid in node_cpus.pods or sum(bool(each.allowed & some) for some in domains) == 1)
    }
