"""Grouping of jobs by user or by server, so that a pass over them reads memory in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras.numerics.arrays import Floats, Indices, Integers

Number = TypeVar("Number", np.float64, np.int64)


class Grouping(NamedTuple):
    """Jobs in a stable order by a key.

    Attributes:
        start: Bounds of the groups, shape (groups + 1,); group g is
            ``order[start[g]:start[g + 1]]``.
        order: Indices of the jobs, shape (k,).
    """

    start: Integers
    order: Indices


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """Return a read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view


def group(keys: Integers, groups: int) -> Grouping:
    """Group jobs by ``keys``, integers in 0..groups-1, with a counting sort."""
    if len(keys) > np.iinfo(np.uint32).max:
        raise ValueError(f"{len(keys)} jobs: the solvers take at most 2**32 - 1")
    start = np.zeros(groups + 2, np.int64)
    order = np.empty(len(keys), np.uint32)
    _counting_sort(np.ascontiguousarray(keys), start, order)
    return Grouping(start[:-1], order)


@kernel
def _counting_sort(keys: Integers, start: Integers, order: Indices) -> None:
    """Fill ``start``, which is passed as zeros of shape (groups + 2,), and ``order``.

    While jobs are sorted, entry g + 1 is the place of the next job of group g.
    """
    for key in keys:
        start[key + 2] += 1
    for g in range(2, len(start)):
        start[g] += start[g - 1]
    for job in range(len(keys)):
        key = keys[job]
        order[start[key + 1]] = job
        start[key + 1] += 1


@kernel
def stable_order(values: Floats) -> Integers:
    """Return the indices that sort ``values`` stably, by merge sort."""
    size = len(values)
    order = np.empty(size, np.int64)
    merged = np.empty(size, np.int64)
    for slot in range(size):
        order[slot] = slot
    run = 1
    while run < size:
        first = 0
        while first < size:
            middle = min(first + run, size)
            last = min(middle + run, size)
            left, right = first, middle
            for slot in range(first, last):
                if right == last or (left < middle and values[order[left]] <= values[order[right]]):
                    merged[slot] = order[left]
                    left += 1
                else:
                    merged[slot] = order[right]
                    right += 1
            first = last
        order, merged = merged, order
        run *= 2
    return order


@kernel
def longest_group(start: Integers) -> int:
    """Return the number of jobs of the largest group; ``start`` is that of a `Grouping`."""
    longest = 0
    for group in range(len(start) - 1):
        longest = max(longest, start[group + 1] - start[group])
    return longest
