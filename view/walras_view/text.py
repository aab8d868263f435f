"""Pure: figures and lists as text, as tables and sentences have them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from walras.numerics.byte_text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence


def natural(name: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """Return what sorts names as people count: node-2 before node-10."""
    parts = re.split(r"([0-9]+)", name)
    # Every other part is a number, so that parts of one place are of one type.
    texts, numbers = parts[::2], [int(part) for part in parts[1::2]]
    return tuple(zip(texts, [*numbers, -1], strict=True)), name


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def unknown(names: Iterable[str], known: Collection[str]) -> str:
    """Return the names that are none of those known, with what may have been meant; or nothing."""
    told = []
    for name in sorted(set(names) - set(known)):
        close = get_close_matches(name, known, n=1)
        told.append(f"{name} (did you mean {close[0]}?)" if close else name)
    return listed(told)


def missing_rights(rights: Sequence[str]) -> str:
    """Return which rights the user lacks, such as ``list nodes``, and the way out."""
    return (
        f"you have no right to {', '.join(rights)}; ask an administrator of the cluster for a role "
        f"with these rights"
    )


def decimal(value: float | None, digits: int = 2) -> str:
    """Return a figure for a table, with a number of decimal places; a dash if it is unknown."""
    return "-" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def thousandths(held: float | None) -> str:
    """Return cores that a pod holds, to the thousandth."""
    return "-" if held is None else decimal(held, 3).rstrip("0").rstrip(".")


def cores(value: float | None) -> str:
    """Return a number of cores; whole ones without decimals."""
    return decimal(value).removesuffix(".00")


def used(
    value: float | None, beyond: float | None, form: Callable[[float | None], str] = decimal
) -> str:
    """Return cores that are used: up to what is held and, if there are any, beyond: 2.00 + 0.50.

    Args:
        value: All of them.
        beyond: Those beyond what is held.
        form: Writes a number of cores.
    """
    if value is None or beyond is None or round(beyond, 2) == 0:
        return form(value)
    return f"{form(value - beyond)} + {form(beyond)}"


def memory(value: float | None) -> str:
    """Return bytes in words."""
    return "-" if value is None else format_bytes(int(value))
