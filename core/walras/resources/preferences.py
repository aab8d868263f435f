"""The weights of a job's utility: given by the job, estimated from its runs, or equal."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras.abacus.estimation import estimate_utility

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.resources.kinds import MarketJob, MarketSpec

    Run = tuple[float, float, float]

FEWEST_RUNS = 3
"""Fewest runs for an estimate: one more than weights, for the confidence interval."""

WHOLE = 2.0
"""Sum of the weights, estimated or equal; minimum utilities are in its unit."""

LEAST = 0.01
"""Smallest share of that sum for a weight, since no resource is worthless to a program."""

CONFIDENCE = 0.95

MOST = 1e12
"""Largest utility, as in specs."""


class Weight(NamedTuple):
    """A weight, and the ends of its confidence interval, which are 0 and infinity if unknown."""

    value: float
    lower: float
    upper: float


class Weights(NamedTuple):
    """The weights of a job's utility.

    Attributes:
        source: Given (by the job), Estimated (from its runs) or Equal.
        recorded: Number of these runs that are from the job's status.
    """

    cores: Weight
    memory: Weight
    source: Literal["Given", "Estimated", "Equal"]
    runs: int
    recorded: int = 0


def records_runs(resource: MarketJob, rules: MarketSpec) -> bool:
    """Return whether a job's pods that succeed are recorded, to estimate its weights.

    They are recorded only if the job bids for both resources. With a single resource, its weight is
    the unit of ``minimumUtility``, which must not change by itself.
    """
    auction = resource.spec.auction
    return (
        rules.cores.mechanism == rules.memory.mechanism == "Auction"
        and resource.spec.memory is not None
        and auction.utility == "Linear"
        and auction.weights is None
        and auction.record_runs
    )


def weights_of(resource: MarketJob, recorded: Sequence[Run] = ()) -> Weights:
    """Return the weights of a job's utility.

    Weights are estimated as in section 5 of "Auction-based cloud service differentiation with
    service level objectives", for linear utilities only: measurements determine the weights of
    logarithmic utilities up to a factor, which the section does not cover.
    """
    auction = resource.spec.auction
    given, given_runs = auction.weights, auction.runs
    runs = len(given_runs) + len(recorded)
    if given is not None:
        cores, memory = float(given.cores), float(given.memory)
        return Weights(_exactly(cores), _exactly(memory), "Given", runs, len(recorded))
    if auction.utility == "Linear" and runs >= FEWEST_RUNS:
        rows = tuple(
            (float(run.cores), float(run.memory), float(run.utility)) for run in given_runs
        )
        estimated = _estimated((*rows, *recorded))
        if estimated is not None:
            return estimated._replace(recorded=len(recorded))
    unknown = Weight(WHOLE / 2, 0.0, float("inf"))
    return Weights(unknown, unknown, "Equal", runs, len(recorded))


def recorded_runs(
    resource: MarketJob, rules: MarketSpec, status: Mapping[str, Any] | None
) -> tuple[Run, ...]:
    """Return cores, memory and utility of the finished runs in a job's status.

    Invalid runs are skipped. The result is empty if runs of the job are not recorded (any more).
    """
    if not status or "runs" not in status or not records_runs(resource, rules):
        return ()
    found = map(run_of, finished_runs(status["runs"]))
    return tuple(run for run in found if run is not None)


def finished_runs(runs: object) -> list[Mapping[str, Any]]:
    """Return the finished runs in a status's ``runs``; empty if it is malformed."""
    finished = runs.get("finished") if isinstance(runs, dict) else None
    if not isinstance(finished, list):
        return []
    return [each for each in finished if isinstance(each, dict)]


def run_of(document: Mapping[str, Any]) -> Run | None:
    """Return cores, memory and utility of a finished run; None if it is invalid."""
    try:
        found = (float(document["cores"]), float(document["memory"]), float(document["utility"]))
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    cores, memory, utility = found
    return found if 0 <= cores <= 1 and 0 <= memory <= 1 and 0 < utility <= MOST else None


def _exactly(value: float) -> Weight:
    return Weight(value, value, value)


@lru_cache(maxsize=1 << 14)  # in most decisions no job has a new run
def _estimated(runs: tuple[Run, ...]) -> Weights | None:
    """Estimate weights from runs; None if no weight is above 0."""
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
