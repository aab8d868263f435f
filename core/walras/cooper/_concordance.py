"""Concordance of two rankings: counts, in n log n steps, of the pairs that both order alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from walras._arrays import Floats, Integers


class PairCounts(NamedTuple):
    """Numbers of pairs of entries by how two lists order them, for each row of two matrices.

    Attributes:
        tied_first: Pairs that are equal in the first list, shape (rows,).
        tied_second: Pairs that are equal in the second list, shape (rows,).
        tied_both: Pairs that are equal in both lists, shape (rows,).
        total: All pairs, shape (rows,).
        discordant: Pairs that the lists order opposite ways, shape (rows,).
    """

    total: Integers
    discordant: Integers
    tied_first: Integers
    tied_second: Integers
    tied_both: Integers


def count_pairs(first: Floats, second: Floats) -> PairCounts:
    """Count the pairs of the rows of two matrices; entries that are NaN in ``first`` are left out.

    Rows are sorted by rank in the first list and then in the second, both in one whole number.
    Discordant pairs are then those whose ranks in the second list fall.
    """
    length = first.shape[1]
    ranks = _ranks(first) * length
    ranks += _ranks(second)
    ranks.sort(axis=1)
    present = np.count_nonzero(~np.isnan(first), axis=1)  # NaN ranks last
    counts = _count_rows(ranks, present)
    return PairCounts(present * (present - 1) // 2, *counts)


def _ranks(values: Floats) -> Integers:
    """Rank the different values of each row from 0, the least; each NaN has a rank of its own."""
    order = np.argsort(values, axis=1)
    ascending = np.take_along_axis(values, order, axis=1)
    rank = np.zeros(values.shape, np.int64)
    np.cumsum(ascending[:, 1:] != ascending[:, :-1], axis=1, out=rank[:, 1:])
    ranks = np.empty_like(rank)
    np.put_along_axis(ranks, order, rank, axis=1)
    return ranks


@kernel
def _count_rows(ranks: Integers, present: Integers) -> Integers:
    """Return rows of discordant pairs, and pairs tied in the first, the second and both lists.

    A binary indexed tree (Fenwick, 1994) counts the entries so far up to any rank in the second
    list.
    """
    length = ranks.shape[1]
    counts = np.zeros((4, len(ranks)), np.int64)
    tree = np.empty(length + 1, np.int32)
    seen = np.empty(length, np.int32)
    for row in range(len(ranks)):
        tree[:] = 0
        seen[:] = 0
        tied_first, tied_both = 0, 0
        for i in range(present[row]):
            x, y = divmod(ranks[row, i], length)
            tied = i > 0 and x == ranks[row, i - 1] // length
            tied_first = tied_first + 1 if tied else 0
            tied_both = tied_both + 1 if tied and ranks[row, i] == ranks[row, i - 1] else 0
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
            counts[2, row] += seen[y]
            counts[3, row] += tied_both
            seen[y] += 1
    return counts
