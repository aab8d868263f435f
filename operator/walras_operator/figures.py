"""Numbers as statuses have them: within what the schemas take."""

from __future__ import annotations

from functools import lru_cache

from walras.resources.status import decimals

LARGEST = 1e30
SMALLEST = 1e-30


@lru_cache(maxsize=1 << 17)  # in a large cluster most are as in the last decision
def figure(value: float) -> str:
    """Return a number as a status has it; what is beyond its digits, as the nearest that is not.

    Raises:
        ValueError: it is no number.
    """
    if abs(value) < SMALLEST:
        return "0"
    return decimals(min(max(value, -LARGEST), LARGEST))
