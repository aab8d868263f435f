"""Arithmetic of one quantum of Karma (Algorithm 1).

Every user earns C / n credits and pays for its guaranteed slices, which leaves the (1 - alpha) f
free credits of line 3. Every user gets what it wants of its guaranteed slices. Then users take what
they want beyond them from the donated and shared slices of each pool, slice by slice, the richest
borrower first. Then donors earn for their slices that were used, the poorest first. In one pool no
user both borrows and donates, so that paying donors at the end is what the algorithm does; in
several pools, it keeps the order of borrowers independent of what they earn meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.mechanisms.karma._levels import HIGHEST, keys_from
from walras.mechanisms.karma._pools import share_out
from walras.mechanisms.karma.ledger import UNIT
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from walras.mechanisms.karma.shares import Shares
    from walras.numerics.arrays import Floats, Integers, IntegerTable


class SettlementTerms(NamedTuple):
    """Arguments of `settle` that are the same in every quantum, and its working arrays.

    Attributes:
        prices: Price of a slice in micro-credits, shape (n,).
        capacities: Slices of each pool, shape (pools,).
        guaranteed: Guaranteed slices, shape (pools, n).
        income: Micro-credits that all users earn together.
        dues: Micro-credits that guaranteed slices cost, shape (n,).
        inverse: 1 / ``prices``, shape (n,).
        supply: Working array, shape (pools,).
        limit: Working array, shape (n,).
        rank: Working array, shape (n,).
    """

    prices: Integers
    capacities: Integers
    guaranteed: Integers
    income: int
    dues: Integers
    inverse: Floats
    supply: Integers
    limit: Integers
    rank: Integers

    @classmethod
    def of(cls, shares: Shares) -> SettlementTerms:
        """Return the terms of ``shares``, for any number of quanta."""
        pools, users = shares.guaranteed.shape
        return cls(
            read_only(shares.prices),
            read_only(shares.capacities),
            read_only(shares.guaranteed),
            int(shares.capacities.sum()) * UNIT,
            shares.prices * shares.guaranteed.sum(axis=0),
            1.0 / shares.prices,
            np.empty(pools, np.int64),
            np.empty(users, np.int64),
            np.empty(users, np.int64),
        )


@kernel
def settle(
    balances: Integers,
    carry: int,
    demands: IntegerTable,
    slices: IntegerTable,
    lent: IntegerTable,
    prices: Integers,
    capacities: Integers,
    guaranteed: IntegerTable,
    income: int,
    dues: Integers,
    inverse: Floats,
    supply: Integers,
    limit: Integers,
    rank: Integers,
) -> int:
    """Settle one quantum: update ``balances``, fill ``slices`` and ``lent``, return the carry.

    Args:
        balances: Micro-credits of each user, at least one, shape (n,).
        carry: Micro-credits left over by the quantum before.
        demands: Slices that users want, read-only, shape (pools, n).
        slices: Overwritten with the slices that users hold, shape (pools, n).
        lent: Overwritten with the donated slices that are used, shape (pools, n).
        prices: Field of `SettlementTerms`.
        capacities: Field of `SettlementTerms`.
        guaranteed: Field of `SettlementTerms`.
        income: Field of `SettlementTerms`.
        dues: Field of `SettlementTerms`.
        inverse: Field of `SettlementTerms`.
        supply: Field of `SettlementTerms`.
        limit: Field of `SettlementTerms`.
        rank: Field of `SettlementTerms`.
    """
    users = len(balances)
    each = (carry + income) // users
    _split(demands, guaranteed, capacities, slices, lent, supply, limit)
    _earn(balances, each, dues, prices, inverse, limit)
    share_out(balances, prices, inverse, limit, slices, supply)
    if _collect(balances, demands, slices, lent, prices, guaranteed, supply, limit, rank):
        share_out(rank, prices, inverse, limit, lent, supply)
    _pay_out(balances, lent, prices)
    return carry + income - each * users


@kernel
def _split(
    demands: IntegerTable,
    guaranteed: IntegerTable,
    capacities: Integers,
    wanted: IntegerTable,
    donated: IntegerTable,
    supply: Integers,
    limit: Integers,
) -> None:
    """Split demands into guaranteed slices and what is ``wanted`` beyond them or ``donated``.

    Wants are limited to the pool's capacity. The ``supply`` is the guaranteed slices that their
    users do not take and the slices that are not guaranteed. The ``limit`` is what a user wants in
    all pools.
    """
    pools, users = demands.shape
    for u in range(users):
        limit[u] = 0
    for pool in range(pools):
        capacity, taken = capacities[pool], 0
        for u in range(users):
            own = min(guaranteed[pool, u], demands[pool, u])
            wanted[pool, u] = min(demands[pool, u], capacity) - own
            donated[pool, u] = guaranteed[pool, u] - own
            limit[u] += wanted[pool, u]
            taken += own
        supply[pool] = capacity - taken


@kernel
def _earn(
    balances: Integers,
    income: int,
    dues: Integers,
    prices: Integers,
    inverse: Floats,
    limit: Integers,
) -> None:
    """Pay every user its income less its dues, and lower its limit to what it can pay for."""
    for u in range(len(balances)):
        balances[u] += income - dues[u]
        limit[u] = keys_from(balances[u], prices[u], inverse[u], limit[u], prices[u])


@kernel
def _collect(
    balances: Integers,
    demands: IntegerTable,
    slices: IntegerTable,
    donated: IntegerTable,
    prices: Integers,
    guaranteed: IntegerTable,
    due: Integers,
    limit: Integers,
    rank: Integers,
) -> bool:
    """Charge borrowers for ``slices``, add their guaranteed ones, and set how many are ``due``.

    As many donated slices as are borrowed are due to be paid for, the poorest donor's first and
    without a limit.

    Returns:
        Whether more slices are donated than borrowed in any pool.
    """
    pools, users = demands.shape
    more_donated = False
    for pool in range(pools):
        borrowed, offered = 0, 0
        for u in range(users):
            borrowed += slices[pool, u]
            offered += donated[pool, u]
            balances[u] -= prices[u] * slices[pool, u]
            slices[pool, u] += min(guaranteed[pool, u], demands[pool, u])
        due[pool] = min(borrowed, offered)
        more_donated = more_donated or borrowed < offered
    if more_donated:
        for u in range(users):
            limit[u] = HIGHEST
            rank[u] = -balances[u]
    return more_donated


@kernel
def _pay_out(balances: Integers, lent: IntegerTable, prices: Integers) -> None:
    """Pay donors for the slices that they ``lent``."""
    pools, users = lent.shape
    for pool in range(pools):
        for u in range(users):
            balances[u] += prices[u] * lent[pool, u]
