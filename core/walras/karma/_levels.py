"""How far a richest-first division gets, found by level in place of slice by slice.

A user that wants ``cap`` slices stands in line with as many keys: ``top``, ``top - step``, ``top -
2 step`` and so on, its balance before each slice. To serve the richest user one slice, again and
again, is to serve the largest keys of all users, equal keys in the order of users. So the outcome
is known as soon as the level is: the largest key that is not served. It is found by counting the
keys above a guess, a pass over the users each, about five times. This is the batching that section
4 of the paper mentions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras._jit import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]

EVERYTHING = -(2**63)
"""The level below all keys: everybody is served in full."""

HIGHEST = 2**63 - 1
"""Above all keys; as a limit, none."""

PATIENCE = 12
"""Guesses before every other one is the middle, so that there are never more than 140."""


@kernel
def serve(top: Counts, step: Counts, inverse: Floats, cap: Counts, amount: int) -> tuple[int, int]:
    """Cut ``cap`` down to what each user gets of ``amount`` slices.

    First a bracket of the level, then guesses by the Illinois rule: linear between the two ends,
    one that stays counting half as much. Both ends are keys, so that equal keys, however many, are
    found at once. Then keys that reach the level are served, but for some of those that equal it.

    All in one function, since what one kernel calls is compiled once more with each of its callers.

    Args:
        top: shape (n,), the first key of each user.
        step: shape (n,), by how much its keys fall, positive.
        inverse: shape (n,), 1 / ``step``.
        cap: shape (n,), how many keys it has; overwritten with how many are served.
        amount: slices to hand out.

    Returns:
        The level, and the first user with a key there that is not served; `EVERYTHING` and -1 if
        all are served.
    """
    upto = 0
    low, high = HIGHEST, EVERYTHING
    for u in range(len(cap)):
        upto += cap[u]
        low = min(low, top[u] - (cap[u] - 1) * step[u] if cap[u] > 0 else HIGHEST)
        high = max(high, top[u] + 1 if cap[u] > 0 else EVERYTHING)
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
    # A user has one key equal to the level at most: the last bit notes it until it is known how far
    # the slices that nobody above the level takes reach among them.
    spare = amount
    for u in range(len(cap)):
        keys = keys_from(top[u], step[u], inverse[u], cap[u], level)
        equal = (keys > 0) & (top[u] - (keys - 1) * step[u] == level)
        spare -= keys - equal
        cap[u] = 2 * keys + equal
    refused = 0
    for u in range(len(cap)):
        spare -= cap[u] & 1
        if spare < 0:
            refused = u
            break
    for u in range(len(cap)):
        cap[u] = (cap[u] >> 1) - ((u >= refused) & (cap[u] & 1))
    return level, refused


@kernel
def keys_from(top: int, step: int, inverse: float, cap: int, level: int) -> int:
    """Return how many keys of one user are at least ``level``.

    Exact: the quotient in floating point is off by less than one for caps below 2**50, and is put
    right in integers. That and no branches let the processor do eight users at a time.
    """
    gap = top - level
    quotient = int(min(gap * inverse, float(cap)))
    remainder = gap - quotient * step
    quotient += (remainder >= step) - (remainder < 0)
    return max(0, min(cap, quotient + 1))
