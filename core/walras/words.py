"""Amounts as people read them (pure)."""

from __future__ import annotations


def in_words(amount: int) -> str:
    """Return bytes for people, as 1.5Gi."""
    for unit, power in (("Gi", 3), ("Mi", 2), ("Ki", 1)):
        if amount >= 1024**power:
            return f"{amount / 1024**power:.1f}".removesuffix(".0") + unit
    return f"{amount} B"
