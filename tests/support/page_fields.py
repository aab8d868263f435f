"""Fields that a command prints for scripts, compared with those that a page of docs/ describes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
BY_USER = {"lent", "borrowed"}
"""Fields whose keys are users' names."""


def untold(value: Any, page: str) -> set[str]:
    """Return the names of a value's fields that are not in the page's section for scripts."""
    section = (DOCS / page).read_text().partition("## For scripts")[2]
    assert section
    named = re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", section)))
    return set(_fields(value)) - set(named)


def _fields(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            if name not in BY_USER:
                yield from _fields(each)
    elif isinstance(value, list):
        for each in value:
            yield from _fields(each)
