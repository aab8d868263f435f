"""Pure: values for the plan of a node, as the operator or a file gives it to the agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from walras_agent.topology import Unit

Mode = Literal["enforce", "observe"]
MemoryNodes = Literal["any", "local"]

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class EnforcedGrant:
    """The cores and memory of one pod that the agent enforces on this node.

    Attributes:
        pod: UID of the pod.
        title: Name of the pod in messages, ``namespace/name``.
        millicores: Thousandths of a core, or of a CPU if single CPUs are sold (`Unit`).
        memory: Bytes of memory; None if the market does not divide memory.
        isolated: Whether its whole cores are its own, also while it sleeps.
        partner: UID of the pod whose last-level cache it is to share; empty for none.
        user: Name of the user who bought them; empty if unknown.

    Raises:
        ValueError: A quantity is zero or negative.
    """

    pod: str
    title: str
    millicores: int
    memory: int | None = None
    isolated: bool = False
    partner: str = ""
    user: str = ""

    def __post_init__(self) -> None:
        if self.millicores <= 0:
            raise ValueError(f"{self.title}: a grant of {self.millicores}m cores is less than 1m")
        if self.memory is not None and self.memory <= 0:
            raise ValueError(f"{self.title}: a grant of {self.memory} bytes is less than 1")

    @property
    def whole_cores(self) -> int:
        """Number of whole cores, or of whole CPUs if single CPUs are sold."""
        return self.millicores // _MILLI


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The plan of one node: all grants that the agent enforces, and how.

    Attributes:
        epoch: Number of the plan; a later plan has a higher one.
        mode: ``enforce`` to write to cgroups, ``observe`` to restore them and report the writes
            that ``enforce`` would make.
        grants: Grants of the node's pods, at most one for each pod.
        unit: Whether grants count physical cores or single CPUs.
        memory_nodes: ``local`` to bind the memory of pods to the NUMA nodes of their CPUs, ``any``
            to leave it unbound.
        keeps_limits: Whether the CPU limits of pods with a grant stay.
    """

    epoch: int
    mode: Mode
    grants: tuple[EnforcedGrant, ...]
    unit: Unit = "core"
    memory_nodes: MemoryNodes = "any"
    keeps_limits: bool = False
