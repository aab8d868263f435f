"""How many preferences among co-runners a prediction has right (section IV-A, eq. 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.cooper.preference import DisutilityError, matrix_of
from walras.numerics.checks import refuse
from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, Integers, IntegerTable


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
    truth = matrix_of("true", true)
    guess = matrix_of("predicted", predicted)
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


class PairCounts(NamedTuple):
    """Pairs of entries, shape (rows,): all, in opposite orders, and equal in one or both lists."""

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
def _count_rows(ranks: IntegerTable, present: Integers) -> IntegerTable:
    """Return rows of discordant pairs, and pairs tied in the first, the second and both lists.

    A binary indexed tree (Fenwick, 1994) counts the entries so far up to any rank in the second
    list.
    """
    length = ranks.shape[1]
    counts = np.zeros((4, len(ranks)), np.int64)
    tree = np.empty(length + 1, np.int32)
    seen = np.empty(length, np.int32)
    for row in range(len(ranks)):
        for place in range(length):
            tree[place] = 0
            seen[place] = 0
        tree[length] = 0
        tied_first, tied_both = 0, 0
        for i in range(present[row]):
            x, y = ranks[row, i] // length, ranks[row, i] % length
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
