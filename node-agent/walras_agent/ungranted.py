"""Facts: finds the CPUs of containers without a grant.

Such a container keeps the CPUs that others gave it, without those that a pod owns exclusively. So
one that its runtime confined stays confined, and threads that were placed on isolated CPUs by hand
stay there. What others write while grants are in force counts as well.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_agent.moves import CPUS
from walras_agent.observe import read_group
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras_agent.journal import Journal
    from walras_agent.observe import Group, ObservedPod
    from walras_agent.pod_cpus import NodeCpus
    from walras_agent.tree import Cgroups


def ungranted_cpus(
    cgroups: Cgroups,
    pods: Iterable[ObservedPod],
    node_cpus: NodeCpus,
    journal: Journal,
    usable: CpuSet,
) -> dict[str, CpuSet]:
    """Return the CPUs that every container without a grant is to use, by cgroup.

    They are the shared CPUs for a container whose own CPUs are all owned by pods.

    Args:
        cgroups: Cgroups of this node.
        pods: The pods as observed now.
        node_cpus: CPUs of the pods with a grant.
        journal: Original texts of the files that were written.
        usable: All CPUs that pods may use, isolated ones included.
    """
    owned = CpuSet(cpu for each in node_cpus.pods.values() for cpu in each.exclusive)

    def unowned(own: CpuSet) -> CpuSet:
        return own - owned or node_cpus.shared

    @cache  # most containers have the same original
    def of_original(text: str) -> CpuSet:
        return unowned(_listed(text, usable))

    allowed = {}
    for pod in pods:
        for each in pod.containers if pod.uid not in node_cpus.pods else ():
            group = each.group
            kept = journal.originals.get(CgroupFile("cpuset", group.name, CPUS))
            if kept is None:
                is_right = bool(group.cpus) and not group.cpus & owned
            else:
                is_right = group.cpus == of_original(kept.text)
            # So no file is read while nothing changes.
            if is_right:
                allowed[group.name] = group.cpus
            else:
                allowed[group.name] = unowned(_given(cgroups, pod, group, journal, usable))
    return allowed


def _given(
    cgroups: Cgroups, pod: ObservedPod, group: Group, journal: Journal, usable: CpuSet
) -> CpuSet:
    """Return the CPUs that others gave a container: the original, or what they wrote later."""
    setting = CgroupFile("cpuset", group.name, CPUS)
    kept = journal.originals.get(setting)
    try:
        text = cgroups.read(setting)
        if kept is not None and cgroups.identity(group.name) == kept.identity:
            text = text if journal.is_foreign(kept, text, cgroups.version) else kept.text
        # In v1 a group above lacks CPUs that were offline, until it is widened.
        above = read_group(cgroups, pod.group) if cgroups.version == 2 else None
    except CgroupError:  # it is being deleted
        return group.cpus
    return _listed(text, usable & above.cpus if above else usable)


def _listed(text: str, usable: CpuSet) -> CpuSet:
    """Return those of the usable CPUs that a cpuset lists; an empty one has all of them."""
    return (CpuSet.parse(text) or usable) & usable
