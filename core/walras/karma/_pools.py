"""Richest first across several pools that share one balance a user.

At each moment the richest user that can still be served takes a slice, from the first pool (in
their order) where it wants one and one is left. As long as no pool refuses anybody, a user's keys
(see `walras.karma._levels`) belong to its pools one after the other, and the moment at which a pool
first refuses a slice follows from its own users' keys. So: find that moment for every pool, let the
pool that is first cut its users' wants down to what they got, move what they still want elsewhere
up in line, and repeat. Only pools further down the lines of users that were cut need to be looked
at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras.karma._levels import EVERYTHING, HIGHEST, serve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]

UNKNOWN = HIGHEST
"""In place of the level of a pool's first refusal: it is still to be found, or to be found anew."""

CLOSED = EVERYTHING + 1
"""Likewise: the pool has refused, and its users have been cut."""


@kernel
def share_out(  # noqa: C901 - in one, since what it called would be compiled twice
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
    if pools == 1:  # what follows would do as well, a fifth slower
        for u in range(users):
            want[0, u] = min(want[0, u], limit[u])
        serve(rank, step, inverse, want[0], supply[0])
        return
    before = np.empty((pools, users), np.int64)
    gets = np.empty((pools, users), np.int64)
    top = np.empty(users, np.int64)
    level = np.empty(pools, np.int64)
    whose = np.empty(pools, np.int64)
    for pool in range(pools):
        level[pool] = UNKNOWN
        for u in range(users):
            before[pool, u] = before[pool - 1, u] + want[pool - 1, u] if pool else 0
    first = 0
    while first >= 0:
        for pool in range(pools):
            if level[pool] == UNKNOWN:
                for u in range(users):
                    top[u] = rank[u] - before[pool, u] * step[u]
                    gets[pool, u] = max(0, min(want[pool, u], limit[u] - before[pool, u]))
                level[pool], whose[pool] = serve(top, step, inverse, gets[pool], supply[pool])
        first = _first_to_refuse(level, whose)
        if first >= 0:
            level[first] = CLOSED
            _cut(first, gets[first], want, before, level)
    for pool in range(pools):
        for u in range(users):
            want[pool, u] = gets[pool, u]


@kernel
def _first_to_refuse(level: Counts, whose: Counts) -> int:
    """Return the open pool that refuses first: at the highest level, the earliest user; or -1."""
    first = -1
    for pool in range(len(level)):
        if level[pool] > CLOSED and (
            first < 0
            or level[pool] > level[first]
            or (level[pool] == level[first] and whose[pool] < whose[first])
        ):
            first = pool
    return first


@kernel
def _cut(closed: int, gets: Counts, want: Counts, before: Counts, level: Counts) -> None:
    """Cut wants of the closed pool to what users got; they turn to their later pools earlier."""
    for u in range(len(gets)):
        refused = want[closed, u] - gets[u]
        if refused > 0:
            want[closed, u] = gets[u]
            for pool in range(closed + 1, len(want)):
                before[pool, u] -= refused
                if want[pool, u] > 0 and level[pool] != CLOSED:
                    level[pool] = UNKNOWN
