"""Karma over many quanta in one call, for simulation, what-if and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.karma._settle import SettlementTerms, settle
from walras.mechanisms.karma.ledger import LARGEST_BALANCE, KarmaError, Ledger
from walras.mechanisms.karma.shares import HALF, Shares, whole
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, IntegerCube, Integers, IntegerTable


@dataclass(frozen=True, eq=False)
class Trace:
    """Slices and balances over T quanta.

    Attributes:
        slices: Slices that each user held, in the shape of the demands.
        balances: Micro-credits of each user after each quantum, shape (T, n).
        ledger: Ledger after the last quantum.
    """

    slices: Integers
    balances: Integers
    ledger: Ledger


def simulate(
    ledger: Ledger,
    demands: ArrayLike,
    capacities: ArrayLike,
    *,
    guaranteed_fraction: Fraction | str = HALF,
    weights: ArrayLike | None = None,
) -> Trace:
    """Allocate quantum after quantum, with the same result as T calls of `allocate`.

    Args:
        ledger: Ledger before the first quantum; no user joins or leaves.
        demands: Slices that each user can use in each quantum, shape (T, n) or (T, pools, n).
        capacities: Slices of each pool, or of the only one, in every quantum.
        guaranteed_fraction: Guaranteed part of fair shares (alpha), in 0..1, as a fraction or a
            decimal string.
        weights: Positive integers, one for each user; all equal if not given.

    Raises:
        KarmaError: An array has the wrong shape, an entry is out of range, or a balance has grown
            out of range.
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
    terms = SettlementTerms.of(shares)
    if users:
        done, carry = _simulate(
            ledger.balances.copy(), carry, read_only(wanted), slices, balances, *terms
        )
    last = balances[done - 1] if done else ledger.balances
    after = Ledger(ledger.users, last, carry, ledger.quantum + done)
    if done < len(wanted):
        after.check_room(terms.income)
    return Trace(slices.reshape(given.shape), balances, after)


@kernel
def _simulate(
    current: Integers,
    carry: int,
    demands: IntegerCube,
    slices: IntegerCube,
    balances: IntegerTable,
    prices: Integers,
    capacities: Integers,
    guaranteed: IntegerTable,
    income: int,
    dues: Integers,
    inverse: Floats,
    supply: Integers,
    limit: Integers,
    rank: Integers,
) -> tuple[int, int]:
    """Settle every quantum of ``demands``, and store ``slices`` and ``balances`` after each.

    Returns:
        The number of quanta settled, fewer than all if a balance could grow out of range, and the
        carry.
    """
    lent = np.empty((guaranteed.shape[0], guaranteed.shape[1]), np.int64)
    for t in range(len(demands)):
        highest = 0
        for u in range(len(current)):
            highest = max(highest, current[u])
        if highest + (carry + income) // len(current) >= LARGEST_BALANCE:
            return t, carry
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
        for u in range(len(current)):
            balances[t, u] = current[u]
    return len(demands), carry
