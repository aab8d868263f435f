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
    """Compare the rows of two matrices; entries that are NaN in ``first`` are left out.

    Rows are sorted by rank in the first list and then in the second, as whole numbers that hold
    both. Pairs opposed are then those whose ranks in the second list fall.
    """
    length = first.shape[1]
    both = _ranks(first) * length
    both += _ranks(second)
    both.sort(axis=1)
    present = np.count_nonzero(~np.isnan(first), axis=1)  # NaN ranks last
    counts = _count(both, present)
    return Pairs(present * (present - 1) // 2, *counts)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number the different values of each row from 0, the least; each NaN is one of its own."""
    order = np.argsort(values, axis=1)
    ascending = np.take_along_axis(values, order, axis=1)
    rank = np.zeros(values.shape, np.int64)
    np.cumsum(ascending[:, 1:] != ascending[:, :-1], axis=1, out=rank[:, 1:])
    ranks = np.empty_like(rank)
    np.put_along_axis(ranks, order, rank, axis=1)
    return ranks


@kernel
def _count(both: NDArray[np.int64], present: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return opposed, tied in first, in second and in both, one row of each.

    A binary indexed tree (Fenwick, 1994) holds how many entries so far have at most some rank in
    the second list.
    """
    length = both.shape[1]
    counts = np.zeros((4, len(both)), np.int64)
    tree = np.empty(length + 1, np.int32)
    met = np.empty(length, np.int32)
    for row in range(len(both)):
        tree[:] = 0
        met[:] = 0
        tied_first, tied_both = 0, 0
        for i in range(present[row]):
            x, y = divmod(both[row, i], length)
            again = i > 0 and x == both[row, i - 1] // length
            tied_first = tied_first + 1 if again else 0
            tied_both = tied_both + 1 if again and both[row, i] == both[row, i - 1] else 0
            at_most, node = 0, y + 1
            while node > 0:
                at_most += tree[node]
                node &= node - 1
            node = y + 1
            while node <= length:
                tree[node] += 1
                node += node & -node
            counts[0, row] += i - at_most
            counts[1, row] += tied_first
            counts[2, row] += met[y]
            counts[3, row] += tied_both
            met[y] += 1
    return counts
