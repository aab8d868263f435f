"""A status of every kind in which every field is set, made of what the models say of it."""

from __future__ import annotations

from itertools import count
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from walras_api.entitlement import EntitlementStatus
from walras_api.market_job_status import MarketJobStatus
from walras_api.market_status import MarketStatus
from walras_api.node_allocation_status import NodeAllocationStatus
from walras_api.speedup_profile_status import SpeedupProfileStatus
from walras_api.status import Status

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

NOW = "2026-01-31T12:00:00Z"
Kind = TypeVar("Kind", bound=Status)
_numbers = count(1)


def filled(model: type[Kind]) -> Kind:
    """Return a status of which every field is set, and every list has one entry."""
    fields = model.model_fields.items()
    return model(**{name: _of_field(each) for name, each in fields})


def _of_field(field: FieldInfo) -> Any:
    return NOW if _is_time(field) else _value(field.annotation, field.metadata)


def _value(kind: Any, rules: list[Any]) -> Any:
    """Return a value of a type that also keeps rules, those of its field."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _value(parts[0], [*parts[1:], *rules])
    if origin in {Union, UnionType}:
        return _value(next(each for each in parts if each is not NoneType), rules)
    if origin is Literal:
        return parts[0]
    if origin is list:
        return [_value(parts[0], [])]
    if isinstance(kind, type) and issubclass(kind, Status):
        return filled(kind)
    return _fitting(kind, rules)


def _fitting(kind: Any, rules: list[Any]) -> Any:
    if any(_is_time(each) for each in rules):
        return NOW
    checked: TypeAdapter[Any] = TypeAdapter(Annotated[(kind, *rules)] if rules else kind)
    number = next(_numbers)  # another one for each field, so that none is taken for another
    texts = (f"{number}.5", f"{number}", f"0-{number}", "Ready")
    candidates: tuple[Any, ...] = {str: texts, int: (number,), bool: (True,)}[kind]
    for each in candidates:
        try:
            return checked.validate_python(each, strict=True)
        except ValidationError:
            continue
    raise LookupError(f"none of {candidates} is a {kind} that keeps {rules}")


def _is_time(rule: Any) -> bool:
    return "date-time" in str(getattr(rule, "json_schema_extra", None))


MARKET, MARKET_JOB = filled(MarketStatus), filled(MarketJobStatus)

FULL: dict[str, Status] = {
    "Entitlement": filled(EntitlementStatus),
    "MarketJob": MARKET_JOB,
    "SpeedupProfile": filled(SpeedupProfileStatus),
    "Market": MARKET,
    "NodeAllocation": filled(NodeAllocationStatus),
}
