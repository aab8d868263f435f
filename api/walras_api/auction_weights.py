"""The weights of a job's utility: given by the job, estimated from its runs, or equal."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walras.mechanisms.abacus.estimation import estimate_product_utility, estimate_utility

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walras_api.kinds import MarketJob, MarketSpec

    Run = tuple[float, float, float]

Form = Literal["Linear", "Log"]

FEWEST_RUNS: dict[Form, int] = {"Linear": 3, "Log": 4}
"""Fewest runs for an estimate: one more than what is fitted, for the confidence intervals.

Two weights are fitted and, for a product of shares, the utility of a run that has everything.
"""

WHOLE = 2.0
"""Sum of the weights, estimated or equal; minimum utilities are in its unit.

For a product, this is the power to which equal shares of all resources are raised.
"""

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
        runs: Number of runs that an estimate can use.
        recorded: Number of these runs that are from the job's status.
        cause: Why weights are Equal: there are too few runs, they are too similar to tell the
            weights apart, or their utility rose with no share; None for other sources.
    """

    cores: Weight
    memory: Weight
    source: Literal["Given", "Estimated", "Equal"]
    runs: int
    recorded: int = 0
    cause: Literal["TooFew", "TooSimilar", "NoGain"] | None = None


def records_runs(resource: MarketJob, rules: MarketSpec) -> bool:
    """Return whether a job's pods that succeed are recorded, to estimate its weights.

    They are recorded only if the job bids for both resources. With a single resource, its weight is
    the unit of ``minimumUtility``, which must not change by itself.
    """
    auction = resource.spec.auction
    return (
        rules.cores.mechanism == rules.memory.mechanism == "Auction"
        and resource.spec.memory is not None
        and auction.weights is None
        and auction.record_runs
    )


def weights_of(resource: MarketJob, recorded: Sequence[Run] = ()) -> Weights:
    """Return the weights of a job's utility.

    Weights are estimated as in section 5 of "Auction-based cloud service differentiation with
    service level objectives". A run without a share of a resource says nothing about a product of
    shares, which was then 0 whatever the weights, so it is left out for a logarithmic utility.
    """
    auction = resource.spec.auction
    form, given = auction.utility, auction.weights
    rows = _usable(
        ((float(run.cores), float(run.memory), float(run.utility)) for run in auction.runs), form
    )
    usable = _usable(recorded, form)
    runs = rows + usable
    if given is not None:
        cores, memory = float(given.cores), float(given.memory)
        return Weights(_exactly(cores), _exactly(memory), "Given", len(runs), len(usable))
    return _estimated(runs, form)._replace(recorded=len(usable))


def _usable(runs: Iterable[Run], form: Form) -> tuple[Run, ...]:
    return tuple(run for run in runs if form == "Linear" or min(run) > 0)


def recorded_runs(
    resource: MarketJob, rules: MarketSpec, status: Mapping[str, Any] | None
) -> tuple[Run, ...]:
    """Return cores, memory and utility of the finished runs in a job's status.

    Invalid runs are skipped. The result is empty if runs of the job are not recorded (any more).
    """
    if not status or "runs" not in status or not records_runs(resource, rules):
        return ()
    runs = map(run_of, finished_runs(status["runs"]))
    return tuple(run for run in runs if run is not None)


def finished_runs(runs: object) -> list[Mapping[str, Any]]:
    """Return the finished runs in a status's ``runs``; empty if it is malformed."""
    finished = runs.get("finished") if isinstance(runs, dict) else None
    if not isinstance(finished, list):
        return []
    return [each for each in finished if isinstance(each, dict)]


def run_of(document: Mapping[str, Any]) -> Run | None:
    """Return cores, memory and utility of a finished run; None if it is invalid."""
    try:
        run = (float(document["cores"]), float(document["memory"]), float(document["utility"]))
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    cores, memory, utility = run
    return run if 0 <= cores <= 1 and 0 <= memory <= 1 and 0 < utility <= MOST else None


def _exactly(value: float) -> Weight:
    return Weight(value, value, value)


@lru_cache(maxsize=1 << 14)  # in most decisions no job has a new run
def _estimated(runs: tuple[Run, ...], form: Form) -> Weights:
    """Estimate weights from runs; they are equal where runs cannot tell them."""
    if len(runs) < FEWEST_RUNS[form]:
        return _equal(len(runs), "TooFew")
    fit = estimate_product_utility if form == "Log" else estimate_utility
    estimate = fit([run[:2] for run in runs], [run[2] for run in runs], confidence=CONFIDENCE)
    if not estimate.distinct:
        return _equal(len(runs), "TooSimilar")
    total = float(estimate.weights.sum())
    if not total > 0:
        return _equal(len(runs), "NoGain")
    scale = WHOLE / total
    cores, memory = (
        Weight(max(value * scale, LEAST * WHOLE), lower * scale, upper * scale)
        for value, lower, upper in zip(
            estimate.weights.tolist(), estimate.lower.tolist(), estimate.upper.tolist(), strict=True
        )
    )
    return Weights(cores, memory, "Estimated", len(runs))


def _equal(runs: int, cause: Literal["TooFew", "TooSimilar", "NoGain"]) -> Weights:
    unknown = Weight(WHOLE / 2, 0.0, float("inf"))
    return Weights(unknown, unknown, "Equal", runs, cause=cause)
