"""How good predictions were: scores of those that came true, and how much wider errors should be.

A prediction of x with the standard error s is a normal distribution. Its score is the continuous
ranked probability score, which is proper: nobody betters it by stating another s than is believed,

    CRPS = s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)),   z = (what came - x) / s.

Errors that are too small are widened by the root mean square of z, for which `BELIEVED` predictions
count as right from the start, so that one surprise widens little.
"""

from __future__ import annotations

import math
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

BELIEVED = 5
"""Number of predictions that count as having been right before any came true."""

MOST_WIDENED = 10.0
"""Most by which errors are multiplied."""

_STANDARD = NormalDist()


class Prediction(NamedTuple):
    """A prediction that came true.

    Attributes:
        ahead: Amount that it looked ahead, above 0, by which scores are divided: the seconds from
            the prediction to the predicted end, for an end.
        expected: What was predicted.
        error: Standard error that was stated, above 0.
        came: What came.
        widened: Factor that was already in the error.
    """

    ahead: float
    expected: float
    error: float
    came: float
    widened: float = 1.0

    @property
    def deviation(self) -> float:
        """What came less what was predicted, in stated errors."""
        return (self.came - self.expected) / self.error


class PredictionScore(NamedTuple):
    """How good some predictions were.

    Attributes:
        number: Number of predictions.
        coverage: Part of them that came within one stated error; 0.68 if errors are right.
        width: Mean stated error, as a part of what they looked ahead.
        crps: Mean continuous ranked probability score, as a part of the same; 0 is perfect.
        widening: Factor by which errors are widened from now on, at least 1.
    """

    number: int
    coverage: float
    width: float
    crps: float
    widening: float


def score(predictions: Sequence[Prediction]) -> PredictionScore | None:
    """Return how good predictions of one kind were; None if none came true."""
    if not predictions:
        return None
    return PredictionScore(
        len(predictions),
        fmean(abs(each.deviation) <= 1 for each in predictions),
        fmean(each.error / each.ahead for each in predictions),
        fmean(_crps(each) / each.ahead for each in predictions),
        widening(predictions),
    )


def widening(predictions: Sequence[Prediction]) -> float:
    """Return the factor by which errors of this kind are to be multiplied, from 1 on."""
    squares = math.fsum((each.deviation * each.widened) ** 2 for each in predictions)
    root = math.sqrt((BELIEVED + squares) / (BELIEVED + len(predictions)))
    return min(max(root, 1.0), MOST_WIDENED)


def _crps(prediction: Prediction) -> float:
    z = prediction.deviation
    spread = z * (2 * _STANDARD.cdf(z) - 1) + 2 * _STANDARD.pdf(z) - 1 / math.sqrt(math.pi)
    return prediction.error * spread
