"""Amounts of memory as text."""

from __future__ import annotations


def format_bytes(amount: int) -> str:
    """Return bytes as text, rounded to a tenth of the largest binary unit, such as 1.5Gi."""
    for unit, power in (("Gi", 3), ("Mi", 2), ("Ki", 1)):
        if amount >= 1024**power:
            return f"{amount / 1024**power:.1f}".removesuffix(".0") + unit
    return f"{amount} B"
