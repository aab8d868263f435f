"""The kinds: Entitlement, MarketJob, Market and SpeedupProfile, field by field."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from walras.resources.fields import (
    Bytes,
    Fraction,
    Model,
    Name,
    NotNegativeInt,
    Portion,
    PositiveBytes,
    PositiveDecimal,
    PositiveInt,
    Text,
)
from walras.snapshot import (  # noqa: TC001 - pydantic reads them
    ColocationRule,
    CoreMechanism,
    MemoryMechanism,
)

API_VERSION = "walras.dev/v1alpha1"


class Metadata(BaseModel):
    """What names an object. Fields that the API server adds are accepted and not looked at."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", frozen=True, strict=True, populate_by_name=False
    )

    name: Name
    namespace: Name = "default"
    labels: dict[str, str] = Field(default_factory=dict)


class LabelSelector(Model):
    """Selects objects by their labels; empty selects all."""

    match_labels: dict[str, str] = Field(default_factory=dict)


class EntitlementSpec(Model):
    """A claim on the cluster.

    Attributes:
        shares: the claim, relative to entitlements of the same parent.
        parent: the entitlement whose budget this one is a part of.
        namespaces: whose jobs may draw on this one.
        namespace_selector: the same by labels of namespaces; ``{}`` admits all.
        memory_share: the claim on memory, if it differs from ``shares``.
    """

    shares: PositiveInt
    parent: Name | None = None
    namespaces: list[Name] | None = None
    namespace_selector: LabelSelector | None = None
    memory_share: PositiveInt | None = None

    @model_validator(mode="after")
    def _one_way_to_admit(self) -> Self:
        if self.namespaces is not None and self.namespace_selector is not None:
            raise ValueError("has both namespaces and namespaceSelector; keep one of them")
        return self


class TargetRef(Model):
    """A workload whose pods are the job's."""

    api_version: Text
    kind: Literal["Job", "Deployment", "StatefulSet", "Pod"]
    name: Name


class JobMemory(Model):
    """A job's memory: its bounds, and whether its demand is measured or a fixed amount."""

    min: Bytes | None = None
    max: Bytes | None = None
    demand: Literal["measured"] | Bytes = "measured"

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("has min above max; swap them")
        return self


class AuctionWeights(Model):
    """What a job gets from the whole of each resource of a node, relative to the other."""

    cores: PositiveDecimal = Decimal(1)
    memory: PositiveDecimal = Decimal(1)


class JobAuction(Model):
    """How a job bids where resources are auctioned.

    Attributes:
        budget: relative to the other jobs of its entitlement.
        utility: of shares of resources, linear or logarithmic.
        weights: of the resources in it.
        minimum_utility: below which the job is of no use (its service-level objective); it pays
            only where this is met.
    """

    budget: PositiveDecimal = Decimal(1)
    utility: Literal["Linear", "Log"] = "Linear"
    weights: AuctionWeights = AuctionWeights()
    minimum_utility: PositiveDecimal | None = None


class EnvironmentVariable(Model):
    """An environment variable of a command."""

    name: Text
    value: str = ""


class JobData(Model):
    """The data of a command that runs on one machine, and which parts of them to profile on.

    Attributes:
        path: a folder or a text file; ``{data}`` in the command stands for it, or for a sample.
        size: how much there is, in whatever the command counts; ``{size}`` stands for it, or for
            a part of it.
        samples: parts to profile on.
    """

    path: Text | None = None
    size: PositiveDecimal | None = None
    samples: Annotated[list[Text], Field(min_length=1)] = Field(default=["2%", "4%", "7%", "10%"])

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.path is not None and self.size is not None:
            raise ValueError("has both path and size; keep one of them")
        return self


class MarketJobSpec(Model):
    """A job that takes part in the market.

    Attributes:
        entitlement: that it draws on.
        selector: its pods, by labels, on a cluster.
        target_ref: its pods, by the workload that makes them, on a cluster.
        command: its program and arguments, on one machine (``walras local run``).
        working_dir: of the command, relative to the document's folder.
        env: environment variables of the command.
        data: of the command.
        work: weight of its speedup among its entitlement's jobs.
        parallel_fraction: F, if known.
        profile: name of a SpeedupProfile in its namespace; without it and without
            ``parallelFraction`` F is measured.
        min_cores: fewest cores worth having.
        max_cores: most cores it can use.
        memory: its demand for memory.
        auction: how it bids, where resources are auctioned.
    """

    entitlement: Name
    selector: LabelSelector | None = None
    target_ref: TargetRef | None = None
    command: Annotated[list[str], Field(min_length=1)] | None = None
    working_dir: Text = "."
    env: list[EnvironmentVariable] = Field(default_factory=list)
    data: JobData = JobData()
    work: PositiveDecimal = Decimal(1)
    parallel_fraction: Fraction | None = None
    profile: Name | None = None
    min_cores: PositiveInt = 1
    max_cores: PositiveInt | None = None
    memory: JobMemory | None = None
    auction: JobAuction = JobAuction()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_cores is not None and self.min_cores > self.max_cores:
            raise ValueError(
                f"has minCores {self.min_cores} above maxCores {self.max_cores}; correct one"
            )
        if self.parallel_fraction is not None and self.profile is not None:
            raise ValueError("has both parallelFraction and profile; keep one of them")
        if self.selector is not None and self.target_ref is not None:
            raise ValueError("has both selector and targetRef; keep one of them")
        if self.selector is None and self.target_ref is None and self.command is None:
            raise ValueError(
                "names neither pods nor a program; give selector or targetRef for a cluster, "
                "or command for one machine"
            )
        return self


class CoresPolicy(Model):
    """How cores are divided.

    Attributes:
        mechanism: AmdahlBidding and BestResponse (markets of measured speedups, the second with
            users who foresee what their bids do to prices), PriceAnticipating (the same for
            linear speedups), Auction (Abacus), or their rivals: ProportionalSharing (every node
            by itself), Greedy and UpperBound (most progress, entitlements ignored or as weights).
        reserved_cores: of each node, kept out of the market.
        unit: whole physical cores with all their hardware threads, or single threads.
        sold_by: node, or socket: no job straddles sockets then unless it is larger than one.
        hysteresis: gain in utility below which no core moves.
    """

    mechanism: CoreMechanism = "AmdahlBidding"
    reserved_cores: NotNegativeInt = 0
    unit: Literal["core", "thread"] = "core"
    sold_by: Literal["node", "socket"] = "node"
    hysteresis: Portion = Decimal("0.02")


class MemoryPolicy(Model):
    """How memory is divided (on a cluster).

    Attributes:
        mechanism: Karma (unused shares are lent for credits), MaxMin, Strict or Auction.
        guaranteed_fraction: of a user's share that others never borrow.
        slice_size: unit of memory.
        quantum_seconds: between two divisions.
    """

    mechanism: MemoryMechanism = "Karma"
    guaranteed_fraction: Portion = Decimal("0.5")
    slice_size: PositiveBytes = 128 * 1024**2
    quantum_seconds: PositiveInt = 10


class ColocationPolicy(Model):
    """Who shares a node (on a cluster).

    Attributes:
        policy: None, or one of Cooper's: StableMarriageRandom, StableMarriagePartition,
            StableRoommates, Greedy, Complementary.
        seed: of the random policy.
    """

    policy: ColocationRule = "None"
    seed: NotNegativeInt = 0


class AuctionPolicy(Model):
    """The rules of an auction: shares go by bids to the power of ``exponent`` (0: equally)."""

    exponent: Portion = Decimal("0.5")


class MarketSpec(Model):
    """The market's rules.

    Attributes:
        mode: enforce pins jobs; observe only says what it would do.
        epoch_seconds: longest time between two decisions.
        cores: how cores are divided.
        memory: how memory is divided.
        colocation: who shares a node.
        auction: the rules where a mechanism is Auction.
    """

    mode: Literal["enforce", "observe"] = "enforce"
    epoch_seconds: PositiveInt = 30
    cores: CoresPolicy = CoresPolicy()
    memory: MemoryPolicy = MemoryPolicy()
    colocation: ColocationPolicy = ColocationPolicy()
    auction: AuctionPolicy = AuctionPolicy()


class ProfileMeasurement(Model):
    """The times of one program at one core count and one data size.

    Times are seconds as decimal strings, one a repeat; the other figures are medians.
    """

    model_config = ConfigDict(extra="allow")  # hardware counters, whatever the machine has

    cores: PositiveInt
    data_size: Text = "100%"
    seconds: Annotated[list[PositiveDecimal], Field(min_length=1)]
    user_seconds: Text | None = None
    system_seconds: Text | None = None
    peak_memory: Bytes | None = None


class ProfileSampling(Model):
    """What to sample, or what was sampled."""

    cores: Annotated[list[PositiveInt], Field(min_length=1)]
    data_sizes: Annotated[list[Text], Field(min_length=1)] = Field(default=["100%"])
    repeats: PositiveInt = 3


class Penalty(Model):
    """What a program loses beside another: 1 - throughput together / throughput alone."""

    profile: Name
    penalty: Portion


class SpeedupProfileSpec(Model):
    """How much a program speeds up with cores: measured times, or a fraction known beforehand.

    Measurements stand in the spec because ``kubectl apply`` drops a status; what follows from
    them is always computed again.

    Attributes:
        sampling: what to sample, or what was sampled.
        measurements: times.
        parallel_fraction: F, if it is known without measurements.
        memory_bandwidth: that it draws when it runs alone, gigabytes (10**9) a second.
        penalties: that were measured beside programs of other profiles in its namespace.
    """

    sampling: ProfileSampling | None = None
    measurements: list[ProfileMeasurement] | None = None
    parallel_fraction: Fraction | None = None
    memory_bandwidth: PositiveDecimal | None = None
    penalties: list[Penalty] = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.measurements is not None and self.parallel_fraction is not None:
            raise ValueError("has both measurements and parallelFraction; keep one of them")
        return self


class Resource(Model):
    """What all kinds have in common. A status, which only the software writes, is not looked at."""

    api_version: Literal["walras.dev/v1alpha1"]
    kind: str
    metadata: Metadata
    status: dict[str, Any] | None = None


class Entitlement(Resource):
    """A user's or a group's claim; cluster-wide."""

    kind: Literal["Entitlement"]
    spec: EntitlementSpec


class MarketJob(Resource):
    """A job; in a namespace."""

    kind: Literal["MarketJob"]
    spec: MarketJobSpec


class Market(Resource):
    """The rules; cluster-wide, the one named ``default`` is used."""

    kind: Literal["Market"]
    spec: MarketSpec = MarketSpec()


class SpeedupProfile(Resource):
    """A program's speedup; in a namespace."""

    kind: Literal["SpeedupProfile"]
    spec: SpeedupProfileSpec


AnyResource = Entitlement | MarketJob | Market | SpeedupProfile

KINDS: dict[str, type[AnyResource]] = {
    "Entitlement": Entitlement,
    "MarketJob": MarketJob,
    "Market": Market,
    "SpeedupProfile": SpeedupProfile,
}

NAMESPACED = frozenset({"MarketJob", "SpeedupProfile", "Pod"})
