"""What a job's resources are worth to it: as it says, as its runs show, or all alike."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from walras.abacus.estimation import estimate_utility

if TYPE_CHECKING:
    from walras.resources.kinds import MarketJob

FEWEST_RUNS = 3
"""One more than there are weights: with fewer it cannot be told how sure an estimate is."""

WHOLE = 2.0
"""Sum of estimated weights, as that of equal ones, which minimums of utility are in units of."""

LEAST = 0.01
"""Part of that sum that each weight has at least: nothing is quite worthless to a program."""

CONFIDENCE = 0.95


class Weight(NamedTuple):
    """A weight, and the ends of its confidence interval; infinite where nothing is known."""

    value: float
    lower: float
    upper: float


class Weights(NamedTuple):
    """The weights of a job's utility.

    Attributes:
        cores: of its share of them.
        memory: likewise.
        source: Given (by the job), Estimated (from its runs) or Equal.
        runs: that there are.
    """

    cores: Weight
    memory: Weight
    source: Literal["Given", "Estimated", "Equal"]
    runs: int


def weights_of(resource: MarketJob) -> Weights:
    """Return what a job's resources are worth to it.

    Weights are estimated as in section 5 of "Auction-based cloud service differentiation with
    service level objectives", for linear utilities: those of logarithmic ones are known up to a
    factor of what is measured, which the section has no place for.
    """
    auction = resource.spec.auction
    given, runs = auction.weights, auction.runs
    if given is not None:
        cores, memory = float(given.cores), float(given.memory)
        return Weights(_exactly(cores), _exactly(memory), "Given", len(runs))
    if auction.utility == "Linear" and len(runs) >= FEWEST_RUNS:
        rows = tuple((float(run.cores), float(run.memory), float(run.utility)) for run in runs)
        estimated = _estimated(rows)
        if estimated is not None:
            return estimated
    unknown = Weight(WHOLE / 2, 0.0, float("inf"))
    return Weights(unknown, unknown, "Equal", len(runs))


def _exactly(value: float) -> Weight:
    return Weight(value, value, value)


@lru_cache(maxsize=1 << 14)  # in most decisions no job has a new run
def _estimated(runs: tuple[tuple[float, float, float], ...]) -> Weights | None:
    """Estimate weights from shares of cores and memory and utilities; None if nothing shows."""
    found = estimate_utility(
        [run[:2] for run in runs], [run[2] for run in runs], confidence=CONFIDENCE
    )
    total = float(found.weights.sum())
    if not total > 0:
        return None
    scale = WHOLE / total
    cores, memory = (
        Weight(max(value * scale, LEAST * WHOLE), lower * scale, upper * scale)
        for value, lower, upper in zip(
            found.weights.tolist(), found.lower.tolist(), found.upper.tolist(), strict=True
        )
    )
    return Weights(cores, memory, "Estimated", len(runs))
