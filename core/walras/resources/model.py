"""The base of all documents: camelCase fields, no unknown ones, no conversions, immutable.

What is wrong with a document is either in one field (``fields.py``), or a rule about several of
them. A rule is told twice, once for the API server and once for Python, in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from walras.resources.fields import Labels, Name  # noqa: TC001 - pydantic reads them

if TYPE_CHECKING:
    from collections.abc import Callable

API_VERSION = "walras.dev/v1alpha1"

UNSTATED = Field(json_schema_extra={"x-unstated": True})
"""Marks a field whose default the API server is not to write into objects, since most have no use
for the field."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one object can show about several of its fields.

    Attributes:
        message: what is wrong where it does not hold, and the way out.
        cel: it for the API server, in its Common Expression Language; about ``self``, and about
            ``oldSelf`` if it is about changes. No function in it is younger than the rules of
            CustomResourceDefinitions themselves (Kubernetes 1.25).
        holds: it in Python; None if it is about changes, which one document cannot show.
    """

    message: str
    cel: str
    holds: Callable[[Any], bool] | None


class Model(BaseModel):
    """A part of a document, and the rules about it."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, populate_by_name=False
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _follow_rules(self) -> Self:
        for rule in self.RULES:
            if rule.holds is not None and not rule.holds(self):
                raise ValueError(rule.message)
        return self


class Metadata(BaseModel):
    """What names an object. Other fields that the API server adds are accepted, not looked at.

    Attributes:
        name: unique among objects of its kind (in its namespace).
        namespace: of objects of kinds that have one.
        labels: for selectors.
        uid: given by the API server; of this object and of no later one of the same name.
        generation: given by the API server; grows whenever the spec changes.
        creation_timestamp: given by the API server; empty without one.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", frozen=True, strict=True, populate_by_name=False
    )

    name: Name
    namespace: Name = "default"
    labels: dict[str, str] = Field(default_factory=dict)
    uid: str = ""
    generation: int = 0
    creation_timestamp: Annotated[str, BeforeValidator(lambda given: str(given or ""))] = ""


class LabelSelector(Model):
    """Selects objects by their labels; empty selects all.

    Attributes:
        match_labels: labels that an object must carry, with these values.
    """

    match_labels: Labels = Field(default_factory=dict)


class Resource(Model):
    """What all kinds have in common. A status, which only the software writes, is not looked at."""

    api_version: Literal["walras.dev/v1alpha1"]
    kind: str
    metadata: Metadata
    status: dict[str, Any] | None = None
