"""Water-filling: division of a capacity in proportion to weights, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.clipped import clipped_root
from walras.numerics.kernel import kernel
from walras.numerics.segments import longest_group, read_only

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats, Indices, Integers
    from walras.numerics.segments import Grouping


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
    result = np.empty(len(weight))
    start, order = groups
    # Callers pass columns of tables, too.
    weights, least, most, room = (
        read_only(np.ascontiguousarray(each)) for each in (weight, lower, upper, capacity)
    )
    _fill(start, order, weights, least, most, room, result)
    return result


@kernel
def _fill(
    start: Integers,
    order: Indices,
    weight: Floats,
    lower: Floats,
    upper: Floats,
    capacity: Floats,
    result: Floats,
) -> None:
    """Fill each group: first its members with a weight, then the others, all alike."""
    longest = longest_group(start)
    offset, slope = np.zeros(longest), np.empty(longest)
    least, most = np.empty(longest), np.empty(longest)
    for group in range(len(capacity)):
        members = order[start[group] : start[group + 1]]
        floors, weightless = 0.0, 0
        for k in members:
            if weight[k] < SMALLEST_WEIGHT:
                floors += lower[k]
                weightless += 1
        room = capacity[group] - floors
        left = _fill_part(
            members, weight, lower, upper, False, room, offset, slope, least, most, result
        )
        if weightless > 0:
            room = left + floors if left > 0.0 else 0.0
            _fill_part(
                members, weight, lower, upper, True, room, offset, slope, least, most, result
            )


@kernel
def _fill_part(
    members: Indices,
    weight: Floats,
    lower: Floats,
    upper: Floats,
    weightless: bool,
    room: float,
    offset: Floats,
    slope: Floats,
    least: Floats,
    most: Floats,
    result: Floats,
) -> float:
    """Fill the members of a group that have a weight, or else those that have none.

    Args:
        members: Members of the group.
        weight: Weights, shape (k,).
        lower: Lower bounds, shape (k,).
        upper: Upper bounds, shape (k,).
        weightless: Whether to fill the members without weight.
        room: Amount to divide.
        offset: Zeros, of at least the size of the group.
        slope: Working array, of at least the size of the group.
        least: Working array, of at least the size of the group.
        most: Working array, of at least the size of the group.
        result: Amounts, shape (k,); those of these members are written.

    Returns:
        What they cannot take.
    """
    size = 0
    needed, usable = 0.0, 0.0
    for k in members:
        if (weight[k] < SMALLEST_WEIGHT) == weightless:
            slope[size] = 1.0 if weightless else weight[k]
            least[size], most[size] = lower[k], upper[k]
            needed += lower[k]
            usable += upper[k]
            size += 1
    level = _level(slope, least, most, offset, size, room)
    size = 0
    for k in members:
        if (weight[k] < SMALLEST_WEIGHT) == weightless:
            result[k] = min(max(level * slope[size], least[size]), most[size])
            size += 1
    return room - min(max(room, needed), usable)


@kernel
def _level(
    slope: Floats, lower: Floats, upper: Floats, offset: Floats, size: int, room: float
) -> float:
    """Return the level at which lines through 0, clipped to their bounds, add up to ``room``.

    The search begins at the level at which no bound applies, which is often the result.
    """
    least, most, total = 0.0, 0.0, 0.0
    for k in range(size):
        least += lower[k]
        most += upper[k]
        total += slope[k]
    if most <= room:
        return np.inf
    if least >= room:
        return 0.0
    return clipped_root(slope, offset, lower, upper, size, room, room / total, 0.0)
