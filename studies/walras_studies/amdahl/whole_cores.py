"""Rounding to whole cores by Hamilton's method, within bounds (VI, Rounding Allocations)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.checks import check_finite, numbers, refuse
from walras.numerics.kernel import kernel
from walras.numerics.segments import Grouping, stable_order
from walras.numerics.water_filling import water_fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from walras.numerics.arrays import Floats, Indices, Integers


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
        RoundingError: A server's minimums add up to more than its cores, a minimum is above its
            maximum, or an array has the wrong shape or an entry that is outside its range.
    """
    cores = numbers("cores", cores, RoundingError, copy=None)
    if not (cores.ndim == 1 and cores.min(initial=0.0) >= 0 and cores.max(initial=0.0) < np.inf):
        cores = check_finite("cores", cores, (None,), RoundingError)
        refuse("cores", cores, cores < 0, "is negative", RoundingError)
    capacities = _whole("capacity", capacity, None)
    _check_groups(groups, len(cores), len(capacities))
    none = np.zeros(len(cores), np.int64)
    lower = none if minimum is None else _whole("minimum", minimum, len(cores))
    if maximum is None:
        upper = np.full(len(cores), np.iinfo(np.int64).max // 4)
    else:
        upper = _whole("maximum", maximum, len(cores))
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


def _whole(name: str, values: ArrayLike, size: int | None) -> Integers:
    """Return whole numbers that are not negative, shape (size,)."""
    array = check_finite(name, values, (size,), RoundingError)
    wrong = (array < 0) | (array != np.floor(array)) | (array >= 2.0**62)
    refuse(name, array, wrong, "is no number of whole cores", RoundingError)
    return array.astype(np.int64)


def _check_groups(groups: Grouping, jobs: int, servers: int) -> None:
    """See that every job is of one server, since kernels look nothing up twice."""
    if not isinstance(groups, Grouping):
        raise TypeError(f"groups is of type {type(groups).__name__}: give one of Grouping")
    start, order = groups
    if start.shape != (servers + 1,) or order.shape != (jobs,):
        raise RoundingError(
            f"groups are those of {len(order)} jobs on {len(start) - 1} servers: there are "
            f"{jobs} jobs on {servers} servers"
        )
    if start[0] != 0 or start[-1] != jobs or (np.diff(start) < 0).any():
        raise RoundingError(f"groups begin at {start.tolist()}: they must divide {jobs} jobs")
    if jobs and order.max() >= jobs:
        raise RoundingError(f"groups name job {order.max()}: there are {jobs} jobs")


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
