"""Measured disutilities, and the preferences that follow from them.

Entry [x, y] of a matrix of disutilities is 1 - throughput of agent x beside co-runner y /
throughput alone (Cooper, section III-B): 0.3 is a loss of 30 %. Agent x prefers the co-runners
that cost it less. Entries that nobody measured are NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._checks import refuse
from walras.cooper._concordance import count_pairs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Floats

MAX_GAIN = 1e12
"""Largest gain of throughput by a co-runner that is taken for valid, in multiples of that alone."""


class DisutilityError(ValueError):
    """Invalid disutilities; the message names the array and its first bad entry."""


def preferences_right(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the fraction of pairwise preferences that a prediction has right (tau, eq. 2).

    For each agent and each two of its co-runners, the prediction is wrong if it orders them the
    other way. Equation 2 is silent on ties: an agent that is indifferent is never wronged, and a
    predicted tie of two that are different counts one half, as a coin would decide it.

    Args:
        true: Disutilities, shape (agents, co-runners); NaN where there is no such colocation, as of
            an agent with itself, which leaves its pairs out.
        predicted: Predicted disutilities of the same shape, finite wherever ``true`` is.

    Returns:
        A fraction from 0 to 1; 1 if there is nothing to choose between.

    Raises:
        DisutilityError: The shapes differ, or an entry is missing or not finite.
    """
    truth = _matrix("true", true)
    guess = _matrix("predicted", predicted)
    if truth.shape != guess.shape:
        raise DisutilityError(
            f"predicted has shape {guess.shape}, true has {truth.shape}: they must be the same"
        )
    exists = ~np.isnan(truth)
    refuse("true", truth, np.isinf(truth), "is not finite", DisutilityError)
    refuse(
        "predicted", guess, exists & ~np.isfinite(guess), "is not a finite number", DisutilityError
    )
    pairs = count_pairs(truth, guess)
    wrong = pairs.discordant.sum() + (pairs.tied_second - pairs.tied_both).sum() / 2
    return float(1 - wrong / max(pairs.total.sum(), 1))


def check_measured(measured: ArrayLike) -> Floats:
    """Return measured disutilities as a matrix, with NaN where nothing is measured.

    No loss exceeds 1, all throughput. A gain, below 0, is possible: noise, or a co-runner that
    loads data for both (the paper's footnote 3).

    Raises:
        DisutilityError: Not a matrix; an entry is infinite, above 1 or below -1e12; or nothing is
            measured.
    """
    matrix = _matrix("measured", measured)
    refuse(
        "measured",
        matrix,
        np.isinf(matrix),
        "is not finite; NaN says not measured",
        DisutilityError,
    )
    refuse(
        "measured",
        matrix,
        matrix > 1,
        "is above 1: more than all throughput cannot be lost",
        DisutilityError,
    )
    refuse("measured", matrix, matrix < -MAX_GAIN, f"is below -{MAX_GAIN:g}", DisutilityError)
    if matrix.size and np.isnan(matrix).all():
        raise DisutilityError(
            f"measured has no entry among {matrix.size} that is not NaN: at least one is needed"
        )
    return matrix


def _matrix(name: str, values: ArrayLike) -> Floats:
    """Return ``values`` as an array of two dimensions, contiguous by row."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if np.ndim(values) != 2:
        raise DisutilityError(
            f"{name} has {np.ndim(values)} dimensions: a matrix, agents by co-runners, is needed"
        )
    return array
