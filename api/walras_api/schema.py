"""Structural schemas of models, by which the API server checks documents.

The API server accepts only a part of JSON Schema, "structural schemas": no references, a type for
every field, no alternatives of types. Descriptions come from the models' docstrings.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

Schema = dict[str, Any]

_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def spec_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a spec, with defaults.

    Raises:
        ValueError: A field has no description.
    """
    return _inlined(model.model_json_schema(schema_generator=_OfSpec))


def status_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a status, without defaults.

    Raises:
        ValueError: A field has no description.
    """
    return _inlined(model.model_json_schema(schema_generator=_OfStatus))


def described(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """Return the description of a model, and the descriptions of its fields by Python name.

    The description of the model is the first paragraph of its docstring; later paragraphs are for
    readers of the code.
    """
    text, _, attributes = inspect.cleandoc(model.__doc__ or "").partition("Attributes:\n")
    fields = {name: _prose(words) for name, words in _ATTRIBUTE.findall(attributes)}
    return _prose(text.partition("\n\n")[0]), fields


def _prose(text: str) -> str:
    """Return a text in one line, for ``kubectl explain``."""
    line = " ".join(text.split()).replace("``", "`")
    return line[:1].upper() + line[1:]


class _OfStatus(GenerateJsonSchema):
    """Generates structural schemas, with descriptions and rules."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's name
        """Leave titles out, since they repeat the names."""
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Leave null out, since the API server drops null fields."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave the default out."""
        return self.generate_inner(schema["schema"])

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Describe the model and its fields, and add its rules."""
        made, model = super().model_schema(schema), schema["cls"]
        made.pop("title", None)
        if made.pop("additionalProperties", False):
            made["x-kubernetes-preserve-unknown-fields"] = True
        made["description"], descriptions = described(model)
        for name, field in model.model_fields.items():
            if name not in descriptions:
                raise ValueError(
                    f"{model.__name__}.{name} has no description in the docstring of its class"
                )
            made["properties"][field.alias or name]["description"] = descriptions[name]
        rules = [{"rule": each.cel, "message": each.message} for each in _rules(model)]
        return made | ({"x-kubernetes-validations": rules} if rules else {})


def _rules(model: type[BaseModel]) -> Any:
    return getattr(model, "RULES", ())


class _OfSpec(_OfStatus):
    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Add the default unless it is empty; {} for an object, whose fields have their own."""
        made = GenerateJsonSchema.default_schema(self, schema)
        default = made.get("default")
        if isinstance(default, dict):
            made["default"] = {}
        elif default in (None, "", []):
            made.pop("default", None)
        return made


def _inlined(schema: Mapping[str, Any]) -> Schema:
    """Return a schema with references replaced by the schemas that they refer to."""
    made: Schema = _resolved(schema, schema.get("$defs", {}))
    return made


def _resolved(part: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_resolved(each, definitions) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        part = {**definitions[part["$ref"].rpartition("/")[2]], **part}
    hidden = {"$ref", "$defs", "x-unstated"} | ({"default"} if "x-unstated" in part else set())
    return {key: _resolved(each, definitions) for key, each in part.items() if key not in hidden}
