"""Pure: divides the CPUs of a node into domains, which pods share.

They are the NUMA nodes, since there memory is equally near. The kernel balances load within them,
across caches, too; a pod that is kept on fewer CPUs could not use what others leave elsewhere.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from walras.analysis.domain_of_pod import MOST_SHARED
from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walras_agent.topology import Topology


def domains_of(topology: Topology) -> tuple[CpuSet, ...]:
    """Return the domains of a machine, in assignment order; each CPU is in one of them."""
    if len(topology.cpus) <= MOST_SHARED:
        return (topology.cpuset,)
    by_node = groupby(topology.cpus, key=lambda cpu: cpu.numa)
    return tuple(CpuSet(cpu.id for cpu in node) for _, node in by_node)


def only_domain(domains: Sequence[CpuSet], cpus: CpuSet) -> int | None:
    """Return the number of the only domain that has some of these CPUs; None if not just one."""
    numbers = [number for number, domain in enumerate(domains) if domain & cpus]
    return numbers[0] if len(numbers) == 1 else None


def nearest_domain(domains: Sequence[CpuSet], cpus: CpuSet) -> int | None:
    """Return the number of the domain that has most of these CPUs; None if none has any."""
    common = [len(domain & cpus) for domain in domains]
    return common.index(max(common)) if any(common) else None
