"""Water-filling: division of a capacity in proportion to weights, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import Grouping, sort_in_place

if TYPE_CHECKING:
    from walras._arrays import Bools, Floats, Integers


SMALLEST_WEIGHT = 1e-200
"""Smaller weights count as 0: a level at which they matter is out of floating point's range."""


def water_fill(
    weight: Floats, lower: Floats, upper: Floats, capacity: Floats, groups: Grouping
) -> Floats:
    """Return y = clip(level * weight, lower, upper), with a level by group that fills its capacity.

    The result is proportional to weights wherever no bound applies, so that what one member cannot
    take is divided among the others in proportion (progressive filling).

    Args:
        weight: Weights, not negative, shape (k,). Members of weight 0 get their lower bound, and
            divide equally what is left when all others are at their upper bound.
        lower: Lower bounds, not negative, shape (k,).
        upper: Upper bounds, at least ``lower``, possibly infinite, shape (k,).
        capacity: Capacity of each group, shape (groups,).
        groups: Members of each group.

    Returns:
        Amount of each member, shape (k,). Where the lower bounds add up to more than the capacity,
        the lower bounds; where the upper bounds add up to less, the upper bounds.
    """
    result = lower.copy()
    weightless = weight < SMALLEST_WEIGHT
    if not weightless.any():
        _raise_levels(weight, lower, upper, capacity.copy(), groups, result)
        return result
    weighted, others = _part(groups, ~weightless), _part(groups, weightless)
    owner = np.repeat(np.arange(len(capacity)), np.diff(others.start))
    floors = np.bincount(owner, lower[others.order], len(capacity))
    left = capacity - floors
    _raise_levels(weight, lower, upper, left, weighted, result)
    left = np.where(left > 0, left + floors, 0.0)
    _raise_levels(np.ones(len(weight)), lower, upper, left, others, result)
    return result


def _part(groups: Grouping, wanted: Bools) -> Grouping:
    """Return the groups with only those members that are ``wanted``, shape (k,)."""
    there = wanted[groups.order]
    up_to = np.concatenate([np.zeros(1, np.int64), np.cumsum(there)])
    return Grouping(up_to[groups.start], groups.order[there])


def _raise_levels(
    weight: Floats, lower: Floats, upper: Floats, left: Floats, groups: Grouping, result: Floats
) -> None:
    """Set ``result`` of the groups' members, and reduce ``left`` to what they cannot take.

    Members are passed in the order of their groups, so that the kernel needs no look-ups.
    """
    start, order = groups
    marks = np.empty(2 * int(np.diff(start).max(initial=0)))
    filled = result[order]
    _fill(weight[order], lower[order], upper[order], start, left, marks, filled)
    result[order] = filled


@kernel
def _fill(  # noqa: C901 - one loop over groups, whose parts would be compiled twice
    weight: Floats,
    lower: Floats,
    upper: Floats,
    start: Integers,
    left: Floats,
    marks: Floats,
    result: Floats,
) -> None:
    """Fill the groups; results that stay at their lower bounds are not written.

    Between marks, the levels at which a member leaves its lower or reaches its upper bound, the
    total is linear in the level: bisection finds the interval that contains the capacity. Totals
    are added up anew at every mark, since running totals would lose small weights beside large.

    Level 0 comes before all marks. The same loop handles it, since a second one would take the
    compiler as long again.
    """
    for group in range(len(left)):
        first, last = start[group], start[group + 1]
        room = left[group]
        count = 0
        for k in range(first, last):
            if upper[k] > lower[k]:
                marks[count] = lower[k] / weight[k]
                marks[count + 1] = upper[k] / weight[k]
                count += 2
        sort_in_place(marks, int(count))  # for the literal 0, numba would compile it again
        below, middle, above = -1, -1, count
        level = mark = total = slope = 0.0
        while True:
            at_mark = slope_after = 0.0
            for k in range(first, last):
                w = weight[k]
                if mark < lower[k] / w:
                    at_mark += lower[k]
                elif mark < upper[k] / w:
                    at_mark += mark * w
                    slope_after += w
                else:
                    at_mark += upper[k]
            if middle < 0 or at_mark <= room:
                below, level, total, slope = middle, mark, at_mark, slope_after
            else:
                above = middle
            if above - below <= 1 or (below < 0 and total >= room):
                break
            middle = (below + above) // 2
            mark = marks[middle]
        if count > 0 and (below >= 0 or total < room):
            if slope > 0.0:
                level += (room - total) / slope
                total = room
            for k in range(first, last):
                result[k] = min(max(level * weight[k], lower[k]), upper[k])
        left[group] = room - total
