"""Measured disutilities, and what is wrong with them.

Entry [x, y] of a matrix of disutilities is 1 - throughput of agent x beside co-runner y /
throughput alone (Cooper, section III-B): 0.3 is a loss of 30 %. Agent x prefers the co-runners
that cost it less. Entries that nobody measured are NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.checks import numbers, refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats

MAX_GAIN = 1e12
"""Largest gain of throughput by a co-runner that is taken for valid, in multiples of that alone."""


class DisutilityError(ValueError):
    """Invalid disutilities; the message names the array and its first bad entry."""


def check_measured(measured: ArrayLike) -> Floats:
    """Return measured disutilities as a matrix, with NaN where nothing is measured.

    No loss exceeds 1, all throughput. A gain, below 0, is possible: noise, or a co-runner that
    loads data for both (the paper's footnote 3).

    Raises:
        DisutilityError: Not a matrix; an entry is infinite, above 1 or below -1e12; or nothing is
            measured.
    """
    matrix = matrix_of("measured", measured)
    for bad, complaint in (
        (np.isinf(matrix), "is not finite; NaN says not measured"),
        (matrix > 1, "is above 1: more than all throughput cannot be lost"),
        (matrix < -MAX_GAIN, f"is below -{MAX_GAIN:g}"),
    ):
        refuse("measured", matrix, bad, complaint, DisutilityError)
    if matrix.size and np.isnan(matrix).all():
        raise DisutilityError(
            f"measured has no entry among {matrix.size} that is not NaN: at least one is needed"
        )
    return matrix


def matrix_of(name: str, values: ArrayLike) -> Floats:
    """Return ``values`` as an array of two dimensions, contiguous by row."""
    array = numbers(name, values, DisutilityError, copy=None)
    if array.ndim != 2:
        raise DisutilityError(
            f"{name} has {array.ndim} dimensions: a matrix, agents by co-runners, is needed"
        )
    return array
