"""The form of objects of Kubernetes: camelCase fields, of which some are read, and quantities."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

QUANTITY = re.compile(
    r"(?P<number>[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))(?P<unit>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
)
_UNITS = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: Decimal(1000) ** -power for power, unit in enumerate("mun", 1)},
}


MOST_UNITS = 1 << 60
"""Bound on the units of a resource."""

_MILLI = 1000


def quantity(value: Any) -> Decimal:
    """Read a Kubernetes quantity such as "3920m", "16Gi", "4" or 2e3, exactly.

    Raises:
        ValueError: The value is not a quantity.
    """
    text = str(value)
    match = QUANTITY.fullmatch(text) if not isinstance(value, bool) else None
    if match is None or len(text) > 40:
        raise ValueError(f"is {text[:40]!r}; write a quantity such as 500m, 4 or 16Gi")
    unit = match["unit"] or ""
    if unit[:1] in {"e", "E"} and len(unit) > 1 and unit != "Ei":
        return Decimal(text)
    return Decimal(match["number"]) * _UNITS.get(unit, Decimal(1))


def whole_units(resource: str, amount: Decimal, rounding: str = ROUND_CEILING) -> int:
    """Return an amount of a resource in whole units; CPUs in thousandths."""
    scaled = amount * _MILLI if resource == "cpu" else amount
    return min(int(scaled.to_integral_value(rounding)), MOST_UNITS)


def without_nulls(given: Any) -> Any:
    """Return fields without those that are null, which the API server takes for absent."""
    if isinstance(given, dict) and None in given.values():
        return {key: value for key, value in given.items() if value is not None}
    return given


Quantities = Annotated[
    dict[str, Annotated[Decimal, BeforeValidator(quantity)]], BeforeValidator(without_nulls)
]
"""Amounts by resource."""


class ApiObject(BaseModel):
    """A part of an object of the API server, with camelCase fields; unknown fields are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", frozen=True, populate_by_name=False
    )

    _drop_nulls = model_validator(mode="before")(without_nulls)

    def model_post_init(self, _: Any) -> None:
        """Drop the set of given fields, which nobody reads and takes a third of the memory."""
        object.__setattr__(self, "__pydantic_fields_set__", _NOT_KEPT)

    def __copy__(self) -> Self:
        """Copy the fields only: cached properties may have other values once a field is changed."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


_NOT_KEPT: set[str] = set()
