"""Pure: values as JSON and YAML can hold them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from pydantic.alias_generators import to_camel


def plain(value: Any) -> dict[str, Any]:
    """Return a dataclass with slots, or a named tuple, as a dictionary."""
    names = getattr(value, "_fields", None) or [each.name for each in fields(value)]
    return {to_camel(name): number(getattr(value, name)) for name in names}


def number(value: Any) -> Any:
    """Return a value as JSON and YAML can hold it: no infinities, no needless digits, no enums."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(value)
    if isinstance(value, tuple):
        return [number(each) for each in value]
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, float):
        return float(f"{value:.9g}") if abs(value) != float("inf") else None
    return value
