"""The plan that clearing a market returns: grants, prices, refusals and the reasons for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras.market.snapshot import identity, title

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras.market.balances import Balance
    from walras.market.snapshot import JobKey
    from walras.mechanisms.karma.ledger import Ledger
    from walras.mechanisms.karma.record import Account, SettledQuantum


DeadlineState = Literal[
    "Reserved", "OnTime", "OutOfReach", "Unaffordable", "Crowded", "Outbid", "Forecast"
]
"""Outcomes of a deadline."""

HUNDREDTH = 0.01
"""Cores that do not matter: requests are stated in thousandths, prices have errors."""


class Sentence(NamedTuple):
    """A text that is written whenever it is read; most explanations never are.

    It equals each text with the same characters.

    Attributes:
        write: A pure function that returns the text.
        about: Its arguments.
    """

    write: Callable[..., str]
    about: tuple[Any, ...]

    def __str__(self) -> str:
        return self.write(*self.about)

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sentence | str) and str(self) == str(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str(self))


class _Grant(NamedTuple):
    """Cores and memory of one job in a plan, with explanations that may not be written yet."""

    namespace: str
    name: str
    entitlement: str
    node: str
    bought: float
    held: float
    price: float
    spend: float
    speedup: float
    reason: Sentence | str
    pod: str = ""
    sockets: tuple[int, ...] = ()
    memory: int | None = None
    memory_reason: Sentence | str = ""
    fraction: float = 1.0
    requested: float = 0.0
    floor: float = 0.0


class Grant(_Grant):
    """Cores and memory of one job in a plan.

    Attributes:
        bought: Cores that the job buys at the market's prices.
        held: Cores that it is to have whenever it wants them, in thousandths.
        price: Price of a core, where 1 is the cluster's average; 0 where nothing is paid.
        spend: Part of the entitlement's budget that the job spends, in the unit of prices.
        pod: Name of the job's pod; empty for a program on one machine.
        sockets: Sockets that the job runs on, from 0, where cores are sold by socket; else empty.
        memory: Bytes granted; None if the job takes no part in the market for memory.
        fraction: Parallel fraction that the job bid with.
        requested: Cores that its pod requested; 0 if unknown.
        floor: Cores of them that it keeps whatever the market decides.
    """

    __slots__ = ()

    @property
    def reason(self) -> str:
        """Explanation of the cores, in one sentence to the job's user."""
        return str(super().reason)

    @property
    def memory_reason(self) -> str:
        """Explanation of the memory, one sentence; empty if ``memory`` is None."""
        return str(super().memory_reason)

    @property
    def own_cores(self) -> int:
        """Whole cores that it holds: those of its own, if it is isolated."""
        return int(self.held)

    @property
    def shared(self) -> float:
        """Part of a core that it holds beside them, in thousandths."""
        return round(self.held - self.own_cores, 3)

    @property
    def keeps_request(self) -> bool:
        """Whether the job holds what its pod requested."""
        return self.held > self.requested - HUNDREDTH

    @property
    def title(self) -> str:
        """Name of the job in texts for users."""
        return title(self.namespace, self.name, self.pod)


class Shortfall(NamedTuple):
    """Cores of a node that the requests and minimums of a user take beyond its share of them."""

    user: str
    node: str
    cores: float


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """Cores of one entitlement across the cluster; there is one for each entitlement with jobs.

    Attributes:
        entitled: Cores that its share of the cluster is worth, which is also its budget.
        bought: Cores that its jobs buy.
        held: Cores that its jobs hold.
        spent: Cost of what its jobs buy; above ``entitled`` where its requests cost more.
        utility: Weighted speedup of its jobs on the cores that they buy (eq. 4).
        held_utility: Weighted speedup on the cores that they hold.
        entitlement_utility: The most that it could do with its share of every unit that is sold,
            and no trade (V-C).
        short_of: Whose requests and minimums leave it below its entitlement, possibly its own.
    """

    name: str
    entitled: float
    bought: float
    held: float
    spent: float
    utility: float
    held_utility: float
    entitlement_utility: float
    short_of: tuple[Shortfall, ...] = ()

    @property
    def gain(self) -> float | None:
        """Part by which the utility of what it holds exceeds that of its entitlement.

        None if its entitlement is worth nothing.
        """
        if not self.entitlement_utility:
            return None
        return self.held_utility / self.entitlement_utility - 1


@dataclass(frozen=True, slots=True)
class MemoryOutcome:
    """Memory of one entitlement across the cluster, in bytes.

    Attributes:
        entitled: Bytes that its share of all memory is worth.
        account: Its credits in Karma; None under mechanisms without credits.
    """

    name: str
    entitled: int
    demand: int
    granted: int
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class DeadlineOutcome:
    """Outcome of one job's deadline on one node, for one pod.

    Attributes:
        needed: Cores that it needs from now on to end in time, with the error of its work left on
            the safe side; infinity if no number of cores suffices.
        asked: Cores that its deadline reserves where it is accepted; 0 for none.
        reserved: Cores that are reserved for it; 0 for none.
        payable: Cores that its user's budget could reserve for it, after what it reserves for the
            deadlines before it; None if the budget did not decide.
        state: Reserved (its cores are held for it), OnTime (the market gives it enough without a
            reservation), OutOfReach (all cores that it can use are too few), Unaffordable (its
            user's budget does not pay for the cores), Crowded (its node has no room for them
            beside other reservations), Outbid (its bid missed the utility that the deadline takes)
            or Forecast (the mechanism reserves nothing).
    """

    namespace: str
    name: str
    entitlement: str
    node: str
    pod: str
    needed: float
    asked: float
    reserved: float
    payable: float | None
    state: DeadlineState


@dataclass(frozen=True, slots=True)
class BidOutcome:
    """Outcome of one job's bid in auctions, for all its pods together.

    Attributes:
        budget: Part of the entitlement's budget, in cores at the cluster's average price.
        weights: Weights of all cores and of all memory of its pods' nodes in its utility.
        utility: Utility of what its pods hold. A logarithmic utility is given as the product of
            shares to the powers of their weights, which is never negative.
        reach: Utility if the pods had all that they can use.
        minimum: Utility that the job demands; None if it demands none.
        promised: Whether its entitlement's budget pays for its minimum; False without one.
        met: Whether what its pods hold gives it its minimum; True without one.
    """

    namespace: str
    name: str
    entitlement: str
    budget: float
    weights: tuple[float, float]
    utility: float
    reach: float
    minimum: float | None
    promised: bool
    met: bool


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """Cores of one node in a plan.

    Attributes:
        price: Price of a core, where 1 is the cluster's average.
        shared_cores: Cores that no job has for itself.
        stays: Whether the node keeps its division, as the market's gains less than the hysteresis.
    """

    name: str
    cores: float
    price: float
    shared_cores: float
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that gets no grant, and the reason for its user."""

    namespace: str
    name: str
    reason: str
    pod: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Jobs that are placed on one socket together.

    Attributes:
        jobs: Titles of the two jobs, or of the one that has the socket to itself.
        penalties: Part of its throughput that each job is expected to lose there.
        measured: Whether each job's penalty was measured; it was predicted otherwise.
        companions: Title of the co-runner with which each job would break away; empty if none.
        gains: Part of its throughput that each job would save by breaking away.
        learning: Part of its throughput that each job is expected to lose more than beside the
            co-runner by the policy, or less if negative, so that penalties are learned; empty if
            the policy chose the pair.
    """

    node: str
    jobs: tuple[str, ...]
    penalties: tuple[float, ...]
    measured: tuple[bool, ...] = ()
    companions: tuple[str, ...] = ()
    gains: tuple[float, ...] = ()
    learning: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A cleared market; sequences are in the order of the snapshot.

    Attributes:
        residual: Largest relative violation of an equilibrium condition.
        system_progress: Budget-weighted mean of utilities (eq. 10).
        bids: Outcome of each job's bid; empty without auctions.
        memory_mechanism: Mechanism that divided memory; empty if memory was not divided.
        ledger: Karma's credits after this decision; the snapshot's if Karma does not decide.
        quantum: Quantum that Karma settled; None if Karma does not decide.
        account: What entitlements owe each other from now on, by name.
        deadlines: Outcome of each deadline whose work left is known.
    """

    grants: tuple[Grant, ...]
    users: tuple[UserOutcome, ...]
    nodes: tuple[NodeOutcome, ...]
    refused: tuple[Refusal, ...]
    mechanism: str
    solver: str
    iterations: int
    residual: float
    converged: bool
    system_progress: float
    pairings: tuple[Pairing, ...] = ()
    bids: tuple[BidOutcome, ...] = ()
    memory_mechanism: str = ""
    memory: tuple[MemoryOutcome, ...] = ()
    ledger: Ledger | None = None
    quantum: SettledQuantum | None = field(default=None, compare=False, repr=False)
    account: Mapping[str, Balance] = field(default_factory=dict, compare=False, repr=False)
    deadlines: tuple[DeadlineOutcome, ...] = field(default=(), compare=False)

    def holdings(self) -> dict[JobKey, float]:
        """Return the cores of each job once the plan is enforced, for the next snapshot."""
        return {identity(grant): grant.held for grant in self.grants}
