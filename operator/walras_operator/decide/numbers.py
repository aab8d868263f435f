"""Pure: numbers in the form and range that the schemas of statuses accept."""

from __future__ import annotations

import math

from walras_api.status import decimals

LARGEST = 1e30
SMALLEST = 1e-30


def thousandths(cores: float) -> str:
    """Return cores in thousandths as decimal text for a status, such as 2.333."""
    return decimals(round(cores, 3), 12)


def figure(value: float) -> str:
    """Return a number as decimal text for a status, clamped to the range of the schemas.

    Raises:
        ValueError: The value is not a number.
    """
    size = abs(value)
    if size < SMALLEST:
        return "0"
    return decimals(math.copysign(LARGEST, value) if size > LARGEST else value)
