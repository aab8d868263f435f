"""What was decided: who gets which part of what, at which price, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras.snapshot import title

if TYPE_CHECKING:
    from walras.karma.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Grant:
    """What one job gets.

    Attributes:
        namespace: of the job.
        name: of the job.
        entitlement: that pays.
        node: on which.
        cores: the market's real number.
        granted_cores: whole cores for this job alone; 0 if it shares.
        shared_cores: whole cores that it shares with the other small jobs of its node; 0 if its
            cores are its own.
        weight: its part of the shared cores, on the scale of cgroup v2's cpu.weight with 100 for
            the largest part.
        price: of a core of this node, in cores: 1 is the average of the cluster; 0 under
            mechanisms that take no payment.
        spend: of its entitlement's budget, in the same unit.
        speedup: predicted at ``cores``.
        reason: one sentence for its user.
        pod: that the job is; empty for a program on one machine.
        sockets: of the node, numbered from 0, where these are sold one by one; else empty.
        memory: bytes; None if it takes no part in the market for memory.
        memory_reason: one sentence about that; empty likewise.
    """

    namespace: str
    name: str
    entitlement: str
    node: str
    cores: float
    granted_cores: int
    shared_cores: int
    weight: int
    price: float
    spend: float
    speedup: float
    reason: str
    pod: str = ""
    sockets: tuple[int, ...] = ()
    memory: int | None = None
    memory_reason: str = ""

    @property
    def title(self) -> str:
        """Its name for people."""
        return title(self.namespace, self.name, self.pod)


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """What one entitlement with jobs gets across the cluster.

    Attributes:
        name: of the entitlement.
        entitled_cores: its share of all cores, which is also its budget.
        cores: the market's real number.
        utility: weighted speedup of its jobs (eq. 4).
        entitlement_utility: what it would be with its share of every node and no trade (V-C).
    """

    name: str
    entitled_cores: float
    cores: float
    utility: float
    entitlement_utility: float


@dataclass(frozen=True, slots=True)
class MemoryOutcome:
    """What one entitlement gets of the memory that is divided.

    Attributes:
        name: of the entitlement.
        entitled: bytes that its share of all memory is worth.
        demand: bytes that its jobs could use.
        granted: bytes.
        credits: after this quantum, as a decimal number; empty where no credits are kept.
        credits_earned: in this quantum, less those spent; likewise.
    """

    name: str
    entitled: int
    demand: int
    granted: int
    credits: str = ""
    credits_earned: str = ""


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """A node's cores, their price (1 is the cluster's average), and the cores small jobs share."""

    name: str
    cores: int
    price: float
    shared_cores: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that takes no part, and why."""

    namespace: str
    name: str
    reason: str
    pod: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Jobs that were placed on one processor together.

    Attributes:
        node: where.
        jobs: two, or one that has the processor to itself.
        penalties: the part of its throughput that each is expected to lose there.
    """

    node: str
    jobs: tuple[str, ...]
    penalties: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A cleared market.

    Attributes:
        grants: one a job that was admitted, in the order of the snapshot.
        users: in the order of the snapshot's entitlements, those with jobs.
        nodes: in the order of the snapshot.
        refused: jobs that were not admitted.
        mechanism: that divided the cores.
        solver: that found the prices.
        iterations: that it took.
        price_error: proven bound on the relative error of prices; infinity if there is none.
        residual: largest relative violation of an equilibrium condition.
        converged: whether the solver reached what was asked.
        system_progress: budget-weighted mean of utilities (eq. 10).
        pairings: jobs that were placed, and beside whom.
        memory_mechanism: that divided memory; empty where none did.
        memory: in the order of the snapshot's entitlements, those that memory is divided among.
        ledger: Karma's credits after this decision; None without Karma.
    """

    grants: tuple[Grant, ...]
    users: tuple[UserOutcome, ...]
    nodes: tuple[NodeOutcome, ...]
    refused: tuple[Refusal, ...]
    mechanism: str
    solver: str
    iterations: int
    price_error: float
    residual: float
    converged: bool
    system_progress: float
    pairings: tuple[Pairing, ...] = ()
    memory_mechanism: str = ""
    memory: tuple[MemoryOutcome, ...] = ()
    ledger: Ledger | None = None
