"""Field types: Python values, with the schema by which the API server checks the same.

Specs hold no floating-point numbers: a decimal is written as a string, an amount of memory as a
Kubernetes quantity. The regular expressions mean the same in Go and in Python.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import core_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

DECIMAL = r"[0-9]{1,12}(\.[0-9]{1,12})?"
UP_TO_ONE = r"0{1,12}(\.[0-9]{1,12})?|0{0,11}1(\.0{1,12})?"
UP_TO_HALF = r"0{1,12}(\.([0-4][0-9]{0,11}|50{0,11}))?"
IN_THOUSANDTHS = r"[0-9]{1,12}(\.[0-9]{1,3}0{0,9})?"
NOT_ZERO = "[1-9]"
QUANTITY = r"([0-9]{1,18}(\.[0-9]{1,9})?)([EPTGMk]|[EPTGMK]i)?"
_NAME_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAME = rf"{_NAME_PART}(\.{_NAME_PART})*"
_LABEL_PART = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
LABEL_KEY = rf"({NAME}/)?{_LABEL_PART}"
_BINARY = {unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_METRIC = {unit: 1000**power for power, unit in enumerate("kMGTPE", 1)}
BYTES_OF_UNIT = {"": 1} | _BINARY | _METRIC

_DAY = (
    "(02-(0[1-9]|[12][0-9])|(04|06|09|11)-(0[1-9]|[12][0-9]|30)|"
    "(01|03|05|07|08|10|12)-(0[1-9]|[12][0-9]|3[01]))"
)
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
TIME = rf"2[0-9]{{3}}-{_DAY}T{_CLOCK}(:[0-5][0-9])?(Z|[+-]{_CLOCK})"
DURATION = "[1-9][0-9]{0,5}[mhd]"

LONGEST_DEADLINE = 25
LONGEST_DECIMAL = 25
LONGEST_QUANTITY = 30
LONGEST_NAME = 253
LONGEST_TEXT = 4096
LONGEST_LABEL = 63
"""Characters of a label's value, and of its key without the prefix."""

MOST_INT32 = 2**31 - 1
MOST_EXACT = 2**53 - 1
"""Largest whole number that every JSON parser reads exactly."""


class WrittenNumber(int):
    """A whole number in a file of YAML, where a decimal may be written without quotes, too."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The decimals that a field takes.

    Attributes:
        example: A decimal that it takes, for messages.
        rule: What they must be.
        holds: Whether a decimal is one of them.
    """

    example: str
    rule: str
    holds: Callable[[Decimal], bool]

    def read(self, value: Any) -> Decimal:
        """Read a decimal; its range is the first thing that is said of one that is not taken.

        Raises:
            ValueError: It is no decimal of these; says what is wrong, and the way out.
        """
        given = f'"{value}"' if isinstance(value, str) else shown(value)
        if isinstance(value, str) and re.fullmatch(DECIMAL, value) is None:
            raise ValueError(
                f'is {value!r}; write a plain decimal number, such as "{self.example}"'
            )
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            message = f'is {given}; write a decimal number in quotes, such as "{self.example}"'
            raise ValueError(message)  # noqa: TRY004 - pydantic reports ValueErrors
        number = Decimal(str(value))
        if not number.is_finite() or number < 0 or not self.holds(number):
            least = "at least 0 and " if number < 0 and self.holds(Decimal(0)) else ""
            raise ValueError(f'is {given}; it must be {least}{self.rule}, such as "{self.example}"')
        if not isinstance(value, str | WrittenNumber):
            message = f'is {given}; write a decimal number in quotes, such as "{value}"'
            raise ValueError(message)  # noqa: TRY004
        return number


_POSITIVE = _Bounds("2.5", "above 0", lambda value: value > 0)
_FRACTION = _Bounds("0.9", "above 0 and at most 1", lambda value: 0 < value <= 1)
_UP_TO_ONE = _Bounds("0.9", "at most 1", lambda value: value <= 1)
_UP_TO_HALF = _Bounds("0.25", "at most 0.5", lambda value: 2 * value <= 1)
_CORES = _Bounds(
    "2.125", "whole thousandths above 0", lambda value: value > 0 and not 1000 * value % 1
)


def read_quantity(value: Any) -> int:
    """Read an amount of memory, in bytes, rounded up to whole bytes as Kubernetes does.

    Raises:
        ValueError: The value is not a quantity of memory.
    """
    match = re.fullmatch(QUANTITY, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"is {shown(value)}; write an amount of memory such as 512Mi or 4Gi")
    scale = BYTES_OF_UNIT[match[3] or ""]
    return int((Decimal(match[1]) * scale).to_integral_value(ROUND_CEILING))


def _deadline(value: Any) -> str:
    # YAML reads a time with seconds as such; kubectl sends it as it was written.
    text = value.isoformat() if isinstance(value, datetime) else value
    if isinstance(value, datetime) and value.tzinfo is None:
        text = f"{text}Z"
    if isinstance(text, str) and re.fullmatch(f"{TIME}|{DURATION}", text):
        return text
    raise ValueError(
        f"is {shown(value)}; write a time with its zone, such as 2026-12-01T18:00Z, or a time from "
        f"the job's creation, such as 90m, 36h or 2d"
    )


def _some(value: int) -> int:
    if value < 1:
        raise ValueError(f"is {value}; it must be at least one byte")
    return value


def _name(value: Any) -> str:
    if isinstance(value, str) and len(value) > LONGEST_NAME:
        raise ValueError(f"is {shown(value)}; a name has at most {LONGEST_NAME} characters")
    if isinstance(value, bool | int):
        raise ValueError(f"is {shown(value)}; {quote_it(value)}")  # noqa: TRY004
    if not isinstance(value, str) or re.fullmatch(NAME, value) is None:
        raise ValueError(
            f"is {shown(value)}; a name has lower-case letters, digits, '-' and '.', "
            f"and begins and ends with a letter or digit"
        )
    return value


def _label_key(value: Any) -> str:
    prefix, slash, name = value.rpartition("/") if isinstance(value, str) else ("", "", "")
    good = len(prefix) <= LONGEST_NAME and len(name) <= LONGEST_LABEL
    if not good or re.fullmatch(LABEL_KEY, prefix + slash + name) is None:
        raise ValueError(f"is {shown(value)}; write the key of a label, such as example.com/pool")
    return prefix + slash + name


def _label_value(value: Any) -> str:
    if (
        not isinstance(value, str)
        or len(value) > LONGEST_LABEL
        or re.fullmatch(_LABEL_PART, value) is None
    ):
        raise ValueError(
            f"is {shown(value)}; the value of a label has at most {LONGEST_LABEL} letters, digits, "
            f"'-', '_' and '.', and begins and ends with a letter or digit"
        )
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        quoted = f'"{value}"' if isinstance(value, str) else shown(value)
        raise ValueError(f"is {quoted}; it must be a whole number")  # noqa: TRY004
    return value


def _at_least_one(value: int) -> int:
    if not 1 <= value <= MOST_INT32:
        raise ValueError(f"is {value}; it must be at least 1" + _at_most(value, MOST_INT32))
    return value


def _not_negative(value: int) -> int:
    if not 0 <= value <= MOST_EXACT:
        raise ValueError(f"is {value}; it must be at least 0" + _at_most(value, MOST_EXACT))
    return value


def _at_most(value: int, most: int) -> str:
    return f" and at most {most}" if value > most else ""


def shown(value: Any) -> str:
    """Return a value for an error message, close to how it was written, in one line."""
    if isinstance(value, str) and (not value or not value.isprintable()):
        text = repr(value)
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def quote_it(value: bool | int | float) -> str:
    """Return what to do with a value that must be a text, and that YAML takes for another type."""
    if isinstance(value, bool):
        return "quote it: YAML takes yes, no, on and off for true and false"
    return f'quote it: write "{value}"'


def as_quantity(value: int) -> str:
    """Return an amount of memory in the largest binary unit in which it is a whole number."""
    for unit, scale in reversed(_BINARY.items()):
        if value and value % scale == 0:
            return f"{value // scale}{unit}"
    return str(value)


def _schema(most: int, *patterns: str) -> WithJsonSchema:
    """Return the schema of a string of at most ``most`` characters that matches all patterns.

    The first pattern matches the whole string, the others a part of it.
    """
    first, *others = patterns
    also = {"allOf": [{"pattern": each} for each in others]} if others else {}
    return WithJsonSchema({"type": "string", "maxLength": most, "pattern": f"^({first})$", **also})


PositiveDecimal = Annotated[
    Decimal,
    BeforeValidator(_POSITIVE.read),
    _schema(LONGEST_DECIMAL, DECIMAL, NOT_ZERO),
]
"""A decimal string above 0."""

Fraction = Annotated[
    Decimal,
    BeforeValidator(_FRACTION.read),
    _schema(LONGEST_DECIMAL, UP_TO_ONE, NOT_ZERO),
]
"""A decimal string in (0, 1]."""

Portion = Annotated[
    Decimal,
    BeforeValidator(_UP_TO_ONE.read),
    _schema(LONGEST_DECIMAL, UP_TO_ONE),
]
"""A decimal string in [0, 1]."""

UpToHalf = Annotated[
    Decimal,
    BeforeValidator(_UP_TO_HALF.read),
    _schema(LONGEST_DECIMAL, UP_TO_HALF),
]
"""A decimal string in [0, 0.5]."""

Cores = Annotated[
    Decimal,
    BeforeValidator(_CORES.read),
    _schema(LONGEST_DECIMAL, IN_THOUSANDTHS, NOT_ZERO),
]
"""A decimal string above 0, in whole thousandths."""

_AS_QUANTITY = PlainSerializer(as_quantity, when_used="json")

Bytes = Annotated[
    int, BeforeValidator(read_quantity), _AS_QUANTITY, _schema(LONGEST_QUANTITY, QUANTITY)
]
"""A quantity of memory, in bytes, rounded up to whole bytes as Kubernetes does."""

PositiveBytes = Annotated[
    int,
    BeforeValidator(read_quantity),
    AfterValidator(_some),
    _AS_QUANTITY,
    _schema(LONGEST_QUANTITY, QUANTITY, NOT_ZERO),
]
"""A quantity of memory of at least one byte, in bytes."""

DeadlineTime = Annotated[
    str, BeforeValidator(_deadline), _schema(LONGEST_DEADLINE, f"{TIME}|{DURATION}")
]
"""A time (RFC 3339; seconds may be left out), or a number of minutes, hours or days."""

Name = Annotated[str, BeforeValidator(_name), _schema(LONGEST_NAME, NAME)]
"""The name of an object (RFC 1123 subdomain)."""

LabelKey = Annotated[
    str,
    BeforeValidator(_label_key),
    _schema(
        LONGEST_NAME + 1 + LONGEST_LABEL,
        LABEL_KEY,
        rf"^([^/]{{1,{LONGEST_NAME}}}/)?[^/]{{1,{LONGEST_LABEL}}}$",
    ),
]
"""The key of a label, with or without a prefix."""

LabelValue = Annotated[str, BeforeValidator(_label_value), _schema(LONGEST_LABEL, _LABEL_PART)]
"""The value of a label, not empty."""

PositiveInt = Annotated[
    int,
    BeforeValidator(_whole),
    AfterValidator(_at_least_one),
    WithJsonSchema({"type": "integer", "format": "int32", "minimum": 1, "maximum": MOST_INT32}),
]
NotNegativeInt = Annotated[
    int,
    BeforeValidator(_whole),
    AfterValidator(_not_negative),
    WithJsonSchema({"type": "integer", "format": "int64", "minimum": 0, "maximum": MOST_EXACT}),
]
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
Labels = Annotated[dict[str, str], Field(max_length=100)]


@dataclass(frozen=True, slots=True)
class Unique:
    """Marks a list without duplicates, which server-side apply merges entry by entry.

    Attributes:
        what: Name of the duplicated entries, for error messages.
        key: Field that identifies an entry; empty if entries are plain values.
    """

    what: str
    key: str = ""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Add the check for duplicates after the entries' own checks."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the list type by which the API server checks for duplicates."""
        keys = {"x-kubernetes-list-map-keys": [self.key]} if self.key else {}
        kind = "map" if self.key else "set"
        return {**handler(schema), "x-kubernetes-list-type": kind, **keys}

    def _check(self, entries: list[Any]) -> list[Any]:
        seen = set()
        for entry in entries:
            value = self._value(entry)
            if value in seen:
                raise ValueError(f"has two {self.what} {value}; keep one of them")
            seen.add(value)
        return entries

    def _value(self, entry: Any) -> Any:
        if not self.key:
            return entry
        fields = type(entry).model_fields.items()
        return next(getattr(entry, name) for name, field in fields if field.alias == self.key)
