"""What a job's resources are worth to it: as it says, as its runs show, or all alike."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras.abacus.estimation import estimate_utility

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras.resources.kinds import MarketJob, MarketSpec

    Run = tuple[float, float, float]

FEWEST_RUNS = 3
"""One more than there are weights: with fewer it cannot be told how sure an estimate is."""

WHOLE = 2.0
"""Sum of estimated weights, as that of equal ones, which minimums of utility are in units of."""

LEAST = 0.01
"""Part of that sum that each weight has at least: nothing is quite worthless to a program."""

CONFIDENCE = 0.95

MOST = 1e12
"""No utility is larger, as in specs."""


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
        recorded: of these, those that the job's status has.
    """

    cores: Weight
    memory: Weight
    source: Literal["Given", "Estimated", "Equal"]
    runs: int
    recorded: int = 0


def records_runs(resource: MarketJob, rules: MarketSpec) -> bool:
    """Say whether pods of a job that succeed are runs to estimate its weights from.

    So they are where there is something to weigh: where it bids for both resources. With one of
    them a weight is but the unit of ``minimumUtility``, which is not to change by itself.
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
    """Return what a job's resources are worth to it.

    Weights are estimated as in section 5 of "Auction-based cloud service differentiation with
    service level objectives", for linear utilities: those of logarithmic ones are known up to a
    factor of what is measured, which the section has no place for.

    Args:
        resource: the job, which may tell of runs itself.
        recorded: further runs (`recorded_runs`).
    """
    auction = resource.spec.auction
    given, told = auction.weights, auction.runs
    runs = len(told) + len(recorded)
    if given is not None:
        cores, memory = float(given.cores), float(given.memory)
        return Weights(_exactly(cores), _exactly(memory), "Given", runs, len(recorded))
    if auction.utility == "Linear" and runs >= FEWEST_RUNS:
        rows = tuple((float(run.cores), float(run.memory), float(run.utility)) for run in told)
        estimated = _estimated((*rows, *recorded))
        if estimated is not None:
            return estimated._replace(recorded=len(recorded))
    unknown = Weight(WHOLE / 2, 0.0, float("inf"))
    return Weights(unknown, unknown, "Equal", runs, len(recorded))


def recorded_runs(
    resource: MarketJob, rules: MarketSpec, status: Mapping[str, Any] | None
) -> tuple[Run, ...]:
    """Return shares of cores and memory and utility of the runs that a job's status has.

    None where none are recorded now. What is no such run is passed over.

    Args:
        resource: the job.
        rules: of the Market.
        status: of the job.
    """
    if not status or "runs" not in status or not records_runs(resource, rules):
        return ()
    found = map(run_of, finished_runs(status["runs"]))
    return tuple(run for run in found if run is not None)


def finished_runs(runs: object) -> list[Mapping[str, Any]]:
    """Return the finished runs in a status's ``runs``, whatever else may be in their place."""
    finished = runs.get("finished") if isinstance(runs, dict) else None
    if not isinstance(finished, list):
        return []
    return [each for each in finished if isinstance(each, dict)]


def run_of(document: Mapping[str, Any]) -> Run | None:
    """Return shares of cores and memory and utility of a finished run; None if it has none."""
    try:
        found = (
            float(document["cores"]),
            float(document["memory"]),
            float(document["utility"]),
        )
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    cores, memory, utility = found
    return found if 0 <= cores <= 1 and 0 <= memory <= 1 and 0 < utility <= MOST else None


def _exactly(value: float) -> Weight:
    return Weight(value, value, value)


@lru_cache(maxsize=1 << 14)  # in most decisions no job has a new run
def _estimated(runs: tuple[Run, ...]) -> Weights | None:
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
