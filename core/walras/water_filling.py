"""Water-filling: division of a capacity in proportion to weights, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._clipped import clipped_root
from walras._kernel import kernel
from walras._segments import Grouping

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
    filled = np.empty(len(order))
    _fill(weight[order], lower[order], upper[order], start, left, np.zeros(len(order)), filled)
    result[order] = filled


@kernel
def _fill(
    weight: Floats,
    lower: Floats,
    upper: Floats,
    start: Integers,
    left: Floats,
    offset: Floats,
    result: Floats,
) -> None:
    """Fill the groups: a member's amount is a line through 0, clipped to its bounds.

    The search begins at the level at which no bound applies, which is often the result.
    """
    for group in range(len(left)):
        first, last = start[group], start[group + 1]
        room = left[group]
        least, most, total = 0.0, 0.0, 0.0
        for k in range(first, last):
            least += lower[k]
            most += upper[k]
            total += weight[k]
        level = 0.0
        if most <= room:
            level = np.inf
        elif least < room:
            level = clipped_root(
                weight[first:last],
                offset,
                lower[first:last],
                upper[first:last],
                last - first,
                room,
                room / total,
                0.0,
            )
        for k in range(first, last):
            result[k] = min(max(level * weight[k], lower[k]), upper[k])
        left[group] = room - min(max(room, least), most)
