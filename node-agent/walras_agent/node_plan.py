"""A value: what the operator wants of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from walras_agent.holdings import Grant
    from walras_agent.topology import Unit

Mode = Literal["enforce", "observe"]
MemoryNodes = Literal["any", "local"]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What the operator wants of this node.

    Attributes:
        epoch: Grows from plan to plan.
        mode: Whether to write, or only to tell what would be written.
        grants: At most one for each pod.
        unit: What they count: physical cores, or single CPUs.
        memory_nodes: Whether pods with cores of their own take memory from any NUMA node, as
            before, or only from those of their cores.
    """

    epoch: int
    mode: Mode
    grants: tuple[Grant, ...]
    unit: Unit = "core"
    memory_nodes: MemoryNodes = "any"
