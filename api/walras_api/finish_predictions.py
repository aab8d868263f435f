"""The predicted ends of jobs that came true, as read from statuses of MarketJobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from walras.analysis.predictions import Prediction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEAST_ERROR = 1.0
"""Seconds that every predicted end errs by, since times are whole seconds."""


def came_true(statuses: Iterable[Mapping[str, Any] | None]) -> list[Prediction]:
    """Return the predictions of ends that came true; what cannot be read is left out."""
    predictions = []
    for status in statuses:
        try:
            report = (status or {})["deadline"]
            predicted = report["predicted"]
            made, finish, came = (
                datetime.fromisoformat(text).timestamp()
                for text in (predicted["made"], predicted["finish"], report["finished"])
            )
            error, widened = float(predicted["error"]), float(report["widened"])
        except (KeyError, TypeError, ValueError):
            continue
        if finish > made and error >= 0 and widened >= 1:
            error = max(error, LEAST_ERROR)
            predictions.append(Prediction(finish - made, finish, error, came, widened))
    return predictions
