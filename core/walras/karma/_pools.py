"""Richest first across several pools that share one balance a user.

At each moment the richest user that can still be served takes a slice, from the first pool (in
their order) where it wants one and one is left. As long as no pool runs out, a user's keys (see
`walras.karma._levels`) belong to its pools one after the other, and the moment at which a pool runs
out is a level of its own users' keys. So: find that moment for every pool, let the pool that is
first cut its users' wants down to what they got, move what they still want elsewhere up in line,
and repeat. Only pools further down the lines of users that were cut need to be looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras.karma._levels import EVERYTHING, find_level, serve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]


@kernel
def share_out(
    rank: Counts, step: Counts, inverse: Floats, limit: Counts, want: Counts, supply: Counts
) -> None:
    """Cut ``want`` down to what each user gets.

    Args:
        rank: shape (n,), who comes first: the larger, the earlier; ties in the order of users.
        step: shape (n,), by how much a slice lowers a user's rank, positive.
        inverse: shape (n,), 1 / ``step``.
        limit: shape (n,), slices that a user may get in all pools together.
        want: shape (pools, n), overwritten with what each user gets.
        supply: shape (pools,), slices to hand out.
    """
    pools, users = want.shape
    if pools == 1:
        for u in range(users):
            want[0, u] = min(want[0, u], limit[u])
        level, extra = find_level(rank, step, inverse, want[0], supply[0])
        serve(rank, step, inverse, want[0], level, extra)
        return
    before = _line_up(want)
    gets = np.empty((pools, users), np.int64)
    end = np.empty((pools, 2), np.int64)
    stale = np.ones(pools, np.bool_)
    closed = np.zeros(pools, np.bool_)
    first = 0
    while first >= 0:
        for pool in range(pools):
            if stale[pool] and not closed[pool]:
                _serve_pool(
                    rank,
                    step,
                    inverse,
                    limit,
                    before[pool],
                    want[pool],
                    supply[pool],
                    gets[pool],
                    end[pool],
                )
            stale[pool] = False
        first = _first_to_end(end, closed)
        if first >= 0:
            closed[first] = True
            _cut(first, gets[first], want, before, stale)
    for pool in range(pools):
        for u in range(users):
            want[pool, u] = gets[pool, u]


@kernel
def _line_up(want: Counts) -> Counts:
    """Return, for each pool and user, the slices that it wants of earlier pools."""
    pools, users = want.shape
    before = np.zeros((pools, users), np.int64)
    for pool in range(1, pools):
        for u in range(users):
            before[pool, u] = before[pool - 1, u] + want[pool - 1, u]
    return before


@kernel
def _serve_pool(
    rank: Counts,
    step: Counts,
    inverse: Floats,
    limit: Counts,
    before: Counts,
    want: Counts,
    supply: int,
    gets: Counts,
    end: Counts,
) -> None:
    """Put what each user gets of one pool if nobody is cut in another, and when the pool runs out.

    Args:
        rank: as above.
        step: as above.
        inverse: as above.
        limit: as above.
        before: shape (n,), slices that a user gets in earlier pools before it turns to this one.
        want: shape (n,), slices that it wants of this one.
        supply: slices of this one.
        gets: shape (n,), overwritten.
        end: shape (2,), overwritten with the level of the last slice and who gets it.
    """
    top = np.empty(len(rank), np.int64)
    for u in range(len(rank)):
        top[u] = rank[u] - before[u] * step[u]
        gets[u] = max(0, min(want[u], limit[u] - before[u]))
    end[0], extra = find_level(top, step, inverse, gets, supply)
    end[1] = serve(top, step, inverse, gets, end[0], extra)


@kernel
def _first_to_end(end: Counts, closed: NDArray[np.bool_]) -> int:
    """Return the open pool that runs out first: at the highest level, the earliest user; or -1."""
    first = -1
    for pool in range(len(end)):
        if closed[pool] or end[pool, 0] == EVERYTHING:
            continue
        later = first >= 0 and (
            end[pool, 0] < end[first, 0]
            or (end[pool, 0] == end[first, 0] and end[pool, 1] >= end[first, 1])
        )
        if not later:
            first = pool
    return first


@kernel
def _cut(closed: int, gets: Counts, want: Counts, before: Counts, stale: NDArray[np.bool_]) -> None:
    """Cut wants of the closed pool to what users got; they turn to their later pools earlier."""
    for u in range(len(gets)):
        refused = want[closed, u] - gets[u]
        if refused > 0:
            want[closed, u] = gets[u]
            for pool in range(closed + 1, len(want)):
                before[pool, u] -= refused
                if want[pool, u] > 0:
                    stale[pool] = True
