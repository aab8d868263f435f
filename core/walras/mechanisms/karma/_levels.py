"""Richest-first division of slices, computed by level instead of slice by slice.

A user that wants ``cap`` slices has as many keys: ``top``, ``top - step``, ``top - 2 step`` and so
on, its balance before each slice. Serving the richest user one slice, again and again, serves the
largest keys of all users, equal keys in the order of users. So the outcome follows from the level:
the largest key that is not served. It is found by counting the keys above a guess, one pass over
the users for each of about five guesses. This is the batching that section 4 of the paper mentions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, Integers


EVERYTHING = -(2**63)
"""Level below all keys: every user is served in full."""

HIGHEST = 2**63 - 1
"""Level above all keys; as a limit, it stands for no limit."""

PATIENCE = 12
"""Guesses before every other one is the midpoint, so that there are never more than 140."""


@kernel
def serve(  # noqa: C901 - a row of loops over the users, compiled whole
    top: Integers, step: Integers, inverse: Floats, cap: Integers, amount: int
) -> tuple[int, int]:
    """Reduce ``cap`` to what each user gets of ``amount`` slices.

    The level is bracketed, then guessed by the Illinois rule: linearly between the two ends, with
    half the weight for an end that stays. Both ends are keys, so that equal keys, however many, are
    found at once. Then all keys above the level are served, and some of those equal to it.

    Args:
        top: First key of each user, shape (n,).
        step: Difference between a user's keys, positive, shape (n,).
        inverse: 1 / ``step``, shape (n,).
        cap: Number of keys of each user, overwritten with the number served, shape (n,).
        amount: Slices to hand out.

    Returns:
        The level, and the first user with a key at it that is not served; `EVERYTHING` and -1 if
        all keys are served.
    """
    upto = 0
    low, high = HIGHEST, EVERYTHING
    for u in range(len(cap)):
        upto += cap[u]
        last = top[u] - (cap[u] - 1) * step[u]
        low = min(low, last if cap[u] > 0 else HIGHEST)
    for u in range(len(cap)):  # on its own, so that the C compiler finds vectors in both
        first = top[u]
        high = max(high, first + 1 if cap[u] > 0 else EVERYTHING)
    if upto <= amount:
        return EVERYTHING, -1
    # From here on, `above` keys reach high and `upto` reach low: above <= amount < upto.
    above = 0
    short, beyond = float(amount), float(upto - amount)
    turn = side = 0
    while above < amount and high - low > 1:
        turn += 1
        part = 0.5 if turn > PATIENCE and turn % 2 else short / (short + beyond)
        middle = high - max(1, min(high - low - 1, int((high - low) * part)))
        count, reaching, below = 0, HIGHEST, EVERYTHING
        for u in range(len(cap)):
            keys = keys_from(top[u], step[u], inverse[u], cap[u], middle)
            key = top[u] - keys * step[u]
            count += keys
            reaching = min(reaching, key + step[u] if keys > 0 else HIGHEST)
            below = max(below, key if keys < cap[u] else EVERYTHING)
        if count <= amount:
            high, above, short = below + 1, count, float(amount - count)
            beyond *= 0.5 if side > 0 else 1.0
            side = 1
        else:
            low, beyond = reaching, float(count - amount)
            short *= 0.5 if side < 0 else 1.0
            side = -1
    level = high - 1 if above == amount else low
    # A user has at most one key equal to the level: the last bit of its cap marks it until the
    # slices left over by keys above the level are known.
    spare = amount
    for u in range(len(cap)):
        keys = keys_from(top[u], step[u], inverse[u], cap[u], level)
        equal = int(keys > 0 and top[u] - (keys - 1) * step[u] == level)
        spare -= keys - equal
        cap[u] = 2 * keys + equal
    refused = 0
    for u in range(len(cap)):
        spare -= cap[u] & 1
        if spare < 0:
            refused = u
            break
    for u in range(len(cap)):
        cap[u] = (cap[u] >> 1) - (cap[u] & 1 if u >= refused else 0)
    return level, refused


@kernel
def keys_from(top: int, step: int, inverse: float, cap: int, level: int) -> int:
    """Return how many keys of one user are at least ``level``.

    The result is exact: the quotient in floating point is off by less than one for caps below
    2**50, and is corrected in integers. Without branches, the processor handles eight users at a
    time.
    """
    gap = top - level
    quotient = int(min(gap * inverse, float(cap)))
    remainder = gap - quotient * step
    quotient += int(remainder >= step) - int(remainder < 0)
    return max(0, min(cap, quotient + 1))
