"""Market, field by field: the rules."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field

from walras.resources.fields import (  # noqa: TC001 - pydantic reads them
    NotNegativeInt,
    Portion,
    PositiveBytes,
    PositiveInt,
)
from walras.resources.model import Model, Resource
from walras.snapshot import (  # noqa: TC001 - pydantic reads them
    ColocationRule,
    CoreMechanism,
    MemoryMechanism,
)


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
        memory_nodes: whether pods with cores of their own take memory from any NUMA node, as
            before, or only from those of their cores.
        hysteresis: gain in utility, relative to what there is, below which no core of a node moves.
        interference: counted or ignored: whether what a program was measured to lose beside others
            of its node lowers the parallel fraction that it bids with.
    """

    mechanism: CoreMechanism = "AmdahlBidding"
    reserved_cores: NotNegativeInt = 0
    unit: Literal["core", "thread"] = "core"
    sold_by: Literal["node", "socket"] = "node"
    memory_nodes: Literal["any", "local"] = "any"
    hysteresis: Portion = Decimal("0.02")
    interference: Literal["counted", "ignored"] = "counted"


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
    slice_size: PositiveBytes = Field(default="128Mi", validate_default=True)
    quantum_seconds: PositiveInt = 10


class ColocationPolicy(Model):
    """Who shares a node (on a cluster).

    Attributes:
        policy: None, or one of Cooper's: StableMarriageRandom, StableMarriagePartition,
            StableRoommates, Greedy, Complementary.
        seed: of the random policy.
        timeout_seconds: since its creation after which a pod that waits to be placed is let go, to
            be placed like any other.
        break_away_gain: least part of its throughput alone that a job must gain for the advice to
            share with another one than its partner.
    """

    policy: ColocationRule = "None"
    seed: NotNegativeInt = 0
    timeout_seconds: PositiveInt = 300
    break_away_gain: Portion = Decimal("0.02")


class AuctionPolicy(Model):
    """The rules of an auction.

    Attributes:
        exponent: shares go by bids to this power; at 0 all are equal.
    """

    exponent: Portion = Decimal("0.5")


class ProfilingPolicy(Model):
    """How running pods are measured (on a cluster) whose speedup is not known.

    Attributes:
        automatic: whether they are measured at all; without it a speedup is assumed.
        sample_seconds: how long each sample takes.
        repeats: samples at each core count.
        reprofile_threshold: departure of measured progress from the predicted one, as a part of
            it, above which a job is measured again; at 1 never for being too slow.
        reprofile_seconds: from a measurement, or a look at whether progress departs, to the next
            look, on average.
        most_at_once: measurements at a time in the cluster; without it one on every node.
    """

    automatic: bool = True
    sample_seconds: PositiveInt = 2
    repeats: PositiveInt = 3
    reprofile_threshold: Portion = Decimal("0.25")
    reprofile_seconds: PositiveInt = 600
    most_at_once: PositiveInt | None = None


class MarketSpec(Model):
    """The market's rules.

    Attributes:
        mode: enforce pins jobs; observe only says what it would do.
        epoch_seconds: longest time between two decisions.
        cores: how cores are divided.
        memory: how memory is divided.
        colocation: who shares a node.
        auction: the rules where a mechanism is Auction.
        profiling: how running pods are measured.
    """

    mode: Literal["enforce", "observe"] = "enforce"
    epoch_seconds: PositiveInt = 30
    cores: CoresPolicy = CoresPolicy()
    memory: MemoryPolicy = MemoryPolicy()
    colocation: ColocationPolicy = ColocationPolicy()
    auction: AuctionPolicy = AuctionPolicy()
    profiling: ProfilingPolicy = ProfilingPolicy()


class Market(Resource):
    """The market's rules; cluster-wide, the one named ``default`` is used."""

    kind: Literal["Market"]
    spec: MarketSpec = MarketSpec()
