"""Pure: the ends of jobs as predicted halfway, and how far errors are widened by what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from walras.analysis.predictions import MOST_WIDENED, widening
from walras_api.finish_predictions import came_true
from walras_api.market_job_status import PredictedFinish
from walras_operator.decide.numbers import figure
from walras_operator.decide.runs.tally import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_api.kinds import MarketJob


def widening_of(jobs: Iterable[MarketJob]) -> float:
    """Return the factor by which errors of work left are widened, by the ends of these jobs."""
    return float(figure(widening(came_true(job.status for job in jobs))))


def widened_before(report: Mapping[str, Any]) -> float | None:
    """Return the factor that a job's errors are widened by already; None if there is none.

    A job keeps the factor with which it started, so that the end of another one moves no cores.
    """
    try:
        factor = float(report["widened"])
    except (KeyError, TypeError, ValueError):
        return None
    return factor if 1 <= factor <= MOST_WIDENED else None


def predicted_before(report: Mapping[str, Any]) -> PredictedFinish | None:
    """Return the prediction in a status; None if there is none."""
    try:
        return PredictedFinish.model_validate(report["predicted"])
    except (KeyError, ValidationError):
        return None


def predicted_now(now: int, expected: int, error: float) -> PredictedFinish:
    """Return a prediction of an end; times in seconds since 1970, the error in seconds."""
    return PredictedFinish(made=time_of(now), finish=time_of(expected), error=figure(error))
