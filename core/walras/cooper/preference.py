"""Disutilities of colocation, measured on some pairs, and the preferences that follow from them.

Entry [x, y] of a matrix of disutilities is 1 - throughput of agent x beside co-runner y /
throughput alone (Cooper, section III-B): 0.3 is a loss of 30 %. Agent x prefers the co-runners
that cost it less. Entries that nobody measured are NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.cooper._concordance import compare

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


MOST_GAINED = 1e12
"""The most that a co-runner can be taken to speed an agent up, in multiples of its speed alone."""


class DisutilityError(ValueError):
    """Disutilities that make no sense; the message names the array and the first bad entry."""


def preferences_right(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the fraction of pairwise preferences that a prediction has right (tau, eq. 2).

    For each agent and each two of its co-runners, the prediction is wrong if it orders them the
    other way. Equation 2 is silent on ties: an agent that is indifferent is never wronged, and a
    predicted tie of two that are different counts one half, as a coin would decide it.

    Args:
        true: shape (agents, co-runners); NaN where there is no such colocation, as of an agent
            with itself, which leaves its pairs out.
        predicted: the same shape, finite wherever ``true`` is.

    Returns:
        Between 0 and 1, and 1 if there is nothing to choose between.

    Raises:
        DisutilityError: the shapes differ, or an entry is missing or not finite.
    """
    truth = _matrix("true", true)
    guess = _matrix("predicted", predicted)
    if truth.shape != guess.shape:
        raise DisutilityError(
            f"predicted has shape {guess.shape}, true has {truth.shape}: they must be the same"
        )
    exists = ~np.isnan(truth)
    _refuse("true", truth, np.isinf(truth), "is not finite")
    _refuse("predicted", guess, exists & ~np.isfinite(guess), "is not a finite number")
    pairs = compare(truth, guess)
    wrong = pairs.opposed.sum() + (pairs.tied_second - pairs.tied_both).sum() / 2
    return float(1 - wrong / max(pairs.all.sum(), 1))


def check_measured(measured: ArrayLike) -> NDArray[np.float64]:
    """Return disutilities as a matrix, with NaN where nothing is measured.

    A loss of more than everything cannot be; a gain, below 0, can: noise, or a co-runner that
    loads data for both (the paper's footnote 3).

    Raises:
        DisutilityError: not a matrix, an entry is infinite, above 1 or below -1e12, or nothing is
            measured.
    """
    matrix = _matrix("measured", measured)
    _refuse("measured", matrix, np.isinf(matrix), "is not finite; NaN says not measured")
    _refuse("measured", matrix, matrix > 1, "is above 1: more than all throughput cannot be lost")
    _refuse("measured", matrix, matrix < -MOST_GAINED, f"is below -{MOST_GAINED:g}")
    if matrix.size and np.isnan(matrix).all():
        raise DisutilityError(
            f"measured has no entry among {matrix.size} that is not NaN: one at least is needed"
        )
    return matrix


def _matrix(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if np.ndim(values) != 2:
        raise DisutilityError(
            f"{name} has {np.ndim(values)} dimensions: a matrix, agents by co-runners, is needed"
        )
    return array


def _refuse(name: str, matrix: NDArray[np.float64], bad: NDArray[np.bool_], complaint: str) -> None:
    if bad.any():
        row, column = (int(i) for i in np.unravel_index(bad.argmax(), bad.shape))
        raise DisutilityError(f"{name}[{row}, {column}] = {matrix[row, column]} {complaint}")
