"""Values as scripts read them: plain, with camelCase names."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from pydantic.alias_generators import to_camel


def plain(value: Any) -> dict[str, Any]:
    """Return a value class as a dictionary."""
    return {to_camel(name): number(getattr(value, name)) for name in value.__slots__}


def number(value: Any) -> Any:
    """Return a value as JSON can hold it: no infinities, no more digits than mean something."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(value)
    if isinstance(value, tuple):
        return [number(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.9g}") if abs(value) != float("inf") else None
    return value
