"""Whole cores from fractions: Hamilton's method, within bounds (VI, Rounding Allocations)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras._jit import kernel
from walras._segments import stable_order
from walras.fill import fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from walras._segments import Grouping


class RoundingError(ValueError):
    """Bounds that no whole numbers can meet; the message names the server and the figures."""


def round_cores(
    cores: NDArray[np.float64],
    capacity: ArrayLike,
    groups: Grouping,
    *,
    minimum: ArrayLike | None = None,
    maximum: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Round each server's fractions to whole cores that add up to its capacity.

    Hamilton's method: everybody gets the whole part, and the cores left over go one each to the
    largest fractional parts (ties: the earlier job first). Bounds come first: where the rounding
    of a fraction could break one, the fractions are scaled, clipped and refilled in proportion.

    Args:
        cores: shape (k,), not negative.
        capacity: shape (m,), whole numbers.
        groups: the jobs of each server.
        minimum: shape (k,), whole cores that each job gets at least; 0 if not given.
        maximum: shape (k,), whole cores that each job gets at most; the capacity if not given.

    Returns:
        Shape (k,). On a server whose jobs may not take all its cores, their maximums.

    Raises:
        RoundingError: a server's minimums add up to more than its cores, or a minimum is above
            its maximum.
    """
    capacities = np.asarray(capacity, np.int64)
    lower = np.zeros(len(cores), np.int64) if minimum is None else np.asarray(minimum, np.int64)
    if maximum is None:
        upper = np.full(len(cores), np.iinfo(np.int64).max // 4)
    else:
        upper = np.asarray(maximum, np.int64)
    if (lower > upper).any():
        job = int((lower > upper).argmax())
        raise RoundingError(f"job {job}: minimum {lower[job]} is above maximum {upper[job]}")
    quota = cores
    if minimum is not None or maximum is not None:
        _check_minimums(lower, capacities, groups)
        if (np.floor(cores) < lower).any() or (np.ceil(cores) > upper).any():
            quota = fill(
                cores,
                lower.astype(np.float64),
                upper.astype(np.float64),
                capacities.astype(np.float64),
                groups,
            )
    return _hamilton(quota, upper, capacities, groups.start, groups.order)


def _check_minimums(
    lower: NDArray[np.int64], capacities: NDArray[np.int64], groups: Grouping
) -> None:
    up_to = np.concatenate([[0], np.cumsum(lower[groups.order])])
    needed = np.diff(up_to[groups.start])
    if (needed > capacities).any():
        server = int((needed > capacities).argmax())
        raise RoundingError(
            f"server {server}: the minimums of its jobs add up to {needed[server]} cores, "
            f"it has {capacities[server]}"
        )


@kernel
def _hamilton(  # noqa: C901 - one loop over arrays, compiled whole
    quota: NDArray[np.float64],
    upper: NDArray[np.int64],
    capacity: NDArray[np.int64],
    start: NDArray[np.int64],
    order: NDArray[np.uint32],
) -> NDArray[np.int64]:
    whole = np.empty(len(quota), np.int64)
    longest = 0
    for group in range(len(capacity)):
        longest = max(longest, start[group + 1] - start[group])
    part = np.empty(longest)
    for group in range(len(capacity)):
        members = order[start[group] : start[group + 1]]
        left = capacity[group]
        for slot in range(len(members)):
            k = members[slot]
            whole[k] = min(int(np.floor(quota[k])), upper[k])
            left -= whole[k]
            part[slot] = whole[k] - quota[k] if whole[k] < upper[k] else 1.0
        if left <= 0:
            continue
        if left <= 8:  # a few largest: find each in one sweep
            for _ in range(left):
                best = 0
                for slot in range(1, len(members)):
                    if part[slot] < part[best]:
                        best = slot
                if len(members) == 0 or part[best] > 0.5:
                    break
                whole[members[best]] += 1
                part[best] = 1.0
        else:
            ranked = stable_order(part[: len(members)])
            for slot in ranked[:left]:
                if part[slot] <= 0.5:
                    whole[members[slot]] += 1
    return whole
