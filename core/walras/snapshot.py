"""What a decision is made on: entitlements, nodes and jobs at one moment, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walras.karma.ledger import Ledger
    from walras.plan import Grant

CoreMechanism = Literal[
    "AmdahlBidding",
    "ProportionalSharing",
    "BestResponse",
    "Greedy",
    "UpperBound",
    "PriceAnticipating",
    "Auction",
]
"""How cores are divided."""

MemoryMechanism = Literal["Karma", "MaxMin", "Strict", "Auction"]
"""How memory is divided."""

ColocationRule = Literal[
    "None",
    "StableMarriageRandom",
    "StableMarriagePartition",
    "StableRoommates",
    "Greedy",
    "Complementary",
]
"""How it is decided who shares a node."""


@dataclass(frozen=True, slots=True)
class Entitlement:
    """A user's claim on the cluster, or a group's that its children divide.

    Attributes:
        name: unique.
        shares: claim relative to its siblings, positive.
        parent: the entitlement whose budget this one is a part of.
        namespaces: whose jobs may draw on it; None if `namespace_labels` says that.
        namespace_labels: labels that a namespace must carry for its jobs to draw on it.
        memory_shares: claim on memory, if it differs from ``shares``.
        max_nodes: most nodes that it bids on at once where utilities are linear; None for no bound.
    """

    name: str
    shares: int
    parent: str | None = None
    namespaces: frozenset[str] | None = None
    namespace_labels: Mapping[str, str] | None = None
    memory_shares: int | None = None
    max_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A server, as far as the market sells it.

    Attributes:
        name: unique.
        cores: whole cores for sale.
        memory: bytes for sale.
        sockets: processors; as many pairs of jobs can be placed on it.
        room: what pods may still request there, by resource, in whole units; None for no bound.
    """

    name: str
    cores: int
    memory: int = 0
    sockets: int = 1
    room: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class MemoryDemand:
    """The memory that a job could use now, in bytes, and its bounds.

    Attributes:
        demand: what it could use.
        least: below which it does not run; granted before anything else.
        most: more than this it never gets; None for no bound.
    """

    demand: int
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Bid:
    """How a job takes part in an auction of its node's cores and memory.

    Attributes:
        budget: relative to the other jobs of its entitlement, positive.
        utility: linear or logarithmic in the shares of each resource.
        cores: weight of the share of cores in it.
        memory: weight of the share of memory in it.
        minimum_utility: below which the job is of no use (its SLO); it then pays nothing.
    """

    budget: float = 1.0
    utility: Literal["Linear", "Log"] = "Linear"
    cores: float = 1.0
    memory: float = 1.0
    minimum_utility: float | None = None


@dataclass(frozen=True, slots=True)
class Placing:
    """What a job asks of its company, and of the node that it waits for.

    Attributes:
        apart: whether it is to have a processor to itself.
        avoids: jobs that are never placed on a node with it, and it on none with them: namespace
            and name; no name for all of a namespace.
        needs: what its node must have room for, by resource, in whole units.
        nodes: that may take it; None for all.
        promised: the node that its partner was already sent to; empty if there is none.
        partner: title of that partner; likewise.
    """

    apart: bool = False
    avoids: frozenset[tuple[str, str]] = frozenset()
    needs: tuple[tuple[str, int], ...] = ()
    nodes: frozenset[str] | None = None
    promised: str = ""
    partner: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job on one node, as the market sees it (the paper's edge between user and server).

    Attributes:
        namespace: Kubernetes namespace.
        name: unique in its namespace, node and pod.
        entitlement: name of the entitlement it draws on.
        node: name of the node it runs on; empty while it waits to be placed beside another.
        fraction: parallel fraction, in (0, 1].
        work: weight of its speedup among the jobs of its entitlement, positive.
        min_cores: fewest cores worth having; above 1, its user's other jobs on the node give way.
        max_cores: most cores it can use; None for no bound.
        namespace_labels: labels of its namespace, as far as they are known.
        pod: name of the pod that it is; empty for a program on one machine.
        memory: its demand for memory; None if it takes no part in the market for it.
        bid: how it takes part in auctions.
        program: what it is a copy of; jobs of one program suffer and harm alike.
        bandwidth: memory bandwidth that it draws when it runs alone, GB/s; None if unknown.
        placing: what it asks of its company, and of a node that it waits for.
        measured_together: whether its fraction was measured among the programs of its node, so
            that what it loses beside them is in it already.
    """

    namespace: str
    name: str
    entitlement: str
    node: str
    fraction: float
    work: float = 1.0
    min_cores: int = 1
    max_cores: int | None = None
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    pod: str = ""
    memory: MemoryDemand | None = None
    bid: Bid = Bid()
    program: str = ""
    bandwidth: float | None = None
    placing: Placing = Placing()
    measured_together: bool = False

    @property
    def title(self) -> str:
        """Its name for people: ``namespace/name``, and the pod's where that is another."""
        return title(self.namespace, self.name, self.pod)


def title(namespace: str, name: str, pod: str = "") -> str:
    """Return a job's name for people."""
    return f"{namespace}/{name}" + (f" ({pod})" if pod not in {"", name} else "")


Key = tuple[str, str, str, str]
"""Namespace, name, pod and node of a job."""


def identity(job: Job | Grant) -> Key:
    """Return what tells a job from others."""
    return job.namespace, job.name, job.pod, job.node


class Holding(NamedTuple):
    """What a job has now.

    Attributes:
        cores: whole cores of its own; 0 if it shares.
        shared: cores that it shares with the other small jobs of its node; 0 if it does not.
    """

    cores: int
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a cluster, or of one machine, that `walras.clearing.clear` decides on.

    Attributes:
        entitlements: all of them.
        nodes: all that sell anything.
        jobs: all that want anything.
        penalties: (program, beside which) to the share of its throughput that it loses there, as
            far as it was measured.
        ledger: Karma's credits so far; None to begin.
        held: what jobs have now (`walras.plan.Plan.holdings` of the last decision), by identity, so
            that nothing moves for too little; empty to begin.
        matching: whether it is time to pair jobs that wait for a node; if not they wait on, so
            that many are paired at a time.
        asked: bytes of memory that entitlements have asked for earlier in the same quantum, by node
            and entitlement: they count until it ends.
    """

    entitlements: tuple[Entitlement, ...]
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    penalties: Mapping[tuple[str, str], float] = field(default_factory=dict)
    ledger: Ledger | None = None
    held: Mapping[Key, Holding] = field(default_factory=dict)
    matching: bool = True
    asked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """How to decide.

    Attributes:
        cores: the mechanism that divides cores.
        memory: the mechanism that divides memory; None to leave memory alone.
        sold_by: what is sold, nodes or their sockets, so that no job straddles sockets unless it is
            larger than one.
        colocation: the rule by which waiting jobs are placed in pairs.
        break_away_gain: least part of its throughput alone for which a job is advised to share
            with another than its partner (Cooper's alpha).
        hysteresis: part of what a node's jobs do that another division must add before cores move
            there; 0 to move them for any reason.
        interference: whether what programs lose beside others lowers the parallel fractions that
            they bid with.
        tolerance: on the relative error of prices.
        guaranteed_fraction: of a user's memory share that others never borrow (Karma's alpha).
        slice_bytes: unit of memory, bytes.
        exponent: of bids in auctions (Abacus's alpha).
        seed: of rules that draw lots.
    """

    cores: CoreMechanism = "AmdahlBidding"
    memory: MemoryMechanism | None = None
    sold_by: Literal["node", "socket"] = "node"
    colocation: ColocationRule = "None"
    break_away_gain: float = 0.02
    hysteresis: float = 0.0
    interference: bool = True
    tolerance: float = 1e-6
    guaranteed_fraction: Fraction = Fraction(1, 2)
    slice_bytes: int = 128 * 1024**2
    exponent: float = 0.5
    seed: int = 0
