"""Pure choice: from which NUMA nodes a pod with cores of its own is to take memory, and when.

Memory of its own node is nearer to a core, but there is less of it: in a group that is held to a
node the kernel reclaims, and at last kills, when that node is full, however much is free elsewhere
(``Documentation/admin-guide/cgroup-v2.rst``, cpuset.mems; ``mm/oom_kill.c``, CONSTRAINT_CPUSET).
So a pod is held to the nodes of its cores only while these have room for all that it uses, and let
go before they are full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_agent.memory.pressure import size

if TYPE_CHECKING:
    from walras_agent.holdings import Holdings
    from walras_agent.topology import Topology

TO_COME = 512 << 20
"""Bytes that nodes must have to spare before a pod is held to them."""

TO_STAY = 128 << 20
"""Bytes that they must have to spare while it is."""


def local_nodes(holdings: Holdings, topology: Topology) -> dict[str, CpuSet]:
    """By pod UID, the NUMA nodes of the CPUs that it owns; only pods that own some."""
    node_of = {cpu.id: cpu.numa for cpu in topology.cpus}
    return {
        uid: CpuSet(node_of[cpu] for cpu in holding.own)
        for uid, holding in holdings.pods.items()
        if holding.own
    }


def why_not_held(used: int, available: int, *, is_held: bool) -> str:
    """Why a pod is not to be held to its nodes; empty if it may be.

    Args:
        used: Bytes of the pod, on whatever nodes.
        available: Bytes that its own nodes have free, or can free by dropping cached files.
        is_held: Whether it is already, so that nothing has to come over from elsewhere.
    """
    needed = TO_STAY if is_held else used + TO_COME
    if available >= needed:
        return ""
    return f"{size(available)} are available there, and {size(needed)} are needed"
