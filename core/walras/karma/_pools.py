"""Richest-first division across several pools, with one balance for each user.

At each moment the richest user that can still be served takes a slice, from the first pool (in
their order) where it wants one and one is left. As long as no pool refuses a slice, a user's keys
(see `walras.karma._levels`) belong to its pools one after the other, and the moment at which a pool
first refuses a slice follows from its own users' keys. So: find that moment for every pool, let the
first of these pools reduce its users' wants to what they got, move up what they want of later
pools, and repeat. Only later pools of users that were refused need another look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import callable_from_kernels, kernel
from walras.karma._levels import EVERYTHING, HIGHEST, serve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]

UNKNOWN = HIGHEST
"""Level of a pool whose first refusal is not computed yet, or must be computed again."""

CLOSED = EVERYTHING + 1
"""Level of a pool that has refused, and whose users' wants have been reduced."""


@callable_from_kernels
def share_out(
    rank: Counts, step: Counts, inverse: Floats, limit: Counts, want: Counts, supply: Counts
) -> None:
    """Reduce ``want`` to what each user gets.

    Args:
        rank: Rank of each user, the largest first, ties in the order of users, shape (n,).
        step: Decrease of a user's rank by a slice, positive, shape (n,).
        inverse: 1 / ``step``, shape (n,).
        limit: Most slices of each user in all pools together, shape (n,).
        want: Slices that users want, overwritten with what they get, shape (pools, n).
        supply: Slices to hand out, shape (pools,).
    """
    pools, users = want.shape
    if pools == 1:  # the general case gives the same, a fifth slower
        want[0] = np.minimum(want[0], limit)
        serve(rank, step, inverse, want[0], supply[0])
        return
    top = np.empty(users, np.int64)
    gets = np.empty_like(want)
    before = np.zeros_like(want)
    for pool in range(1, pools):
        np.add(before[pool - 1], want[pool - 1], before[pool])
    whose = np.empty(pools, np.int64)
    level = np.full(pools, UNKNOWN)
    first = 0
    while first >= 0:
        for each in np.flatnonzero(level == UNKNOWN):
            gained = gets[each]
            _line_up(rank, step, limit, before[each], want[each], top, gained)
            level[each], whose[each] = serve(top, step, inverse, gained, supply[each])
        first = _first_to_refuse(level, whose)
        if first >= 0:
            level[first] = CLOSED
            _cut(first, gets[first], want, before, level)
    want[:] = gets


@kernel
def _line_up(
    rank: Counts,
    step: Counts,
    limit: Counts,
    before: Counts,
    want: Counts,
    top: Counts,
    gets: Counts,
) -> None:
    """Set the first key of each user in one pool, and the slices that it would take there."""
    for u in range(len(top)):
        top[u] = rank[u] - before[u] * step[u]
        gets[u] = max(0, min(want[u], limit[u] - before[u]))


@kernel
def _first_to_refuse(level: Counts, whose: Counts) -> int:
    """Return the open pool that refuses first, at the highest level; -1 if none refuses."""
    first, highest, earliest = -1, CLOSED, 0
    for pool in range(len(level)):
        if level[pool] > highest or (level[pool] == highest and whose[pool] < earliest):
            first, highest, earliest = pool, level[pool], whose[pool]
    return first


@kernel
def _cut(closed: int, gets: Counts, want: Counts, before: Counts, level: Counts) -> None:
    """Reduce wants of the closed pool to what users got, and move up those of later pools."""
    for u in range(len(gets)):
        refused = want[closed, u] - gets[u]
        if refused > 0:
            want[closed, u] = gets[u]
            for pool in range(closed + 1, len(want)):
                before[pool, u] -= refused
                if want[pool, u] > 0 and level[pool] != CLOSED:
                    level[pool] = UNKNOWN
