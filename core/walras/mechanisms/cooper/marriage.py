"""Stable marriage: one side proposes, the other accepts and rejects (III-C, algorithm 1).

Preference lists are made by a bucket sort with twice as many buckets as columns, which puts values
almost in order, and an insertion sort, which completes it in place: an eighth of the time of
NumPy's stable sort where values are spread evenly, and less where they repeat. NumPy sorts the rows
whose values are crowded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.cooper.colocation import ColocationError, check_matrix
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Floats, FloatTable, IndexTable, Indices, Integers


MOVES_PER_COLUMN = 4
"""Moves by insertion per entry, on average, after which a row is left to NumPy."""


@dataclass(frozen=True)
class Marriage:
    """The stable marriage that is best for every proposer.

    Attributes:
        receiver_of: Receiver that accepted each proposer, or ``ALONE``, shape (p,).
        proposer_of: Proposer that each receiver accepted, or ``ALONE``, shape (r,).
        proposals: Number of proposals, at most p r.
    """

    receiver_of: Integers
    proposer_of: Integers
    proposals: int


def marry(proposer_cost: ArrayLike, receiver_cost: ArrayLike) -> Marriage:
    """Find the stable marriage that is best for the proposers.

    Each agent prefers a lower cost; among equal ones, the lower index. Ties broken so, no proposer
    and receiver would both be strictly better off together. Where one side is larger, the same of
    its agents are left over in every stable marriage.

    Args:
        proposer_cost: Cost of receiver j to proposer i, shape (p, r).
        receiver_cost: Cost of proposer i to receiver j, shape (r, p).

    Raises:
        ColocationError: A matrix has an entry that is not finite, or their shapes do not match.
    """
    proposers = check_matrix("proposer_cost", proposer_cost)
    receivers = check_matrix("receiver_cost", receiver_cost)
    if proposers.shape != receivers.shape[::-1]:
        raise ColocationError(
            f"receiver_cost is {receivers.shape[0]} by {receivers.shape[1]}: "
            f"{proposers.shape[1]} by {proposers.shape[0]} is needed, the transpose of "
            "proposer_cost"
        )
    return propose(preference_lists(proposers), receivers)


def propose(lists: Indices, receiver_cost: Floats) -> Marriage:
    """Return what ``marry`` does, for known preference lists and a checked matrix.

    Args:
        lists: Receivers of each proposer, the preferred ones first, shape (p, r).
        receiver_cost: Cost of proposer i to receiver j, or its rank, contiguous by row, shape (r,
            p).
    """
    receiver_of, proposer_of, proposals = _deferred_acceptance(lists, read_only(receiver_cost))
    return Marriage(receiver_of, proposer_of, int(proposals))


@kernel
def _deferred_acceptance(
    lists: IndexTable, receiver_cost: FloatTable
) -> tuple[Integers, Integers, int]:
    """Let proposers in one at a time; a displaced one proposes on from where it was.

    The outcome does not depend on the order of proposals (Gale and Shapley 1962).
    """
    proposers, receivers = lists.shape
    receiver_of = np.full(proposers, -1, np.int64)
    proposer_of = np.full(receivers, -1, np.int64)
    asked = np.zeros(proposers, np.int64)
    for newcomer in range(proposers):
        suitor = newcomer
        while suitor >= 0 and asked[suitor] < receivers:
            receiver = lists[suitor, asked[suitor]]
            asked[suitor] += 1
            rival = proposer_of[receiver]
            if rival >= 0:
                cost, held = receiver_cost[receiver, suitor], receiver_cost[receiver, rival]
                if held < cost or (held == cost and rival < suitor):
                    continue
                receiver_of[rival] = -1
            proposer_of[receiver] = suitor
            receiver_of[suitor] = receiver
            suitor = rival
    proposals = 0
    for suitor in range(proposers):
        proposals += asked[suitor]
    return receiver_of, proposer_of, proposals


def preference_lists(cost: Floats) -> Indices:
    """Return the columns of every row by increasing cost, equal ones by index.

    Args:
        cost: Finite costs, contiguous by row, shape (rows, columns).
    """
    lists = np.empty(cost.shape, np.uint32)
    crowded = _sort_rows(read_only(cost), lists)
    if crowded.any():
        lists[crowded] = np.argsort(cost[crowded], axis=1, kind="stable")
    return lists


@kernel
def _sort_rows(cost: FloatTable, lists: IndexTable) -> Bools:
    """Sort all rows but crowded ones, and return which rows are crowded."""
    rows, columns = cost.shape
    bucket = np.empty(columns, np.uint32)
    start = np.empty(2 * columns + 1, np.uint32)
    crowded = np.zeros(rows, np.bool_)
    for row in range(rows):
        _bucket_sort(cost[row], bucket, start, lists[row])
        crowded[row] = not _insertion_sort(cost[row], lists[row])
    return crowded


@kernel
def _bucket_sort(values: Floats, bucket: Indices, start: Indices, sorted_columns: Indices) -> None:
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
    for number in range(len(start)):
        start[number] = 0
    for column in range(len(values)):
        bucket[column] = min(int((values[column] - low) * scale), last)
        start[bucket[column] + 1] += 1
    for number in range(1, len(start)):
        start[number] += start[number - 1]
    for column in range(len(values)):
        slot = start[bucket[column]]
        start[bucket[column]] += 1
        sorted_columns[slot] = column


@kernel
def _insertion_sort(values: Floats, columns_in_order: Indices) -> bool:
    """Sort columns that are nearly in order; return False if that takes too many moves."""
    moves = MOVES_PER_COLUMN * len(columns_in_order)
    for slot in range(1, len(columns_in_order)):
        column = columns_in_order[slot]
        value = values[column]
        to = slot
        while to > 0 and values[columns_in_order[to - 1]] > value:
            columns_in_order[to] = columns_in_order[to - 1]
            to -= 1
        columns_in_order[to] = column
        moves -= slot - to
        if moves < 0:
            return False
    return True
