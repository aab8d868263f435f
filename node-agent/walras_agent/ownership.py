"""Pure choice: which CPUs a pod is taken to have for itself, by what is seen of all pods."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_agent.holdings import Holdings
    from walras_agent.observe import Pod


def alone(pods: Sequence[Pod]) -> dict[str, CpuSet]:
    """By pod UID, the CPUs that no other pod may use: all that can be told after a start."""
    users = Counter(cpu for pod in pods for cpu in _cpus(pod))
    return {pod.uid: CpuSet(cpu for cpu in _cpus(pod) if users[cpu] == 1) for pod in pods}


def owned_now(
    pods: Sequence[Pod], before: Mapping[str, CpuSet], holdings: Holdings
) -> dict[str, CpuSet]:
    """By pod UID, what it has for itself when some of the moves have been made.

    Args:
        pods: As they are now.
        before: What each had for itself before the moves.
        holdings: To which they lead.
    """
    owned = {}
    for pod in pods:
        holding = holdings.pods.get(pod.uid)
        mine = holding.own if holding else CpuSet()
        had = before.get(pod.uid, CpuSet())
        # Nobody has come onto those that it keeps, even if a limit has it not use them.
        owned[pod.uid] = (had | mine) & _cpus(pod) | had & mine
    return owned


def _cpus(pod: Pod) -> CpuSet:
    return CpuSet(cpu for each in pod.containers for cpu in each.group.cpus)
