"""Limit on the size of a market that a mechanism lays out as a matrix, and the error beyond it."""

from __future__ import annotations

LARGEST_MATRIX = 20_000_000
"""Cells of one matrix, such as users times servers: 160 MB of floating-point numbers."""


class PricingError(ValueError):
    """A market that a mechanism cannot take; the message names mechanisms that can."""
