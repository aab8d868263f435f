"""Pure: figures and lists as text, as tables and sentences have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walras.numerics.byte_text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def missing_rights(rights: Sequence[str]) -> str:
    """Return which rights the user lacks, such as ``list nodes``, and the way out."""
    return (
        f"you have no right to {', '.join(rights)}; ask an administrator of the cluster for a role "
        f"with these rights"
    )


def decimal(value: float | None, digits: int = 2) -> str:
    """Return a figure for a table, with a number of decimal places; a dash if it is unknown."""
    return "-" if value is None else f"{value:.{digits}f}"


def own_and_shared(held: float | None) -> str:
    """Return cores that a pod holds: its own, and its part of shared ones, such as 2 + 0.333."""
    if held is None:
        return "-"
    own, thousandths = divmod(round(held * 1000), 1000)
    return " + ".join(f"{each:g}" for each in (own, thousandths / 1000) if each) or "0"


def cores(value: float | None) -> str:
    """Return a number of cores; whole ones without decimals."""
    return "-" if value is None else f"{value:.2f}".removesuffix(".00")


def memory(value: float | None) -> str:
    """Return bytes in words."""
    return "-" if value is None else format_bytes(int(value))
