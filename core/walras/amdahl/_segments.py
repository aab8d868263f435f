"""Jobs grouped by user or by server, so that a pass over them reads memory in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Grouping(NamedTuple):
    """Jobs sorted by a key, stably.

    Attributes:
        start: shape (groups + 1,); group g is ``order[start[g]:start[g + 1]]``.
        order: shape (k,); job numbers.
    """

    start: NDArray[np.int64]
    order: NDArray[np.uint32]


def group(keys: NDArray[np.int64], groups: int) -> Grouping:
    """Sort jobs by ``keys`` (integers in 0..groups-1) with one counting sort."""
    if len(keys) > np.iinfo(np.uint32).max:
        raise ValueError(f"{len(keys)} jobs: the solvers take at most 2**32 - 1")
    return Grouping(*_counting_sort(keys, groups))


@kernel
def _counting_sort(
    keys: NDArray[np.int64], groups: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    start = np.zeros(groups + 1, np.int64)
    for key in keys:
        start[key + 1] += 1
    for g in range(groups):
        start[g + 1] += start[g]
    free = start[:-1].copy()
    order = np.empty(len(keys), np.uint32)
    for job in range(len(keys)):
        key = keys[job]
        order[free[key]] = job
        free[key] += 1
    return start, order
