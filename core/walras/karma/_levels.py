"""How far a richest-first division gets, found by level in place of slice by slice.

A user that wants ``cap`` slices stands in line with as many keys: ``top``, ``top - step``, ``top -
2 step`` and so on, its balance before each slice. To serve the richest user one slice, again and
again, is to serve the largest keys of all users, equal keys in the order of users. So the outcome
is known as soon as the level is known that exactly the served keys are above. It is found by
counting the keys above a guess, a pass over the users each, about five times. This is the batching
that section 4 of the paper mentions.
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

PATIENCE = 12
"""Guesses before every other one is the middle, so that there are never more than 140."""


@kernel
def find_level(
    top: Counts, step: Counts, inverse: Floats, cap: Counts, amount: int
) -> tuple[int, int]:
    """Return the level down to which ``amount`` slices serve the users, and what is left at it.

    Guesses go by the Illinois rule: linear between the two ends of the bracket, one that stays
    counting half as much. Both ends are keys, so that equal keys, however many, are found at once.

    Args:
        top: shape (n,), the first key of each user.
        step: shape (n,), by how much its keys fall, positive.
        inverse: shape (n,), 1 / ``step``.
        cap: shape (n,), how many keys it has.
        amount: slices to hand out.

    Returns:
        A level and a number: all keys above the level are served, and of those equal to it as
        many as the number says, the first users' first.
    """
    upto = 0
    for u in range(len(cap)):
        upto += cap[u]
    if upto <= amount:
        return EVERYTHING, 0
    low, high = HIGHEST, EVERYTHING
    for u in range(len(cap)):
        last = top[u] - (cap[u] - 1) * step[u]
        low = min(low, last if cap[u] > 0 else HIGHEST)
        high = max(high, top[u] + 1 if cap[u] > 0 else EVERYTHING)
    # From here on, `above` keys reach high and `upto` reach low: above <= amount < upto.
    above = 0
    short, beyond = float(amount), float(upto - amount)
    turn = side = 0
    while above < amount and high - low > 1:
        turn += 1
        part = 0.5 if turn > PATIENCE and turn % 2 else short / (short + beyond)
        middle = high - max(1, min(high - low - 1, int((high - low) * part)))
        count, reaching, below = _count(top, step, inverse, cap, middle)
        if count <= amount:
            high, above, short = below + 1, count, float(amount - count)
            beyond *= 0.5 if side > 0 else 1.0
            side = 1
        else:
            low, upto, beyond = reaching, count, float(count - amount)
            short *= 0.5 if side < 0 else 1.0
            side = -1
    if above == amount:
        return high - 1, 0
    return low, amount - above


@kernel
def serve(top: Counts, step: Counts, inverse: Floats, cap: Counts, level: int, extra: int) -> int:
    """Cut ``cap`` down to what each user gets at this level; return who got the last extra one.

    Returns:
        The index of the last user served at the level itself, -1 if there is none.
    """
    if level == EVERYTHING:
        return -1
    lucky = _first_with(top, step, inverse, cap, level, extra)
    for u in range(len(cap)):
        cap[u] = _keys_from(top[u], step[u], inverse[u], cap[u], level + (u >= lucky))
    return lucky - 1


@kernel
def _first_with(
    top: Counts, step: Counts, inverse: Floats, cap: Counts, level: int, number: int
) -> int:
    """Return how many users, from the first on, have ``number`` keys equal to the level."""
    first, last = 0, len(cap) if number else 0
    while last - first > 1:
        middle = (first + last) // 2
        equal = _count_equal(
            top[first:middle], step[first:middle], inverse[first:middle], cap[first:middle], level
        )
        if equal < number:
            first = middle
            number -= equal
        else:
            last = middle
    return last


@kernel
def _count_equal(top: Counts, step: Counts, inverse: Floats, cap: Counts, level: int) -> int:
    """Return how many keys equal the level."""
    count = 0
    for u in range(len(cap)):
        keys = _keys_from(top[u], step[u], inverse[u], cap[u], level)
        count += (keys > 0) & (top[u] - (keys - 1) * step[u] == level)
    return count


@kernel
def _count(
    top: Counts, step: Counts, inverse: Floats, cap: Counts, level: int
) -> tuple[int, int, int]:
    """Return how many keys reach ``level``, the least that does, and the largest that does not."""
    count, reaching, below = 0, HIGHEST, EVERYTHING
    for u in range(len(cap)):
        keys = _keys_from(top[u], step[u], inverse[u], cap[u], level)
        key = top[u] - keys * step[u]
        count += keys
        reaching = min(reaching, key + step[u] if keys > 0 else HIGHEST)
        below = max(below, key if keys < cap[u] else EVERYTHING)
    return count, reaching, below


@kernel
def _keys_from(top: int, step: int, inverse: float, cap: int, level: int) -> int:
    """Return how many keys of one user are at least ``level``.

    Exact: the quotient in floating point is off by less than one for caps below 2**50, and is put
    right in integers. That and no branches let the processor do eight users at a time.
    """
    gap = top - level
    quotient = int(min(gap * inverse, float(cap)))
    remainder = gap - quotient * step
    quotient += (remainder >= step) - (remainder < 0)
    return max(0, min(cap, quotient + 1))
