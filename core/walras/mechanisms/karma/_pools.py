"""Richest-first division across several pools, with one balance for each user.

At each moment the richest user that can still be served takes a slice, from the first pool (in
their order) where it wants one and one is left. A pool in which none is left never has one again.
So a user takes all that it gets of one pool before anything of a later one: its keys (see
`walras.mechanisms.karma._levels`) belong to its pools one after the other, and what users get of a
pool follows from what they got of earlier pools. So each pool is divided once, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.karma._levels import serve
from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, Integers, IntegerTable


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
    pools, users = want.shape
    if pools == 1:  # the general case gives the same, a fifth slower
        for u in range(users):
            want[0, u] = min(want[0, u], limit[u])
        serve(rank, step, inverse, want[0], supply[0])
        return
    got = np.zeros(users, np.int64)
    whom, top, gets = (
        np.empty(users, np.int64),
        np.empty(users, np.int64),
        np.empty(users, np.int64),
    )
    steps, inverses = np.empty(users, np.int64), np.empty(users)
    for pool in range(pools):
        wanting = 0
        for u in range(users):
            if want[pool, u] == 0:
                continue
            whom[wanting], top[wanting] = u, rank[u] - got[u] * step[u]
            gets[wanting] = min(want[pool, u], limit[u] - got[u])
            steps[wanting], inverses[wanting] = step[u], inverse[u]
            wanting += 1
        serve(top[:wanting], steps[:wanting], inverses[:wanting], gets[:wanting], supply[pool])
        for each in range(wanting):
            got[whom[each]] += gets[each]
            want[pool, whom[each]] = gets[each]
