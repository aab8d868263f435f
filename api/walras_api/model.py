"""Base classes of all documents: camelCase fields, no unknown fields, no conversions, immutable.

A document is checked field by field (``fields.py``) and by rules over several fields. A rule is
stated twice side by side: for the API server and for Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from walras_api.api_object import without_nulls
from walras_api.contract import MANAGED_BY_LABEL, OPERATOR, ApiVersion
from walras_api.fields import Labels, Name  # noqa: TC001 - pydantic reads them

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_NOT_STORED = Field(json_schema_extra={"x-unstated": True})
"""Marks a field whose default the API server does not write into objects, since most objects do not
use the field."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation rule over several fields of one object.

    Attributes:
        message: Error message for an object that breaks the rule, with the correction.
        cel: The rule for the API server, in the Common Expression Language, over ``self`` and, if
            it is about updates, ``oldSelf``.
        holds: The rule as a Python predicate of the model; None for a rule about updates, which a
            single document cannot violate.
    """

    message: str
    cel: str
    holds: Callable[[Any], bool] | None


class Model(BaseModel):
    """A part of a document, together with its validation rules."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, populate_by_name=False
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()

    _drop_nulls = model_validator(mode="before")(without_nulls)

    @model_validator(mode="after")
    def _follow_rules(self) -> Self:
        for rule in self.RULES:
            if rule.holds is not None and not rule.holds(self):
                raise ValueError(rule.message)
        return self


MOST_ENTRIES = 256
"""Labels, or owners, that are kept of an object; selectors see no others."""


def bounded(given: Any) -> Any:
    """Keep the first labels or owners of an object, of which a user can make a megabyte."""
    given = without_nulls(given)
    if isinstance(given, dict) and len(given) > MOST_ENTRIES:
        return {key: given[key] for key in sorted(given, key=str)[:MOST_ENTRIES]}
    return given[:MOST_ENTRIES] if isinstance(given, list) else given


class Metadata(BaseModel):
    """Identity of an object. Other fields that the API server sets are accepted and ignored.

    Attributes:
        name: Name of the object, unique among objects of its kind (in its namespace).
        namespace: Namespace of the object, if its kind is namespaced.
        labels: Labels that selectors match.
        uid: Identifier that the API server assigns, never reused by a later object of the same
            name.
        generation: Number that the API server increases whenever the spec changes.
        creation_timestamp: Creation time that the API server sets; empty in a document that was
            never applied.
        deletion_timestamp: Time at which somebody asked to delete it, which waits for its
            finalizers; empty if nobody has.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", frozen=True, strict=True, populate_by_name=False
    )

    _drop_nulls = model_validator(mode="before")(without_nulls)

    name: Name
    namespace: Name = "default"
    labels: Annotated[dict[str, str], BeforeValidator(bounded)] = Field(default_factory=dict)
    uid: str = ""
    generation: int = 0
    creation_timestamp: Annotated[str, BeforeValidator(lambda given: str(given or ""))] = ""
    deletion_timestamp: Annotated[str, BeforeValidator(lambda given: str(given or ""))] = ""


class LabelSelector(Model):
    """A selector of objects by label; an empty selector matches all objects.

    Attributes:
        match_labels: Labels that an object must carry, with these values.
    """

    match_labels: Labels = Field(default_factory=dict)


class Resource(Model):
    """Fields that all kinds share. A status, which only Walras writes, is not validated."""

    api_version: ApiVersion
    kind: str
    metadata: Metadata
    status: dict[str, Any] | None = None

    @property
    def is_automatic(self) -> bool:
        """Whether the operator made it: for a labelled workload, or to follow a quota."""
        return self.metadata.labels.get(MANAGED_BY_LABEL) == OPERATOR
