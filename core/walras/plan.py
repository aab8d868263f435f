"""What was decided: who gets which part of what, at which price, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras.snapshot import Holding, identity, title

if TYPE_CHECKING:
    from walras.karma.accounts import Account
    from walras.karma.ledger import Ledger
    from walras.karma.record import Settled
    from walras.snapshot import Key


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
        fraction: the parallel fraction that the job bid with.
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
    fraction: float = 1.0

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
        account: its credits; None where none are kept.
    """

    name: str
    entitled: int
    demand: int
    granted: int
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class BidOutcome:
    """What came of one job's bid in auctions, of all its pods together.

    Attributes:
        namespace: of the job.
        name: of the job.
        entitlement: that pays.
        budget: its part of its entitlement's, in cores at the cluster's average price.
        utility: of what its pods hold; of a logarithmic one, the product of its shares to the
            powers of their weights, so that it is never negative.
        reach: what that would be with all that its pods can use.
        minimum: that it demands; None if it has none.
        prolific: whether it is in the pool of those who are served by their bids; the others have
            what these leave.
        charge: what it pays: its budget if it has its minimum or, without one, is in the pool.
    """

    namespace: str
    name: str
    entitlement: str
    budget: float
    utility: float
    reach: float
    minimum: float | None
    prolific: bool
    charge: float


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What is sold of one node.

    Attributes:
        name: of the node.
        cores: for sale.
        price: of one; 1 is the cluster's average.
        shared_cores: that its small jobs share.
        stays: whether its cores stay divided as they were since the market's division gains too
            little.
    """

    name: str
    cores: int
    price: float
    shared_cores: int
    stays: bool = False


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
        measured: for each whether that was measured, and not predicted.
        companions: for each the job with which both would rather share; empty where the advice is
            to take part.
        gains: for each the part of its throughput that this would save it.
    """

    node: str
    jobs: tuple[str, ...]
    penalties: tuple[float, ...]
    measured: tuple[bool, ...] = ()
    companions: tuple[str, ...] = ()
    gains: tuple[float, ...] = ()


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
        bids: one a job that bid, in the order of the snapshot; empty without auctions.
        memory_mechanism: that divided memory; empty where none did.
        memory: in the order of the snapshot's entitlements, those that memory is divided among.
        ledger: Karma's credits after this decision; as they were where Karma does not decide.
        quantum: that Karma settled; None where it does not decide.
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
    bids: tuple[BidOutcome, ...] = ()
    memory_mechanism: str = ""
    memory: tuple[MemoryOutcome, ...] = ()
    ledger: Ledger | None = None
    quantum: Settled | None = field(default=None, compare=False, repr=False)

    def holdings(self) -> dict[Key, Holding]:
        """Return what jobs have once this is carried out: part of the next snapshot."""
        return {
            identity(grant): Holding(grant.granted_cores, grant.shared_cores)
            for grant in self.grants
        }
