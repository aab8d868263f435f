"""Division of every server's cores that maximises a weighted sum of speedups.

The sum of c s(x) over jobs, s concave (eq. 1), has its optimum where all jobs that could give or
take value cores alike: c f / (f + (1 - f) x)**2 = lambda. In real numbers that is
x = clip(a t - g, l, h) with a = sqrt(c f) / (1 - f), g = f / (1 - f), t = 1 / sqrt(lambda). In
whole cores the x-th adds c f / (u (u - 1 + f)), u = f + (1 - f) x, ever less: taking the cores
that add most, one by one, is optimal, and so is taking all that add more than the water level
lambda of the real numbers and one by one only the few that are then missing or too many.

Lagrange's dual proves the result: at any lambda no division of C cores can exceed
lambda C + sum max_x (c s(x) - lambda x). Each maximum is bounded by what the job has and, s being
concave, its next core's gain beyond lambda, or its last one's short of it, for all cores that it
could still get or give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from walras.numerics.clipped import clipped_root
from walras.numerics.kernel import kernel
from walras.numerics.segments import read_only

if TYPE_CHECKING:
    from walras.mechanisms.amdahl.market import AmdahlMarket
    from walras.numerics.arrays import Floats, Indices, Integers

SMALLEST_FRACTION = 1e-24
"""Stands for f = 0 in real numbers, where cores add nothing beyond the first instant."""

LEAST_FRACTION = 1e-200
"""Stands for f = 0 in whole cores, where only the first adds anything: it avoids c f / 0."""

LARGEST_FRACTION = 1 - 1e-12
"""Stands for f = 1, where x is a step function of lambda; the effect on results is invisible."""

LEVEL_SLACK = 0.5
"""Cores by which the water level for whole cores may miss: to give or take one is faster than
the last Newton steps, and exact."""

MAX_WITHOUT_HEAP = 8
"""Cores to give or take on a server up to which no heap is built."""


class Division(NamedTuple):
    """Cores of every job, shape (k,), their weighted speedups, and a bound on any division's."""

    cores: Floats
    value: float
    bound: float


class _ServerJobs(NamedTuple):
    """Jobs of one server: weight of their speedup, parallel fraction, bounds, and cores."""

    weight: Floats
    fraction: Floats
    lower: Floats
    upper: Floats
    cores: Floats


def divide(
    market: AmdahlMarket, share: Floats, lower: Floats, upper: Floats, *, whole: bool
) -> Division:
    """Divide every server's cores so that the sum of user progress times share is largest.

    Args:
        market: Users, servers and jobs; with ``whole``, capacities are whole numbers.
        share: Weight of each user's progress, positive, shape (n,).
        lower: Fewest cores of each job, shape (k,); on a server at most its capacity in sum; with
            ``whole``, whole numbers.
        upper: Most cores of each job, shape (k,); with ``whole``, whole numbers.
        whole: Whether to divide whole cores; ties go to the earlier job.
    """
    done_by_one_core_each = market.sum_by_user(market.work)
    done_by_one_core_each[done_by_one_core_each == 0] = 1.0  # users without jobs
    longest = int(np.diff(market.by_server.start).max(initial=0))
    slope, offset, key = np.empty((3, longest))
    cores = np.empty(market.jobs)
    value, excess = _divide(
        market.by_server.start,
        market.by_server.order,
        market.user,
        share / done_by_one_core_each,
        market.work,
        market.fraction,
        read_only(lower),
        read_only(upper),
        market.capacities,
        whole,
        _ServerJobs(*np.empty((5, longest))),
        slope,
        offset,
        key,
        np.empty(longest, np.int64),
        cores,
    )
    return Division(cores, value, value + excess)


@kernel
def _divide(  # noqa: C901 - one loop over servers, compiled whole
    start: Integers,
    order: Indices,
    user: Integers,
    rate: Floats,
    work: Floats,
    fraction: Floats,
    lower: Floats,
    upper: Floats,
    capacity: Floats,
    whole: bool,
    jobs: _ServerJobs,
    slope: Floats,
    offset: Floats,
    key: Floats,
    heap: Integers,
    cores: Floats,
) -> tuple[float, float]:
    """Fill ``cores`` server by server.

    Everything that runs once per job is written out here, since calls take a fifth of the time. So
    do divisions: whether a gain c f / d is above the water level is decided by c f > level d.

    Returns:
        Value of the cores, and a bound on how much more any other division is worth.
    """
    value, excess = 0.0, 0.0
    t = 1.0
    slack = LEVEL_SLACK if whole else 0.0
    least_fraction = LEAST_FRACTION if whole else 0.0
    for j in range(len(capacity)):
        first = start[j]
        size = start[j + 1] - first
        most = 0.0
        for k in range(size):
            job = order[first + k]
            weight, f = rate[user[job]] * work[job], fraction[job]
            jobs.weight[k] = weight
            jobs.fraction[k] = max(f, least_fraction)
            jobs.lower[k] = lower[job]
            jobs.upper[k] = min(upper[job], capacity[j])
            f = min(max(f, SMALLEST_FRACTION), LARGEST_FRACTION)
            serial = 1.0 / (1.0 - f)
            slope[k] = np.sqrt(weight * f) * serial
            offset[k] = f * serial
            most += jobs.upper[k]
        level = 0.0
        if capacity[j] < most:
            t = clipped_root(slope, offset, jobs.lower, jobs.upper, size, capacity[j], t, slack)
            level = 1.0 / (t * t)
        left = min(capacity[j], most)
        for k in range(size):
            x = slope[k] * t - offset[k] if level > 0.0 else jobs.upper[k]
            x = min(max(x, jobs.lower[k]), jobs.upper[k])
            if whole:  # all cores that gain at least the level: x rounded up or down
                f = jobs.fraction[k]
                x = np.floor(x)
                enough = jobs.weight[k] * f >= level * _divisor(f, x + 1.0)
                x += (1.0 * enough) * (1.0 * (x < jobs.upper[k]))
                if f == 1.0:  # all cores gain the same
                    x = jobs.upper[k] if jobs.weight[k] >= level else jobs.lower[k]
            jobs.cores[k] = x
            left -= x
        if whole and left != 0.0:
            level = _adjust_whole_cores(jobs, size, left, key, heap)
        elif abs(left) > 1e-12 * capacity[j]:
            _absorb_rounding(jobs, size, left, slope)
        for k in range(size):
            x, f, weight = jobs.cores[k], jobs.fraction[k], jobs.weight[k]
            cores[order[first + k]] = x
            scale = f + (1.0 - f) * x
            value += weight * x / scale if x > 0.0 else 0.0
            # How far c s(x) - level x may be below its maximum: see the module's text.
            if whole:
                up, down = _divisor(f, x + 1.0), _divisor(f, x)
            else:
                up = down = scale * scale
            more, less = jobs.upper[k] - x, x - jobs.lower[k]
            worth = weight * f
            if more > 0.0 and worth > level * up:
                excess += more * (worth / up - level)
            if less > 0.0 and worth < level * down:
                excess += less * (level - worth / down)
    return value, excess


@kernel
def _absorb_rounding(jobs: _ServerJobs, size: int, left: float, slope: Floats) -> None:
    """Divide the cores that rounding left over, or take back those that it gave too many.

    First among jobs between their bounds, most to the most parallel: where the root gives x to six
    digits only, f is so close to 1 that x hardly matters. The rest goes by the room of each job.
    """
    steepness = 0.0
    for k in range(size):
        inside = 1.0 * (jobs.lower[k] < jobs.cores[k]) * (jobs.cores[k] < jobs.upper[k])
        steepness += inside * slope[k]
    step = left / steepness if steepness > 0.0 else 0.0
    for k in range(size):
        x = jobs.cores[k]
        if jobs.lower[k] < x < jobs.upper[k]:
            jobs.cores[k] = min(max(x + step * slope[k], jobs.lower[k]), jobs.upper[k])
            left -= jobs.cores[k] - x
    room = 0.0
    for k in range(size):
        limit = jobs.upper[k] if left > 0.0 else jobs.lower[k]
        room += abs(limit - jobs.cores[k])
    for k in range(size if room > 0.0 else 0):
        limit = jobs.upper[k] if left > 0.0 else jobs.lower[k]
        jobs.cores[k] += (limit - jobs.cores[k]) * min(abs(left) / room, 1.0)


@kernel
def _divisor(fraction: float, x: float) -> float:
    """Return u (u - 1 + f): a job's x-th whole core gains c f over this."""
    before = fraction + (1.0 - fraction) * (x - 1.0)
    return before * (before + (1.0 - fraction))


@kernel
def _gain(weight: float, fraction: float, x: float) -> float:
    """Return the gain of a job's x-th whole core."""
    return weight * fraction / _divisor(fraction, x)


@kernel
def _gain_of_next(jobs: _ServerJobs, k: int, sign: float) -> float:
    """Return the gain of the next core to give, minus that of the next to take; -inf for none."""
    x = jobs.cores[k]
    if sign > 0.0:
        return _gain(jobs.weight[k], jobs.fraction[k], x + 1.0) if x < jobs.upper[k] else -np.inf
    return -_gain(jobs.weight[k], jobs.fraction[k], x) if x > jobs.lower[k] else -np.inf


@kernel
def _adjust_whole_cores(
    jobs: _ServerJobs, size: int, left: float, key: Floats, heap: Integers
) -> float:
    """Give or take ``left`` cores one by one, in place; return the water level then.

    The next core is the one with the largest gain to give, earlier jobs first, or the least to
    take, later jobs first. Few are found by a sweep each, many by a heap.
    """
    sign = 1.0 if left > 0.0 else -1.0
    many = abs(left) > MAX_WITHOUT_HEAP
    for k in range(size):
        key[k] = _gain_of_next(jobs, k, sign)
    top = size // 2
    if many:
        for k in range(size):
            heap[k] = k
        while top > 0:
            top -= 1
            _sift_down(heap, key, size, top, sign)
    level = 0.0
    while left != 0.0:
        best = heap[0] if many else 0
        for k in range(0 if many else size):
            if key[k] > key[best] or (key[k] == key[best] and sign < 0.0):
                best = k
        level = sign * key[best]
        jobs.cores[best] += sign
        left -= sign
        key[best] = _gain_of_next(jobs, best, sign)
        if many:
            _sift_down(heap, key, size, top, sign)
    return level


@kernel
def _sift_down(heap: Integers, key: Floats, size: int, top: int, sign: float) -> None:
    """Move the entry at ``top`` down the heap until none below it has a larger key."""
    while 2 * top + 1 < size:
        below = 2 * top + 1
        if below + 1 < size and _precedes(heap[below + 1], heap[below], key, sign):
            below += 1
        if not _precedes(heap[below], heap[top], key, sign):
            break
        heap[top], heap[below] = heap[below], heap[top]
        top = below


@kernel
def _precedes(one: int, other: int, key: Floats, sign: float) -> bool:
    """Return whether ``one`` comes first: by larger key, then earlier to give, later to take."""
    if key[one] != key[other]:
        return bool(key[one] > key[other])
    return (one < other) == (sign > 0.0)
