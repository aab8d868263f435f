"""The arithmetic of one quantum of Karma, compiled (Algorithm 1).

Everybody earns C / n credits and pays for its own guaranteed slices, which leaves the (1 - alpha) f
free credits of line 3; everybody gets what it wants of its guaranteed slices; the richest borrower
first, slice by slice, users take what they want beyond them from the donated and shared slices of
each pool; then donors earn for the slices of theirs that were used, the poorest first. In one pool
nobody both borrows and donates, so to pay donors at the end is what the algorithm does; in several,
it keeps the order of borrowers free of what they earn meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras.karma._levels import HIGHEST
from walras.karma._pools import share_out
from walras.karma.ledger import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]


def workspace(users: int) -> tuple[Counts, Floats]:
    """Return the arrays that `settle` works in, good for any number of quanta."""
    return np.empty(users, np.int64), np.empty(users)


@kernel
def settle(
    balances: Counts,
    carry: int,
    prices: Counts,
    capacities: Counts,
    guaranteed: Counts,
    demands: Counts,
    slices: Counts,
    lent: Counts,
    limit: Counts,
    inverse: Floats,
) -> int:
    """Settle one quantum: change ``balances``, fill ``slices`` and ``lent``, return the carry.

    Args:
        balances: shape (n,), micro-credits, at least one user's.
        carry: micro-credits left over by the quantum before.
        prices: shape (n,), micro-credits.
        capacities: shape (pools,), slices.
        guaranteed: shape (pools, n), slices.
        demands: shape (pools, n), slices.
        slices: shape (pools, n), overwritten with what each user holds.
        lent: shape (pools, n), overwritten with the donated slices that somebody uses.
        limit: shape (n,), overwritten.
        inverse: shape (n,), overwritten.
    """
    pools, users = demands.shape
    supply = np.empty(pools, np.int64)
    for pool in range(pools):
        carry += capacities[pool] * UNIT
    for u in range(users):
        balances[u] += carry // users
        inverse[u] = 1.0 / prices[u]
        limit[u] = 0
    _split(prices, capacities, guaranteed, demands, slices, lent, balances, supply, limit)
    for u in range(users):
        if limit[u] * prices[u] > balances[u]:
            limit[u] = balances[u] // prices[u]
    share_out(balances, prices, inverse, limit, slices, supply)
    if _pay(prices, guaranteed, demands, slices, lent, balances, supply):
        for u in range(users):
            limit[u] = HIGHEST
            balances[u] = -balances[u]
        share_out(balances, prices, inverse, limit, lent, supply)
        for u in range(users):
            balances[u] = -balances[u]
    for pool in range(pools):
        for u in range(users):
            balances[u] += prices[u] * lent[pool, u]
    return int(carry % users)


@kernel
def _split(
    prices: Counts,
    capacities: Counts,
    guaranteed: Counts,
    demands: Counts,
    wanted: Counts,
    donated: Counts,
    balances: Counts,
    supply: Counts,
    limit: Counts,
) -> None:
    """Split demands into guaranteed slices and what is ``wanted`` beyond them or ``donated``.

    Wants are cut to the pool's capacity. Everybody pays for all its guaranteed slices; the
    ``supply`` is what nobody takes of them and what is not guaranteed. The wants of all pools are
    added to ``limit``.
    """
    pools, users = demands.shape
    for pool in range(pools):
        supply[pool] = capacities[pool]
        for u in range(users):
            own = min(guaranteed[pool, u], demands[pool, u])
            wanted[pool, u] = min(demands[pool, u], capacities[pool]) - own
            donated[pool, u] = guaranteed[pool, u] - own
            balances[u] -= prices[u] * guaranteed[pool, u]
            supply[pool] -= own
            limit[u] += wanted[pool, u]


@kernel
def _pay(
    prices: Counts,
    guaranteed: Counts,
    demands: Counts,
    slices: Counts,
    donated: Counts,
    balances: Counts,
    due: Counts,
) -> bool:
    """Let borrowers pay for ``slices``, add their guaranteed ones, and put how many are ``due``.

    As many donated slices as are borrowed are due to be paid for; returns whether not all are.
    """
    pools, users = demands.shape
    too_many = False
    for pool in range(pools):
        borrowed, offered = 0, 0
        for u in range(users):
            borrowed += slices[pool, u]
            offered += donated[pool, u]
            balances[u] -= prices[u] * slices[pool, u]
            slices[pool, u] += min(guaranteed[pool, u], demands[pool, u])
        due[pool] = min(borrowed, offered)
        too_many = too_many or borrowed < offered
    return too_many
