"""A process that runs the real agent, which believes that its machine has one more CPU.

The agent leaves at least one core to be shared, and this machine may have only two. The further one
is reserved for sharing; while all pods have cores of their own, nothing is ever put on it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet
from walras_agent.daemon.command import main
from walras_agent.daemon.node import HostPaths, NodeComponents
from walras_agent.topology import Cpu, Topology

if TYPE_CHECKING:
    from walras_agent.daemon.inotify import ChangeWaiter
    from walras_agent.journal import Journal

CPUS = sorted(os.sched_getaffinity(0))[:2]
RESERVED = max(CPUS) + 1
KNOWN = Topology(tuple(Cpu(cpu, cpu, 0, 0, 0) for cpu in (*CPUS, RESERVED)))

_as_it_is = NodeComponents.open


def opened(
    paths: HostPaths, journal: Journal, waiter: ChangeWaiter | None = None
) -> NodeComponents:
    """Return what `NodeComponents.open` returns, on a machine with one more CPU."""
    node = _as_it_is(paths, journal, waiter)
    node.reconciler.topology = lambda: KNOWN
    node.reconciler.enforcer.reserved = lambda: CpuSet([RESERVED])
    return node


if __name__ == "__main__":
    NodeComponents.open = opened  # type: ignore[method-assign]
    main()
