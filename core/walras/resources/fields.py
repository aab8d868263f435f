"""The types of fields: what the API server would accept, as Python values.

Specs hold no floating-point numbers: a decimal is written as a string, an amount of memory as a
Kubernetes quantity.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
QUANTITY = re.compile(r"(?P<number>[0-9]{1,18}(\.[0-9]{1,9})?)(?P<unit>[EPTGMk]|[EPTGMK]i)?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_BINARY = {unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_METRIC = {unit: 1000**power for power, unit in enumerate("kMGTPE", 1)}


class Model(BaseModel):
    """A part of a document: camelCase fields, no unknown ones, no conversions, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, populate_by_name=False
    )


def _decimal(value: Any) -> Decimal:
    if not isinstance(value, str):
        raise ValueError(f'is {_shown(value)}; write a decimal number in quotes, such as "2.5"')  # noqa: TRY004
    if DECIMAL.fullmatch(value) is None:
        raise ValueError(f'is {value!r}; write a plain decimal number, such as "2.5"')
    return Decimal(value)


def _positive(value: Decimal) -> Decimal:
    if value <= 0:
        raise ValueError(f'is "{value}"; it must be above 0')
    return value


def _fraction(value: Decimal) -> Decimal:
    if not 0 < value <= 1:
        raise ValueError(f'is "{value}"; it must be above 0 and at most 1')
    return value


def _up_to_one(value: Decimal) -> Decimal:
    if value > 1:
        raise ValueError(f'is "{value}"; it must be at most 1')
    return value


def _bytes(value: Any) -> int:
    match = QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"is {_shown(value)}; write an amount of memory such as 512Mi or 4Gi")
    scale = (_BINARY | _METRIC).get(match["unit"], 1)
    return int(Decimal(match["number"]) * scale)


def _some(value: int) -> int:
    if value < 1:
        raise ValueError(f"is {value}; it must be at least one byte")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise ValueError(
            f"is {_shown(value)}; a name has lower-case letters, digits, '-' and '.', "
            f"and begins and ends with a letter or digit"
        )
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"is {_shown(value)}; it must be a whole number")  # noqa: TRY004
    return value


def _at_least_one(value: int) -> int:
    if value < 1:
        raise ValueError(f"is {value}; it must be at least 1")
    return value


def _not_negative(value: int) -> int:
    if value < 0:
        raise ValueError(f"is {value}; it must be at least 0")
    return value


def _shown(value: Any) -> str:
    """Return a value as its author wrote it, near enough."""
    text = (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )
    return text if len(text) <= 40 else text[:37] + "..."


PositiveDecimal = Annotated[Decimal, BeforeValidator(_decimal), AfterValidator(_positive)]
"""A decimal string above 0."""

Fraction = Annotated[Decimal, BeforeValidator(_decimal), AfterValidator(_fraction)]
"""A decimal string in (0, 1]."""

Portion = Annotated[Decimal, BeforeValidator(_decimal), AfterValidator(_up_to_one)]
"""A decimal string in [0, 1]."""

Bytes = Annotated[int, BeforeValidator(_bytes)]
"""A quantity of memory, in bytes."""

PositiveBytes = Annotated[int, BeforeValidator(_bytes), AfterValidator(_some)]
"""A quantity of memory that is not nothing, in bytes."""

Name = Annotated[str, BeforeValidator(_name)]
"""The name of an object (RFC 1123 subdomain)."""

PositiveInt = Annotated[int, BeforeValidator(_whole), AfterValidator(_at_least_one)]
NotNegativeInt = Annotated[int, BeforeValidator(_whole), AfterValidator(_not_negative)]
Text = Annotated[str, Field(min_length=1)]
