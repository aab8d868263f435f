"""Bounds of moves, and sums, that the turns of jobs with and without limits share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, FloatTable


LEAST_BID = 1e-18
"""Smallest bid on a resource that a job wants, as a part of its budget: no bid sticks at 0."""

LARGEST_POWER = 16.0
"""Largest power of a ratio of margins: with more, a linear job at alpha near 1 would overshoot."""


@kernel
def column_sums(values: FloatTable) -> Floats:
    """Return the sum of each column."""
    totals = np.zeros(values.shape[1])
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            totals[j] += values[i, j]
    return totals


@kernel
def others_total(powers: FloatTable, job: int, resource: int) -> float:
    """Return the sum of other jobs' ``powers`` on a resource, added up anew.

    For jobs with more than half of a resource, where the difference of the total and their own
    would lose digits; there is rarely more than one per resource.
    """
    total = 0.0
    for i in range(len(powers)):
        if i != job:
            total += powers[i, resource]
    return total
