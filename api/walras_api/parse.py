"""Parse plain documents to resources, or to one line for each problem."""

from __future__ import annotations

import json
import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from walras_api.contract import API_VERSION, GROUP
from walras_api.fields import quote_it, shown
from walras_api.node_allocation import NodeAllocation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from walras_api.cluster import ClusterObject
    from walras_api.kinds import AnyResource

_LONGEST_SHOWN = 200

_OF_PROGRAMS = frozenset({"NodeAllocation", "LocalRun"})
"""Kinds of our own that programs write, and users do not."""


Place = tuple[int | str, ...]


class ResourceError(ValueError):
    """An invalid document.

    Attributes:
        problems: One line for each problem: object, field, what is wrong, and the way out.
        places: Where in the document each is, as keys and numbers of entries from the outside in;
            empty if it is about the document as a whole.
    """

    def __init__(self, problems: Sequence[str], places: Sequence[Place] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.places = tuple(places) or ((),) * len(self.problems)


def parse_resource(document: object) -> AnyResource:
    """Parse a document, as read from YAML or JSON, to a resource.

    Raises:
        ResourceError: The document is invalid; has all its problems.
    """
    from walras_api.kinds import KINDS  # the models of all kinds, which an agent can do without

    if not isinstance(document, dict):
        raise ResourceError(["is not an object; a document begins with apiVersion and kind"])
    kind = document.get("kind")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise ResourceError([f"{describe(document)}: kind: {_other_kind(kind, KINDS)}"])
    if document.get("apiVersion") != API_VERSION:
        given = document.get("apiVersion", "missing")
        raise ResourceError([f"{describe(document)}: apiVersion: is {given}; write {API_VERSION}"])
    return _validated(document, model)


def _other_kind(kind: object, known: Collection[str]) -> str:
    """Return what is wrong with a kind that is none of those known, and which was meant."""
    if kind is None:
        others = "Node, Pod and Namespace"
        return f"is missing; write the kind: {', '.join(known)}, or of Kubernetes {others}"
    close = get_close_matches(str(kind), known, n=1)
    meant = f"did you mean {close[0]}?" if close else f"use one of {', '.join(known)}"
    return f"is {kind}; {meant}"


def parse_object(document: object) -> AnyResource | ClusterObject | None:
    """Parse a document of a cluster to an object; None for kinds that Walras does not use.

    Raises:
        ResourceError: The document is invalid; has all its problems.
    """
    from walras_api.cluster import CLUSTER_KINDS, group_of

    if isinstance(document, dict):
        version, kind = document.get("apiVersion"), document.get("kind")
        if isinstance(version, str) and isinstance(kind, str):
            if (version, kind) in CLUSTER_KINDS:
                return _validated(document, CLUSTER_KINDS[version, kind])
            if group_of(version) != GROUP or kind in _OF_PROGRAMS:
                return None
    return parse_resource(document)


def parse_allocation(
    document: object, unknown: Literal["forbid", "ignore"] = "forbid"
) -> NodeAllocation:
    """Parse a document to a NodeAllocation.

    Args:
        document: The document.
        unknown: What to do with fields that this version does not know: an operator or an agent
            may be newer than the other one.

    Raises:
        ResourceError: The document is invalid; has all its problems.
    """
    if not isinstance(document, dict):
        raise ResourceError(["is not an object; a document begins with apiVersion and kind"])
    for field, wanted in (("kind", "NodeAllocation"), ("apiVersion", API_VERSION)):
        if document.get(field) != wanted:
            given = document.get(field, "missing")
            raise ResourceError([f"{describe(document)}: {field}: is {given}; write {wanted}"])
    return _validated(document, NodeAllocation, unknown)


Parsed = TypeVar("Parsed", bound=BaseModel)


def _validated(
    document: Mapping[str, Any],
    model: type[Parsed],
    unknown: Literal["forbid", "ignore"] | None = None,
) -> Parsed:
    try:
        return model.model_validate(document, extra=unknown)
    except ValidationError as error:
        label = describe(document)
        problems = [f"{label}: {_problem(each, model)}" for each in error.errors()]
        raise ResourceError(problems, [each["loc"] for each in error.errors()]) from None


def describe(document: Mapping[str, Any]) -> str:
    """Return an object's kind and name for a message, as far as the document has them."""
    from walras_api.kinds import NAMESPACED

    kind = document.get("kind") or "object"
    if not isinstance(kind, str):
        return "object whose kind is not a text"
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return f"{kind} without a name"
    if kind in NAMESPACED:
        return f"{kind} {metadata.get('namespace', 'default')}/{metadata['name']}"
    return f"{kind} {metadata['name']}"


def _problem(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Return one line for one error: field, what is wrong, way out."""
    path = _path(error["loc"])
    if error["type"] == "missing":
        return f"{path}: is missing; add it"
    if error["type"] == "extra_forbidden":
        return f"{path}: is not a known field; {_hint(error['loc'], model)}"
    if error["type"] == "value_error":
        return f"{path or 'it'}: {error['msg'].removeprefix('Value error, ')}"
    if error["type"] == "literal_error":
        return f"{path}: is {shown(error['input'])}; use one of {_choices(error)}"
    if error["type"] in {"too_short", "string_too_short"}:
        return f"{path}: is empty; give at least one entry"
    if error["type"] in {"too_long", "string_too_long"}:
        most = error.get("ctx", {}).get("max_length")
        what = "characters" if error["type"] == "string_too_long" else "entries"
        return f"{path}: has more than {most} {what}; leave some out"
    if error["type"] == "string_pattern_mismatch":
        pattern = error.get("ctx", {}).get("pattern")
        return f"{path}: is {error['input']!r}; it must match {pattern}"
    if error["type"] == "less_than_equal":
        return f"{path}: is {error['input']}; it must be at most {error.get('ctx', {}).get('le')}"
    return f"{path}: is {shown(error['input'])}; {_right_type(error, model)}"


def _right_type(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Return what to write in place of a value of another type."""
    given, kind = error["input"], error["type"]
    fields = _fields_at(error["loc"], model)
    if kind == "string_type" and isinstance(given, bool | int | float):
        return quote_it(given)
    if kind == "list_type" and isinstance(given, str):
        return f"write a list, such as {json.dumps(_words(given))}"
    if kind == "list_type" and isinstance(given, dict):
        return f"write a list, such as [{', '.join(map(_entry, given.items()))}]"
    if kind in {"model_type", "dict_type"}:
        if isinstance(given, str) and "=" in given and "value" in fields:
            return f"write {_entry(given.split('=', 1))}"
        return (
            f"write an object, whose fields are {', '.join(fields)}"
            if fields
            else "write an object"
        )
    if kind == "bool_type":
        return "write true or false, without quotes"
    wanted = error["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return f"it must be a valid {wanted}"


def _entry(pair: Sequence[Any]) -> str:
    """Return a name and a value as an entry of a list."""
    name, value = pair
    return f"{{name: {name}, value: {json.dumps(value if isinstance(value, str) else str(value))}}}"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text[:_LONGEST_SHOWN]) or [text]
    except ValueError:  # a quotation mark without its partner
        return text[:_LONGEST_SHOWN].split()


def _choices(error: ErrorDetails) -> str:
    expected = str(error.get("ctx", {}).get("expected", ""))
    return expected.replace("'", "").replace(" or ", ", ")


def _path(location: tuple[int | str, ...]) -> str:
    """Return a location as people write it: spec.env[0].name."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier() and not part.startswith("literal"):
            text += f".{part}" if text else part
    return text


def _hint(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    fields = _fields_at(location[:-1], model)
    close = get_close_matches(str(location[-1]), fields, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"delete it; known here: {', '.join(fields)}"


def _fields_at(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """Return the names of the fields that the model has at a location."""
    current: type[BaseModel] = model
    for part in location:
        for field in current.model_fields.values():
            if field.alias == part:
                current = _model_in(field.annotation) or current
    return [field.alias or name for name, field in current.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as ``list[Model] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        model = _model_in(part)
        if model is not None:
            return model
    return None
