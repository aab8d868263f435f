"""Karma over many quanta in one call: for simulation, what-if and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import read_only
from walras.karma._settle import SettlementTerms, settle
from walras.karma.ledger import LARGEST_BALANCE, KarmaError, Ledger
from walras.karma.shares import HALF, Shares, whole

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trace:
    """What Karma gave in each of T quanta.

    Attributes:
        slices: shape (T, n), or (T, pools, n) where demands were: slices that each user held.
        balances: shape (T, n), micro-credits of each user after each quantum.
        ledger: the ledger after the last quantum.
    """

    slices: Counts
    balances: Counts
    ledger: Ledger


def simulate(
    ledger: Ledger,
    demands: ArrayLike,
    capacities: ArrayLike,
    *,
    guaranteed_fraction: Fraction | str = HALF,
    weights: ArrayLike | None = None,
) -> Trace:
    """Allocate quantum after quantum; the same as that many calls of `allocate`.

    Args:
        ledger: the balances before the first quantum; nobody joins or leaves.
        demands: shape (T, n), or (T, pools, n): slices that each user can use in each quantum.
        capacities: as for `allocate`; the same in all quanta.
        guaranteed_fraction: as for `allocate`.
        weights: as for `allocate`.

    Raises:
        KarmaError: an array has the wrong shape, or an entry outside its range; or somebody's
            balance has grown out of range.
    """
    users = len(ledger.users)
    shares = Shares.of(users, capacities, guaranteed_fraction=guaranteed_fraction, weights=weights)
    given = np.asarray(demands)
    wanted = whole("demands", given[:, np.newaxis] if given.ndim == 2 else given, 3)
    if wanted.shape[1:] != shares.guaranteed.shape:
        pools = len(shares.capacities)
        raise KarmaError(
            f"demands has shape {given.shape}: quanta x {pools} pools x {users} users are needed"
        )
    slices = np.empty_like(wanted)
    balances = np.empty((len(wanted), users), np.int64)
    done, carry = len(wanted), ledger.carry
    if users:
        done, carry = _simulate(
            ledger.balances.copy(),
            carry,
            read_only(wanted),
            slices,
            balances,
            *SettlementTerms.of(shares),
        )
    last = balances[done - 1] if done else ledger.balances
    after = Ledger(ledger.users, last, carry, ledger.quantum + done)
    return Trace(slices.reshape(given.shape), balances, after)


@kernel
def _simulate(
    current: Counts,
    carry: int,
    demands: Counts,
    slices: Counts,
    balances: Counts,
    prices: Counts,
    capacities: Counts,
    guaranteed: Counts,
    income: int,
    dues: Counts,
    inverse: Floats,
    supply: Counts,
    limit: Counts,
    rank: Counts,
) -> tuple[int, int]:
    """Settle every quantum of ``demands``, and note ``slices`` and ``balances`` after each.

    Returns:
        How many quanta were settled, all unless a balance has grown out of range, and the carry.
    """
    lent = np.empty(guaranteed.shape, np.int64)
    for t in range(len(demands)):
        carry = settle(
            current,
            carry,
            demands[t],
            slices[t],
            lent,
            prices,
            capacities,
            guaranteed,
            income,
            dues,
            inverse,
            supply,
            limit,
            rank,
        )
        highest = 0
        for u in range(len(current)):
            balances[t, u] = current[u]
            highest = max(highest, current[u])
        if highest >= LARGEST_BALANCE:
            return t + 1, carry
    return len(demands), carry
