"""Rounding to whole cores by Hamilton's method, within bounds (VI, Rounding Allocations)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.kernel import kernel
from walras.numerics.segments import stable_order
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, Indices, Integers
    from walras.numerics.segments import Grouping


MAX_SEARCHES = 8
"""Most leftover cores of a server for which one search each is faster than sorting its jobs."""

AT_MAXIMUM = -np.inf
"""Rank of a job that is at its maximum."""


class RoundingError(ValueError):
    """Bounds that no whole numbers meet; the message names the server and the figures."""


def round_cores(
    cores: Floats,
    capacity: ArrayLike,
    groups: Grouping,
    *,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
) -> Integers:
    """Round each server's fractions to whole cores that add up to its capacity.

    Hamilton's method: every job gets its whole part, and the cores left over go one each to the
    largest fractional parts (ties: the earlier job first). Bounds come first: where the rounding
    of a fraction could break one, the fractions are scaled, clipped and refilled in proportion.

    Args:
        cores: Cores of each job, not negative, shape (k,).
        capacity: Whole cores of each server, shape (m,).
        groups: Jobs of each server.
        minimum: Fewest whole cores of each job, shape (k,); 0 if not given.
        maximum: Most whole cores of each job, shape (k,); no bound if not given.

    Returns:
        Whole cores of each job, shape (k,): their maximums on a server whose jobs may not take all
        of its cores.

    Raises:
        RoundingError: A server's minimums add up to more than its cores, or a minimum is above its
            maximum.
    """
    capacities = np.asarray(capacity, np.int64)
    lower = np.zeros(len(cores), np.int64) if minimum is None else np.asarray(minimum, np.int64)
    if maximum is None:
        upper = np.full(len(cores), np.iinfo(np.int64).max // 4)
    else:
        upper = np.asarray(maximum, np.int64)
    quota = cores
    if minimum is not None or maximum is not None:
        if (lower > upper).any():
            job = int((lower > upper).argmax())
            raise RoundingError(f"job {job}: minimum {lower[job]} is above maximum {upper[job]}")
        _check_minimums(lower, capacities, groups)
        if (np.floor(cores) < lower).any() or (np.ceil(cores) > upper).any():
            quota = water_fill(
                cores,
                lower.astype(np.float64),
                upper.astype(np.float64),
                capacities.astype(np.float64),
                groups,
            )
    whole = np.empty(len(quota), np.int64)
    ranks = np.empty(int(np.diff(groups.start).max(initial=0)))
    if _hamilton(quota, upper, capacities, groups.start, groups.order, ranks, whole):
        _hamilton_by_sorting(quota, upper, capacities, groups.start, groups.order, ranks, whole)
    return whole


def _check_minimums(lower: Integers, capacities: Integers, groups: Grouping) -> None:
    up_to = np.concatenate([[0], np.cumsum(lower[groups.order])])
    needed = np.diff(up_to[groups.start])
    if (needed > capacities).any():
        server = int((needed > capacities).argmax())
        raise RoundingError(
            f"server {server}: the minimums of its jobs add up to {needed[server]} cores, "
            f"it has {capacities[server]}"
        )


@kernel
def _hamilton(
    quota: Floats,
    upper: Integers,
    capacity: Integers,
    start: Integers,
    order: Indices,
    ranks: Floats,
    whole: Integers,
) -> bool:
    """Round each server's quotas, but only down if more than ``MAX_SEARCHES`` cores are left.

    Returns:
        Whether there is such a server, for ``_hamilton_by_sorting`` to finish. That is a kernel of
        its own since few markets need it, and it takes as long to compile as this one.
    """
    unfinished = False
    for group in range(len(capacity)):
        first, size = start[group], start[group + 1] - start[group]
        left = capacity[group]
        for slot in range(size):
            k = order[first + slot]
            whole[k] = min(int(quota[k]), upper[k])
            left -= whole[k]
            ranks[slot] = quota[k] - whole[k] if whole[k] < upper[k] else AT_MAXIMUM
        if left > MAX_SEARCHES:
            unfinished = True
            continue
        for _ in range(left):
            best = 0
            for slot in range(1, size):
                if ranks[slot] > ranks[best]:
                    best = slot
            if size == 0 or ranks[best] == AT_MAXIMUM:
                break
            whole[order[first + best]] += 1
            ranks[best] = AT_MAXIMUM
    return unfinished


@kernel
def _hamilton_by_sorting(
    quota: Floats,
    upper: Integers,
    capacity: Integers,
    start: Integers,
    order: Indices,
    ranks: Floats,
    whole: Integers,
) -> None:
    """Give out the leftover cores of servers that have more than ``MAX_SEARCHES``."""
    for group in range(len(capacity)):
        first, size = start[group], start[group + 1] - start[group]
        left = capacity[group]
        for slot in range(size):
            k = order[first + slot]
            left -= whole[k]
            ranks[slot] = whole[k] - quota[k] if whole[k] < upper[k] else -AT_MAXIMUM
        if left > MAX_SEARCHES:
            places = stable_order(ranks[:size])
            for place in range(min(left, size)):
                if ranks[places[place]] < -AT_MAXIMUM:
                    whole[order[first + places[place]]] += 1
