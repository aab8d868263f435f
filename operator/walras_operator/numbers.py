"""Pure: numbers in the form and range that the schemas of statuses accept."""

from __future__ import annotations

from functools import lru_cache

from walras.resources.status import decimals

LARGEST = 1e30
SMALLEST = 1e-30


@lru_cache(maxsize=1 << 17)  # in a large cluster most are as in the last decision
def figure(value: float) -> str:
    """Return a number as decimal text for a status, clamped to the range of the schemas.

    Raises:
        ValueError: The value is not a number.
    """
    if abs(value) < SMALLEST:
        return "0"
    return decimals(min(max(value, -LARGEST), LARGEST))
