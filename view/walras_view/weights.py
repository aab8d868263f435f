"""Pure: what is said of a node whose kernel divides shared CPUs otherwise than by weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walras_api.node_allocation_status import NodeKernel

CGROUP_MODE = "/sys/kernel/debug/sched/cgroup_mode"
ONCE = "smp"
"""Mode in which a kernel counts a pod's weight once, whatever its threads do."""

COUNTS = {"concur": "once for each of its threads that runs at the same time"}
"""How often a kernel counts a pod's weight, by other modes that are known."""


def weights_sentence(kernel: NodeKernel | None) -> str | None:
    """Return what is wrong with how a node's kernel divides shared CPUs; None if nothing is."""
    if kernel is None or kernel.cgroup_mode == ONCE:
        return None
    counts = COUNTS.get(kernel.cgroup_mode, "by what its threads do")
    seen = ", by default: the agent cannot read what is set" if kernel.assumed else ""
    return (
        f"its kernel {kernel.release} counts a pod's weight {counts} (cgroup_mode "
        f"{kernel.cgroup_mode}{seen}), so pods with many busy threads have more of the CPUs "
        f"that pods share, and others less, as far as the agent does not correct it; CPUs of a "
        f"pod's own are not affected; on the node, as root: echo {ONCE} > {CGROUP_MODE} (again "
        f"after each reboot)"
    )
