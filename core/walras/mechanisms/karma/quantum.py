"""Allocation of one quantum of Karma: slices and the next ledger from demands and a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.karma._settle import SettlementTerms, settle
from walras.mechanisms.karma.ledger import Ledger
from walras.mechanisms.karma.shares import HALF, Shares
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Bools, Integers


@dataclass(frozen=True, eq=False)
class Allocation:
    """Slices and credits of one quantum; arrays are in the order of the ledger's users.

    Attributes:
        demands: Slices that users want, shape (pools, n).
        slices: Slices that users hold, shape (pools, n).
        lent: Donated slices that are used, each of which earns its donor its price, shape
            (pools, n).
    """

    before: Ledger
    ledger: Ledger
    shares: Shares
    demands: Integers
    slices: Integers
    lent: Integers

    @cached_property
    def borrowed(self) -> Integers:
        """Slices beyond the guaranteed ones, shape (pools, n); each costs its user's price."""
        borrowed: Integers = np.maximum(self.slices - self.shares.guaranteed, 0)
        return borrowed

    @cached_property
    def donated(self) -> Integers:
        """Guaranteed slices that their users do not want, lent or not, shape (pools, n)."""
        donated: Integers = np.maximum(self.shares.guaranteed - self.demands, 0)
        return donated

    @cached_property
    def idle(self) -> Integers:
        """Slices of each pool that no user holds, shape (pools,)."""
        idle: Integers = self.shares.capacities - self.slices.sum(axis=1)
        return idle

    @cached_property
    def unused(self) -> int:
        """Number of shared slices that nobody borrows, in all pools.

        Nobody pays for them, so that the mean balance by weight rises by 1 / n credits for each.
        """
        paid = self.shares.guaranteed.sum() + self.borrowed.sum() - self.lent.sum()
        return int(self.shares.capacities.sum() - paid)

    @cached_property
    def refused(self) -> Bools:
        """Whether each user lacked credits for a slice that stays idle, shape (n,).

        If none did, the quantum is Pareto efficient (Theorem 1): no pool has both idle slices and
        unmet demand. `Ledger.lift` ensures that.
        """
        unmet = (self.slices < self.demands)[self.idle > 0]
        return np.asarray(unmet.any(axis=0))


def allocate(
    ledger: Ledger,
    demands: ArrayLike,
    capacities: ArrayLike,
    *,
    guaranteed_fraction: Fraction | str = HALF,
    weights: ArrayLike | None = None,
) -> Allocation:
    """Divide the slices of one quantum among the users of ``ledger``.

    Args:
        ledger: Ledger before the quantum.
        demands: Slices that each user can use, whole numbers in the order of ``ledger.users``,
            shape (pools, n), or (n,) for one pool.
        capacities: Slices of each pool, or of the only one.
        guaranteed_fraction: Part of its fair share that a user has at any moment (alpha), in 0..1,
            as a fraction or a decimal string. A larger part lowers long-term fairness (section
            5.3).
        weights: Positive integers, one for each user; all equal if not given.

    Returns:
        Slices and the new ledger. A user that cannot pay the price of a slice gets only its
        guaranteed slices, even if slices stay idle; no user is ever in debt.

    Raises:
        KarmaError: An array has the wrong shape, or an entry or a balance is out of range.
    """
    users = len(ledger.users)
    shares = Shares.of(users, capacities, guaranteed_fraction=guaranteed_fraction, weights=weights)
    wanted = shares.check_demands(demands)
    slices, lent = np.empty_like(wanted), np.empty_like(wanted)
    balances, carry = ledger.balances.copy(), ledger.carry
    if users:
        terms = SettlementTerms.of(shares)
        ledger.check_room(terms.income)
        carry = settle(balances, carry, read_only(wanted), slices, lent, *terms)
    after = Ledger(ledger.users, balances, carry, ledger.quantum + 1)
    return Allocation(ledger, after, shares, wanted, slices, lent)
