"""Guaranteed slices of users and their prices, in whole numbers from weights."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from walras.mechanisms.karma.ledger import UNIT, KarmaError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Integers


LARGEST_NUMBER = 2**40 - 1
"""Largest demand, weight and number of slices of one pool."""

LARGEST_CAPACITY = 6 * 10**12
"""Most slices of all pools together: slices of 4 KiB of 22 PiB. All users together earn as many
credits in a quantum, and these and a balance before it fit into 64 bits."""

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
            KarmaError: A number is out of range.
        """
        fraction = _fraction(guaranteed_fraction)
        pools = whole("capacities", capacities, 1)
        if (slices := int(pools.sum())) > LARGEST_CAPACITY:
            raise KarmaError(
                f"capacities add up to {slices} slices: at most {LARGEST_CAPACITY} are possible"
            )
        if users > UNIT:
            raise KarmaError(f"{users} users: at most {UNIT} can share")
        if weights is None:
            each = _part(fraction, pools, np.ones(1, np.int64), users)
            return cls(pools, np.full(users, UNIT), np.repeat(each, users, axis=1))
        weight = whole("weights", weights, 1, least=1)
        if len(weight) != users:
            raise KarmaError(f"weights has {len(weight)} entries: {users} users need one each")
        total = int(weight.sum())
        if UNIT * total >= 2**63:
            raise KarmaError(f"weights add up to {total}: less than 9e12 is needed")
        # Rounded down, so that free credits are not negative.
        prices = UNIT * total // (users * weight)
        return cls(pools, prices, _part(fraction, pools, weight, total))

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
    """Return a copy of ``values`` as an array of integers in ``least``..`LARGEST_NUMBER`.

    Missing dimensions are added in front: one pool need not be given as a list of one.

    Raises:
        KarmaError: There are more dimensions, or a number is not an integer in that range.
    """
    array = np.array(values, ndmin=dimensions, order="C")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != dimensions or array.dtype.kind not in "iu":
        raise KarmaError(f"{name}: an array of whole numbers, {dimensions}-dimensional, is needed")
    if array.size and not (array.min() >= least and array.max() <= LARGEST_NUMBER):
        bad = (array < least) | (array > LARGEST_NUMBER)
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


def _part(fraction: Fraction, capacities: Integers, weight: Integers, total: int) -> Integers:
    """Return the whole slices in ``fraction`` of each fair share, shape (pools, n)."""
    if fraction.denominator * total >= 2**62:
        raise KarmaError(
            f"guaranteed_fraction = {fraction} and weights of {total} together have too many "
            "digits for 64 bits"
        )
    whole_slices, _ = proportion(
        capacities, fraction.numerator * weight, fraction.denominator * max(total, 1)
    )
    return whole_slices


def proportion(amounts: Integers, parts: Integers, total: int) -> tuple[Integers, Integers]:
    """Return quotient and remainder of each of ``amounts`` times each of ``parts`` by ``total``.

    The quotient in floating point is off by less than one and is corrected in integers. Products
    may overflow: the remainder is right modulo 2**64, and so is right as it is below 2**63.

    Args:
        amounts: Integers from 0 to `LARGEST_NUMBER`, shape (m,).
        parts: Integers from 0 to ``total``, shape (n,).
        total: Less than 2**62.

    Returns:
        Two arrays of shape (m, n).
    """
    quotient = np.multiply.outer(amounts, parts / total).astype(np.int64)
    remainder = np.multiply.outer(amounts, parts)
    remainder -= quotient * total
    for off, wrong in ((1, remainder >= total), (-1, remainder < 0)):
        quotient[wrong] += off
        remainder[wrong] -= off * total
    return quotient, remainder
