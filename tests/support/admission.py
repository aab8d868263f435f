"""A model of how the API server admits a document by its CustomResourceDefinition.

It serves on machines without a cluster, and for versions of Kubernetes that are not available. It
drops nulls and unknown fields, adds defaults, and checks the schema (jsonschema, with Go's regular
expressions by RE2), the keys of lists, and then the rules (cel-python).
tests/crds/test_on_api_server.py sends the same documents to a real server.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import celpy
import re2
import yaml
from celpy.adapter import json_to_cel
from celpy.celtypes import StringType
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators

if TYPE_CHECKING:
    from collections.abc import Iterator

    Schema = dict[str, Any]

CRDS = Path(__file__).parents[2] / "crds"


def read_definitions() -> dict[str, Schema]:
    """Return the committed CustomResourceDefinitions by kind."""
    made = [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]
    return {each["spec"]["names"]["kind"]: each for each in made}


def schema_of(definition: Schema) -> Schema:
    """Return the schema of a kind's documents."""
    schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@dataclass
class Answer:
    """The API server's answer: the object that would be stored, and reasons to refuse it."""

    stored: Any
    problems: list[str] = field(default_factory=list)


def admit(document: Schema, schema: Schema, before: Schema | None = None) -> Answer:
    """Answer a request to create a document, or to replace ``before`` with it."""
    answer = Answer(stated(pruned(copy.deepcopy(document), schema), schema))
    checker = _Structural(schema, format_checker=FormatChecker(["ipv4", "ipv6"]))
    answer.problems += [f"{each.json_path}: {each.message}" for each in _errors(checker, answer)]
    if not answer.problems:  # rules of documents of the wrong shape are not tried
        answer.problems += broken(answer.stored, schema, before)
    return answer


def _errors(checker: Any, answer: Answer) -> Iterator[ValidationError]:
    yield from checker.iter_errors(answer.stored)


def pruned(value: Any, schema: Schema) -> Any:
    """Return a value without nulls and unknown fields."""
    if isinstance(value, list) and "items" in schema:
        return [pruned(each, schema["items"]) for each in value]
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if "additionalProperties" in schema or "properties" not in schema:
        return value
    known = schema["properties"]
    return {
        key: pruned(each, known[key])
        for key, each in value.items()
        if key in known and each is not None
    }


def stated(value: Any, schema: Schema) -> Any:
    """Return a value with defaults for the fields that it leaves out."""
    if isinstance(value, list):
        return [stated(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    left_out = {
        key: copy.deepcopy(each["default"])
        for key, each in known.items()
        if "default" in each and key not in value
    }
    return {key: stated(each, known.get(key, {})) for key, each in {**value, **left_out}.items()}


def _matches(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and re2.search(pattern, value) is None:
        yield ValidationError(f"{value!r} should match {pattern}")


def _keyed(_: Any, kind: str, value: Any, schema: Schema) -> Iterator[ValidationError]:
    if kind == "atomic" or not isinstance(value, list):
        return
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if kind == "map" and not all(isinstance(each, dict) for each in value):
        return
    marks = [str([each.get(key) for key in keys] if kind == "map" else each) for each in value]
    if len(marks) != len(set(marks)):
        yield ValidationError("has a duplicate value")


def _required(_: Any, names: list[str], value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for name in names:
            if name not in value:
                yield ValidationError("is required", path=[name])


_Structural = validators.extend(
    Draft202012Validator,
    {"pattern": _matches, "required": _required, "x-kubernetes-list-type": _keyed},
)


def broken(value: Any, schema: Schema, before: Any = None, path: str = "$") -> list[str]:
    """Return the messages of all rules that do not hold for a value and the values in it."""
    problems = []
    for rule in schema.get("x-kubernetes-validations", ()):
        about_change = "oldSelf" in rule["rule"]
        if (before is not None or not about_change) and not holds(rule["rule"], value, before):
            problems.append(f"{path}: {rule['message']}")
    if isinstance(value, dict):
        for key, part in schema.get("properties", {}).items():
            if key in value:
                then = before.get(key) if isinstance(before, dict) else None
                problems += broken(value[key], part, then, f"{path}.{key}")
    if isinstance(value, list):
        for number, each in enumerate(value):
            problems += broken(each, schema.get("items", {}), None, f"{path}[{number}]")
    return problems


def holds(rule: str, value: Any, before: Any = None) -> bool:
    """Return whether a rule holds for a value, which replaces ``before`` if there is one."""
    names = {"self": json_to_cel(value), "oldSelf": json_to_cel(before)}
    return bool(_program(rule).evaluate(names))


def _find(text: str, pattern: str) -> StringType:
    """Return the first match of a regular expression, or nothing, as Kubernetes's ``find``."""
    found = re2.search(str(pattern), str(text))
    return StringType(found[0] if found else "")


@cache
def _program(rule: str) -> Any:
    return _CEL.program(_CEL.compile(rule), functions={"find": _find})


_CEL = celpy.Environment()
