"""Guaranteed slices of users and their prices, in whole numbers from weights."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from walras.karma.ledger import LARGEST_BALANCE, UNIT, KarmaError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras._arrays import Integers


LARGEST_CAPACITY = 2**40
"""Bound on the slices of all pools together; more could overflow the arithmetic."""

HALF = Fraction(1, 2)


@dataclass(frozen=True, eq=False)
class Shares:
    """Terms on which users share the pools.

    A user's fair share of a pool is C W_u / W, with W_u its weight and W that of all; at equal
    weights, f. The whole slices in the guaranteed fraction of it are its own in every quantum. The
    remaining part of a slice goes to the shared slices and is compensated in credits.

    Attributes:
        capacities: Slices of each pool, shape (pools,).
        prices: Micro-credits that a borrowed slice costs each user and a lent one earns it, shape
            (n,): 1 / (n w_u) credits (section 3.4, w_u = W_u / W), rounded down to a micro-credit.
        guaranteed: Guaranteed slices of each user, shape (pools, n).
    """

    capacities: Integers
    prices: Integers
    guaranteed: Integers

    @classmethod
    def of(
        cls,
        users: int,
        capacities: ArrayLike,
        *,
        guaranteed_fraction: Fraction | str = HALF,
        weights: ArrayLike | None = None,
    ) -> Shares:
        """Return the terms for a number of users.

        Args:
            users: Number of users.
            capacities: Slices of each pool, or of the only one.
            guaranteed_fraction: Guaranteed part of fair shares (alpha, section 3.2), in 0..1, as a
                fraction or a decimal string.
            weights: Positive integers, one for each user; all equal if not given.

        Raises:
            KarmaError: A number is out of range, or weights and capacities are so large or so
                unequal that prices do not fit into 64 bits.
        """
        fraction = _fraction(guaranteed_fraction)
        pools = whole("capacities", capacities, 1)
        if (total := int(pools.sum())) >= LARGEST_CAPACITY:
            raise KarmaError(f"capacities add up to {total}: fewer than 2**40 slices are needed")
        if weights is None:
            each = _part(fraction, pools, np.ones(1, np.int64), users)
            return cls(pools, np.full(users, UNIT), np.repeat(each, users, axis=1))
        weight = whole("weights", weights, 1, least=1)
        if len(weight) != users:
            raise KarmaError(f"weights has {len(weight)} entries: {users} users need one each")
        prices = _prices(weight, total)
        return cls(pools, prices, _part(fraction, pools, weight, int(weight.sum())))

    def check_demands(self, demands: ArrayLike) -> Integers:
        """Return ``demands`` as an array of shape (pools, n).

        Raises:
            KarmaError: The shape is another, or a number is not an integer in 0..2**40 - 1.
        """
        array = whole("demands", demands, 2)
        if array.shape != self.guaranteed.shape:
            pools, users = self.guaranteed.shape
            raise KarmaError(
                f"demands has shape {array.shape}: a row for each of {pools} pools and a column "
                f"for each of {users} users are needed"
            )
        return array


def whole(name: str, values: ArrayLike, dimensions: int, least: int = 0) -> Integers:
    """Return a copy of ``values`` as an array of integers in ``least``..2**40 - 1.

    Missing dimensions are added in front: one pool need not be given as a list of one.

    Raises:
        KarmaError: There are more dimensions, or a number is not an integer in that range.
    """
    array = np.array(values, ndmin=dimensions, order="C")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != dimensions or array.dtype.kind not in "iu":
        raise KarmaError(f"{name}: an array of whole numbers, {dimensions}-dimensional, is needed")
    if array.size and not (array.min() >= least and array.max() < LARGEST_CAPACITY):
        bad = (array < least) | (array >= LARGEST_CAPACITY)
        where = ", ".join(str(int(each[0])) for each in np.nonzero(bad))
        raise KarmaError(f"{name}[{where}] = {array[bad][0]} is outside {least}..2**40 - 1")
    return array.astype(np.int64, copy=False)


def _fraction(value: Fraction | str) -> Fraction:
    try:
        fraction = Fraction(value)
    except (ValueError, ZeroDivisionError):
        fraction = Fraction(-1)
    if not 0 <= fraction <= 1:
        raise KarmaError(f"guaranteed_fraction = {value!r}: a number in 0..1 is needed, as '0.5'")
    return fraction


def _prices(weight: Integers, capacity: int) -> Integers:
    """Return 1 / (n w_u) in micro-credits, rounded down so that free credits are not negative."""
    users, total = len(weight), int(weight.sum())
    lightest, heaviest = int(weight.min(initial=1)), int(weight.max(initial=1))
    if UNIT * total >= 2**63:
        raise KarmaError(f"weights add up to {total}: less than 9e12 is needed")
    highest = UNIT * total * capacity
    if UNIT * total < users * heaviest or highest > LARGEST_BALANCE * users * lightest:
        raise KarmaError(
            f"weights from {lightest} to {heaviest} are too unequal for {users} users "
            f"of {capacity} slices"
        )
    prices: Integers = UNIT * total // (users * weight)
    return prices


def _part(fraction: Fraction, capacities: Integers, weight: Integers, total: int) -> Integers:
    """Return the whole slices in ``fraction`` of each fair share, shape (pools, n)."""
    largest = fraction.numerator * int(capacities.max(initial=0)) * int(weight.max(initial=1))
    if max(largest, fraction.denominator * total) >= 2**63:
        raise KarmaError(
            f"guaranteed_fraction = {fraction}, weights and capacities have too many digits "
            "for 64 bits together"
        )
    shares = np.multiply.outer(fraction.numerator * capacities, weight)
    part: Integers = shares // max(fraction.denominator * total, 1)
    return part
