"""Filling containers in proportion to weights, between a lower and an upper mark each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras.amdahl._segments import read_only, stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from walras.amdahl._segments import Grouping

    Floats = NDArray[np.float64]


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
    total is linear in the level: walk the marks upwards until the capacity lies in the stretch.
    """
    marks = np.empty(2 * len(members))
    change = np.empty(2 * len(members))
    total = 0.0
    count = 0
    for k in members:
        if (weight[k] == 0.0) != weightless:
            continue
        total += lower[k]
        if upper[k] > lower[k]:
            w = 1.0 if weightless else weight[k]
            marks[count] = lower[k] / w
            change[count] = w
            marks[count + 1] = upper[k] / w
            change[count + 1] = -w
            count += 2
    if count == 0 or total >= capacity:
        return capacity - total
    order = stable_order(marks[:count])
    slope = 0.0
    level = 0.0
    rising = 0
    for mark in order:
        ahead = total + slope * (marks[mark] - level) if rising > 0 else total
        if ahead >= capacity:
            break
        total = ahead
        level = marks[mark]
        slope += change[mark]
        rising += 1 if change[mark] > 0.0 else -1
    if rising > 0:
        level += (capacity - total) / slope
        total = capacity
    for k in members:
        if (weight[k] == 0.0) == weightless:
            w = 1.0 if weightless else weight[k]
            result[k] = min(max(level * w, lower[k]), upper[k])
    return capacity - total
