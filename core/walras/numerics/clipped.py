"""The root of a sum of clipped lines, which solves every bounded division of cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from walras.numerics.kernel import kernel

if TYPE_CHECKING:
    from walras.numerics.arrays import Floats

MAX_STEPS = 200
"""Newton steps; those that leave the bracket become bisections, of which 200 span every double."""

ROUNDING = 2.0**-50

LARGEST = 1e308
"""Largest point that is tried."""


@kernel
def clipped_root(
    slope: Floats,
    offset: Floats,
    lower: Floats,
    upper: Floats,
    size: int,
    target: float,
    guess: float,
    slack: float,
) -> float:
    """Return a t >= 0 with sum_k clip(slope t - offset, lower, upper) = target.

    Args:
        slope: Slopes of the first ``size`` lines, positive.
        offset: Offsets of the lines, not negative.
        lower: Lower bounds, not negative; their sum is at most ``target``.
        upper: Upper bounds, which may be infinite; their sum is at least ``target``.
        size: Number of lines.
        target: Sum of the clipped lines.
        guess: Start of the search, positive.
        slack: Largest difference of the sum from the target; 0 for a root exact to rounding.

    Returns:
        The root. The sum is increasing and piecewise linear: Newton's method ends one step after it
        has met the right piece, and a bracket keeps it from cycling.
    """
    low, high, growth = 0.0, np.inf, 4.0
    t = guess if 0.0 < guess < np.inf else 1.0
    for _ in range(MAX_STEPS):
        total = 0.0
        steepness = 0.0
        for k in range(size):  # without branches, which would be mispredicted
            line = slope[k] * t - offset[k]
            total += min(max(line, lower[k]), upper[k])
            steepness += slope[k] * (1.0 * (line > lower[k])) * (1.0 * (line < upper[k]))
        missing = target - total
        if abs(missing) <= slack + ROUNDING * (target + steepness * t):
            break
        if missing > 0.0:
            low = t
        else:
            high = t
        t = t + missing / steepness if steepness > 0.0 else -1.0
        if not low < t < high:
            if high == np.inf:
                t = min(growth * low, LARGEST)
                growth *= growth  # the next piece may be hundreds of magnitudes away
            else:
                t = np.sqrt(low) * np.sqrt(high) if low > 0.0 else 0.25 * high
            if not low < t < high:
                break  # the bracket has closed
    return t
