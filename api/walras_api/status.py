"""Base classes and field types of all statuses.

Like specs, statuses hold no floating-point numbers: a decimal is a string. Their size is bounded,
since the API server stores at most 1.5 MB per object: a list that grows with the cluster is
truncated, and a number beside it counts the entries that were left out.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from walras_api.fields import Unique

DIGITS = 6
"""Significant digits of a computed decimal; finer changes are not worth a write."""

Decimals = Annotated[str, Field(pattern=r"^-?[0-9]{1,40}(\.[0-9]{1,40})?$")]
"""A decimal number as text, without an exponent."""

Amount = Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
"""Bytes, as text."""

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in RFC 3339 format, such as ``2026-01-31T12:00:00Z``."""


def at_most(number: int) -> Any:
    """Return the field of a list that is empty by default and has at most so many entries."""
    return Field(default_factory=list, max_length=number)


class Status(BaseModel):
    """A part of a status, built by Walras from Python field names."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    def document(self) -> dict[str, Any]:
        """Return the document for the API server, without unset fields and empty strings."""
        text = self.model_dump_json(by_alias=True, exclude_none=True)
        made: dict[str, Any] = json.loads(text)
        return _without_empty_texts(made) if '""' in text else made

    @classmethod
    def read(cls, document: object) -> Self:
        """Return the status in a document of the API server; unknown fields are ignored.

        Raises:
            ValidationError: The document is not a valid status.
        """
        return cls.model_validate(document, extra="ignore")


class Condition(Status):
    """A condition, as Kubernetes defines it.

    Attributes:
        type: Aspect of the object that the condition describes; ``Ready`` summarizes the others.
        status: Whether the condition holds: True, False or Unknown.
        reason: Machine-readable reason for the status, in one CamelCase word.
        message: Explanation for people: which object, what is wrong, and what to do about it.
        last_transition_time: Time at which ``status`` last changed (RFC 3339).
        observed_generation: Generation of the object that this condition was computed from.
    """

    type: Annotated[str, Field(pattern=r"^[A-Za-z]{1,63}$")]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(pattern=r"^[A-Za-z]{1,63}$")]
    message: Annotated[str, Field(max_length=32768)]
    last_transition_time: Time
    observed_generation: int | None = None


class ConditionedStatus(Status):
    """A status with conditions, at most one of each type."""

    conditions: Annotated[
        list[Condition], Field(max_length=16), Unique("conditions of type", key="type")
    ] = Field(default_factory=list)


class WaitingWorkloads(Status):
    """Workloads that wait in Kueue to be admitted.

    Attributes:
        workloads: Number of Workloads.
        cpus: CPUs that they request.
    """

    workloads: int
    cpus: Decimals


def _without_empty_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_empty_texts(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_empty_texts(each) for key, each in value.items() if each != ""}


def decimals(value: float, digits: int = DIGITS) -> str:
    """Return a number as text, without an exponent or trailing zeros.

    Raises:
        ValueError: The number is infinite or NaN.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is not finite: leave the field out")
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = format(Decimal(text), "f")
    return "0" if text == "-0" else text
