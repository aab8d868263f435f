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
    """How cores are divided among jobs.

    Attributes:
        mechanism: Mechanism that divides cores. AmdahlBidding and BestResponse are markets of
            measured speedups; users in BestResponse anticipate how their bids move prices.
            PriceAnticipating does so for linear speedups. Auction is Abacus. ProportionalSharing
            divides every node on its own, Greedy maximizes progress and ignores entitlements, and
            UpperBound maximizes progress with entitlements as weights; these three are baselines.
        reserved_cores: Cores of each node that the market does not sell.
        unit: Unit of sale: a physical core with all its hardware threads (core), or a single
            hardware thread (thread).
        sold_by: Part of a machine within which a job gets its cores: node, or socket. With socket,
            no job spans sockets unless it is larger than one.
        memory_nodes: NUMA nodes from which pods with exclusive cores allocate memory: any node
            (any), or only the nodes of their cores (local).
        hysteresis: Smallest relative gain in utility for which the cores of a node are divided
            anew.
        interference: Whether the slowdown that a program was measured to suffer beside others on
            its node lowers the parallel fraction that it bids with: counted or ignored.
    """

    mechanism: CoreMechanism = "AmdahlBidding"
    reserved_cores: NotNegativeInt = 0
    unit: Literal["core", "thread"] = "core"
    sold_by: Literal["node", "socket"] = "node"
    memory_nodes: Literal["any", "local"] = "any"
    hysteresis: Portion = Decimal("0.02")
    interference: Literal["counted", "ignored"] = "counted"


class MemoryPolicy(Model):
    """How memory is divided on a cluster.

    Attributes:
        mechanism: Mechanism that divides memory: Karma (unused shares are lent for credits),
            MaxMin, Strict or Auction.
        guaranteed_fraction: Fraction of each user's share that other users can never borrow.
        slice_size: Amount of memory in which shares are counted and lent.
        quantum_seconds: Seconds between two divisions of memory.
    """

    mechanism: MemoryMechanism = "Karma"
    guaranteed_fraction: Portion = Decimal("0.5")
    slice_size: PositiveBytes = Field(default="128Mi", validate_default=True)
    quantum_seconds: PositiveInt = 10


class ColocationPolicy(Model):
    """How pending pods are placed in pairs on a cluster.

    Attributes:
        policy: Policy that chooses pairs: None, or one of Cooper's: StableMarriageRandom,
            StableMarriagePartition, StableRoommates, Greedy or Complementary.
        seed: Seed of StableMarriageRandom.
        timeout_seconds: Seconds after its creation at which a pod that is still waiting for a
            placement is released, to be scheduled like any other pod.
        break_away_gain: Smallest gain, as a fraction of its throughput alone, for which a job is
            advised to leave its partner and share a node with another job.
    """

    policy: ColocationRule = "None"
    seed: NotNegativeInt = 0
    timeout_seconds: PositiveInt = 300
    break_away_gain: Portion = Decimal("0.02")


class AuctionPolicy(Model):
    """Rules of an auction.

    Attributes:
        exponent: Exponent of the bids: shares are proportional to bids raised to this power, and
            equal at 0.
    """

    exponent: Portion = Decimal("0.5")


class ProfilingPolicy(Model):
    """How running pods with an unknown speedup are measured on a cluster.

    Attributes:
        automatic: Whether running pods are measured. If false, jobs without a profile bid with an
            assumed parallel fraction.
        sample_seconds: Length of each sample, in seconds.
        repeats: Number of samples at each core count.
        reprofile_threshold: Relative deviation of measured from predicted progress above which a
            job is measured again. At 1, a job is never measured again for being too slow.
        reprofile_seconds: Average number of seconds from one measurement or progress check of a job
            to its next progress check.
        most_at_once: Maximum number of concurrent measurements in the cluster. If unset, each node
            can run one.
    """

    automatic: bool = True
    sample_seconds: PositiveInt = 2
    repeats: PositiveInt = 3
    reprofile_threshold: Portion = Decimal("0.25")
    reprofile_seconds: PositiveInt = 600
    most_at_once: PositiveInt | None = None


class MarketSpec(Model):
    """The rules of the market.

    Attributes:
        mode: Whether agents enforce the plan: enforce writes grants to the nodes; observe only
            reports what it would write.
        epoch_seconds: Maximum number of seconds between two decisions.
        cores: How cores are divided.
        memory: How memory is divided.
        colocation: How pending pods are placed in pairs.
        auction: Rules for cores or memory whose mechanism is Auction.
        profiling: How running pods are measured.
    """

    mode: Literal["enforce", "observe"] = "enforce"
    epoch_seconds: PositiveInt = 30
    cores: CoresPolicy = CoresPolicy()
    memory: MemoryPolicy = MemoryPolicy()
    colocation: ColocationPolicy = ColocationPolicy()
    auction: AuctionPolicy = AuctionPolicy()
    profiling: ProfilingPolicy = ProfilingPolicy()


class Market(Resource):
    """The rules of the market. The Market is cluster-scoped, and the one named ``default`` is
    used.
    """

    kind: Literal["Market"]
    spec: MarketSpec = MarketSpec()
