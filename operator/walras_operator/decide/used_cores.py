"""Pure: read from the status of NodeAllocations how much CPU time pods use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_api.node_allocation_status import MOST_CPUS
from walras_api.supply import reported_processors
from walras_operator.decide.conditions import listed, number_at

if TYPE_CHECKING:
    from walras_operator.decide.world import World


def used_cores(world: World) -> dict[tuple[str, str], float]:
    """Return the cores that pods with a grant use by their agents' count, by namespace and name.

    Agents are not trusted: they may report of pods on their node only, and plausible numbers.
    """
    of_cpu, used = cores_of_cpu(world), {}
    for node, allocation in world.allocations.items():
        status = allocation.status or {}
        granted = {each.pod_uid: (each.namespace, each.name) for each in allocation.spec.grants}
        reported = reported_processors(status)
        most = MOST_CPUS if reported is None else reported.threads
        for pod in listed(status, "pods"):
            name, cpus = granted.get(str(pod.get("podUID"))), number_at(pod, "usedCpus")
            if name is not None and cpus is not None and cpus >= 0:
                used[name] = of_cpu.get(node, 1.0) * min(cpus, most)
    return used


def cores_of_cpu(world: World) -> dict[str, float]:
    """Return how many of the cores that are sold one CPU of each node is; 1 where unknown."""
    if world.market is None or world.market.spec.cores.unit != "core":
        return {}
    return {
        node: reported.cores / reported.threads
        for node, each in world.allocations.items()
        if (reported := reported_processors(each.status)) is not None
    }
