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

from walras._kernel import kernel
from walras.karma._levels import EVERYTHING, HIGHEST, serve

if TYPE_CHECKING:
    from walras._arrays import Floats, Integers, IntegerTable


UNKNOWN = HIGHEST
"""Level of a pool whose first refusal is not computed yet, or must be computed again."""

CLOSED = EVERYTHING + 1
"""Level of a pool that has refused, and whose users' wants have been reduced."""


@kernel
def share_out(
    rank: Integers,
    step: Integers,
    inverse: Floats,
    limit: Integers,
    want: IntegerTable,
    supply: Integers,
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
    if len(want) == 1:  # the general case gives the same, a fifth slower
        for u in range(len(limit)):
            want[0, u] = min(want[0, u], limit[u])
        serve(rank, step, inverse, want[0], supply[0])
        return
    _share_out(rank, step, inverse, limit, want, supply)


@kernel
def _share_out(
    rank: Integers,
    step: Integers,
    inverse: Floats,
    limit: Integers,
    want: IntegerTable,
    supply: Integers,
) -> None:
    """Reduce what users want of several pools to what they get."""
    pools = len(want)
    entries = _count_entries(want)
    start, pool_of = np.empty(pools + 1, np.int64), np.empty(entries, np.int64)
    whom, later = np.empty(entries, np.int64), np.empty(entries, np.int64)
    wanted, before = np.empty(entries, np.int64), np.empty(entries, np.int64)
    _list_entries(want, start, pool_of, whom, later, wanted, before)
    steps, inverses = np.empty(entries, np.int64), np.empty(entries)
    for each in range(entries):
        steps[each], inverses[each] = step[whom[each]], inverse[whom[each]]
    top, gets = np.empty(entries, np.int64), np.empty(entries, np.int64)
    level, whose = np.full(pools, UNKNOWN, np.int64), np.full(pools, -1, np.int64)
    first = 0
    while first >= 0:
        for pool in range(pools):
            if level[pool] != UNKNOWN:
                continue
            begin, end = start[pool], start[pool + 1]
            for each in range(begin, end):
                u = whom[each]
                top[each] = rank[u] - before[each] * step[u]
                gets[each] = max(0, min(wanted[each], limit[u] - before[each]))
            level[pool], refused = serve(
                top[begin:end],
                steps[begin:end],
                inverses[begin:end],
                gets[begin:end],
                supply[pool],
            )
            whose[pool] = whom[begin + refused] if refused >= 0 else -1
        first = _first_to_refuse(level, whose)
        if first >= 0:
            level[first] = CLOSED
            for each in range(start[first], start[first + 1]):
                _move_up(each, wanted[each] - gets[each], later, before, pool_of, level)
                wanted[each] = gets[each]
    for each in range(len(gets)):
        want[pool_of[each], whom[each]] = gets[each]


@kernel
def _count_entries(want: IntegerTable) -> int:
    """Return the number of wants above 0."""
    entries = 0
    for pool in range(want.shape[0]):
        for u in range(want.shape[1]):
            entries += want[pool, u] > 0
    return entries


@kernel
def _list_entries(
    want: IntegerTable,
    start: Integers,
    pool_of: Integers,
    whom: Integers,
    later: Integers,
    wanted: Integers,
    before: Integers,
) -> None:
    """List the wants above 0 pool by pool, since users want slices of few pools.

    Args:
        want: Slices that users want, shape (pools, n).
        start: First entry of each pool, and the number of entries, shape (pools + 1,); written, as
            are all that follow.
        pool_of: Pool of each entry.
        whom: User of each entry.
        later: The user's next entry, or -1.
        wanted: Slices wanted.
        before: Slices that the user wants of earlier pools.
    """
    pools, users = want.shape
    total, last = np.zeros(users, np.int64), np.full(users, -1, np.int64)
    entry = 0
    for pool in range(pools):
        start[pool] = entry
        for u in range(users):
            if want[pool, u] == 0:
                continue
            pool_of[entry], whom[entry], later[entry] = pool, u, -1
            wanted[entry], before[entry] = want[pool, u], total[u]
            total[u] += want[pool, u]
            if last[u] >= 0:
                later[last[u]] = entry
            last[u] = entry
            entry += 1
    start[pools] = entry


@kernel
def _first_to_refuse(level: Integers, whose: Integers) -> int:
    """Return the open pool that refuses first, at the highest level; -1 if none refuses."""
    first, highest, earliest = -1, CLOSED, 0
    for pool in range(len(level)):
        if level[pool] > highest or (level[pool] == highest and whose[pool] < earliest):
            first, highest, earliest = pool, level[pool], whose[pool]
    return first


@kernel
def _move_up(
    entry: int, refused: int, later: Integers, before: Integers, pool_of: Integers, level: Integers
) -> None:
    """Move up what a user wants of later pools by the slices that a pool refused it."""
    entry = later[entry]
    while refused > 0 and entry >= 0:
        before[entry] -= refused
        if level[pool_of[entry]] != CLOSED:
            level[pool_of[entry]] = UNKNOWN
        entry = later[entry]
