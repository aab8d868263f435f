"""Filling containers in proportion to weights, between a lower and an upper mark each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import read_only, stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras._segments import Grouping

    Floats = NDArray[np.float64]

SMALLEST_WEIGHT = 1e-200
"""Smaller weights count as 0: a level at which they matter is out of floating point's range."""


def fill(
    weight: Floats, lower: Floats, upper: Floats, capacity: Floats, groups: Grouping
) -> Floats:
    """Return y = clip(level * weight, lower, upper), one level a group, that adds up to capacity.

    Proportional to weight wherever no bound is in the way, so that what one member cannot take is
    divided among the others in proportion (progressive filling).

    Args:
        weight: shape (k,), not negative. Members of weight 0 get their lower bound, and share
            equally what is left when all others are at their upper bound.
        lower: shape (k,), not negative.
        upper: shape (k,), at least ``lower``; may be infinite.
        capacity: shape (groups,).
        groups: which members belong to which group.

    Returns:
        Shape (k,). Where the lower bounds add up to more than the capacity, the lower bounds;
        where the upper ones add up to less, the upper ones.
    """
    weight = np.where(weight < SMALLEST_WEIGHT, 0.0, weight)
    return _fill(weight, lower, upper, read_only(capacity), groups.start, groups.order)


@kernel
def _fill(
    weight: Floats,
    lower: Floats,
    upper: Floats,
    capacity: Floats,
    start: NDArray[np.int64],
    order: NDArray[np.uint32],
) -> Floats:
    result = lower.copy()
    for group in range(len(capacity)):
        members = order[start[group] : start[group + 1]]
        floor_of_weightless = 0.0
        for k in members:
            if weight[k] == 0.0:
                floor_of_weightless += lower[k]
        left = capacity[group] - floor_of_weightless
        for weightless in (False, True):
            room = left + floor_of_weightless if weightless else left
            left = _raise_level(weight, lower, upper, room, members, weightless, result)
            if left <= 0.0:
                break
    return result


@kernel
def _raise_level(
    weight: Floats,
    lower: Floats,
    upper: Floats,
    capacity: float,
    members: NDArray[np.uint32],
    weightless: bool,
    result: Floats,
) -> float:
    """Fill the members of a group with a weight, or those without; return what they cannot take.

    Between marks, the levels at which a member leaves its lower or reaches its upper bound, the
    total is linear in the level: find the stretch that the capacity lies in by bisection. Totals
    are added up anew at every mark, since running ones would lose the small weights beside the
    large.
    """
    marks = np.empty(2 * len(members))
    count = 0
    for k in members:
        if (weight[k] == 0.0) == weightless and upper[k] > lower[k]:
            w = 1.0 if weightless else weight[k]
            marks[count] = lower[k] / w
            marks[count + 1] = upper[k] / w
            count += 2
    total, slope = _total(weight, lower, upper, members, weightless, 0.0)
    if count == 0 or total >= capacity:
        return capacity - total
    order = stable_order(marks[:count])
    below, above = -1, count
    level = 0.0
    while above - below > 1:
        middle = (below + above) // 2
        mark = marks[order[middle]]
        at_mark, slope_after = _total(weight, lower, upper, members, weightless, mark)
        if at_mark <= capacity:
            below, level, total, slope = middle, mark, at_mark, slope_after
        else:
            above = middle
    if slope > 0.0:
        level += (capacity - total) / slope
        total = capacity
    for k in members:
        if (weight[k] == 0.0) == weightless:
            w = 1.0 if weightless else weight[k]
            result[k] = min(max(level * w, lower[k]), upper[k])
    return capacity - total


@kernel
def _total(
    weight: Floats,
    lower: Floats,
    upper: Floats,
    members: NDArray[np.uint32],
    weightless: bool,
    level: float,
) -> tuple[float, float]:
    """Return what the members take at ``level``, and how fast that grows just above it."""
    total = 0.0
    slope = 0.0
    for k in members:
        if (weight[k] == 0.0) != weightless:
            continue
        w = 1.0 if weightless else weight[k]
        if level < lower[k] / w:
            total += lower[k]
        elif level < upper[k] / w:
            total += level * w
            slope += w
        else:
            total += upper[k]
    return total, slope
