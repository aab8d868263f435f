"""Pure: values as JSON and YAML can hold them, for scripts and for the page."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel


class Shown:
    """A dataclass that the page gets as ``-o json`` prints it: its fields, in camelCase.

    Properties that are marked `pydantic.computed_field` are for the page alone.
    """

    __slots__ = ()
    __pydantic_config__ = ConfigDict(
        alias_generator=to_camel, json_schema_serialization_defaults_required=True
    )


def values(value: Any) -> dict[str, Any]:
    """Return the values of a dataclass or a named tuple by field."""
    names = getattr(value, "_fields", None) or [each.name for each in fields(value)]
    return {name: getattr(value, name) for name in names}


def plain(value: Any) -> dict[str, Any]:
    """Return a dataclass or a named tuple as a dictionary, by names of the API."""
    return {to_camel(name): number(each) for name, each in values(value).items()}


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
