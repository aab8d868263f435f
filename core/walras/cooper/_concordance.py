"""Counts, in n log n steps, of the pairs that two lists of numbers order alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Pairs(NamedTuple):
    """How two lists order the pairs of their entries, for each row of two matrices.

    Attributes:
        all: shape (rows,); pairs of entries.
        opposed: shape (rows,); pairs that one list orders one way and the other list the other.
        tied_first: shape (rows,); pairs that are equal in the first list.
        tied_second: shape (rows,); pairs that are equal in the second.
        tied_both: shape (rows,); pairs that are equal in both.
    """

    all: NDArray[np.int64]
    opposed: NDArray[np.int64]
    tied_first: NDArray[np.int64]
    tied_second: NDArray[np.int64]
    tied_both: NDArray[np.int64]


def compare(first: NDArray[np.float64], second: NDArray[np.float64]) -> Pairs:
    """Compare the rows of two matrices, by Knight's method (JASA 61, 1966).

    Sorted by the first list, ties by the second, the pairs opposed are the exchanges that a merge
    sort of the second list makes. Entries that are NaN in ``first`` are left out.
    """
    order = np.lexsort((second, first), axis=-1)  # NaN last
    lengths = np.count_nonzero(~np.isnan(first), axis=1)
    counts = _count(
        np.take_along_axis(first, order, axis=1),
        np.take_along_axis(second, order, axis=1),
        lengths.astype(np.int64),
    )
    return Pairs(lengths * (lengths - 1) // 2, *counts)


@kernel
def _count(
    first: NDArray[np.float64], second: NDArray[np.float64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return opposed, tied in first, in second and in both, one row each; sorts ``second``."""
    counts = np.zeros((4, len(lengths)), np.int64)
    for row in range(len(lengths)):
        x, y = first[row, : lengths[row]], second[row, : lengths[row]]
        both, same = 0, 0  # entries before this one that are tied with it
        for i in range(1, len(x)):
            same = same + 1 if x[i] == x[i - 1] else 0
            both = both + 1 if same > 0 and y[i] == y[i - 1] else 0
            counts[1, row] += same
            counts[3, row] += both
        counts[0, row] = _sort(y)
        same = 0
        for i in range(1, len(y)):
            same = same + 1 if y[i] == y[i - 1] else 0
            counts[2, row] += same
    return counts


@kernel
def _sort(values: NDArray[np.float64]) -> int:
    """Sort in place by merging ever longer runs; return how many pairs stood in reverse."""
    size = len(values)
    reverse = 0
    merged = np.empty(size)
    run = 1
    while run < size:
        for begin in range(0, size, 2 * run):
            middle, end = min(begin + run, size), min(begin + 2 * run, size)
            left, right = begin, middle
            for slot in range(begin, end):
                if right == end or (left < middle and values[left] <= values[right]):
                    merged[slot] = values[left]
                    left += 1
                else:
                    merged[slot] = values[right]
                    right += 1
                    reverse += middle - left
        values[:] = merged
        run *= 2
    return reverse
