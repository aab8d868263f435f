"""The largest objects that an API server accepts, made by the definitions of their kinds."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from kind_documents import VALID
from walras_api.definitions import DEFINITIONS, definition_document

Document = dict[str, Any]

REQUEST = 3 << 19
"""Bytes of an object that etcd takes (1.5 MiB)."""


@cache
def schema(kind: str) -> Document:
    (found,) = (each for each in DEFINITIONS if each.kind == kind)
    version = definition_document(found)["spec"]["versions"][0]
    return dict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])


def filled(part: Document, room: int) -> Any:
    """Return the largest value that a schema allows, of some ``room`` bytes at most."""
    match part.get("type"):
        case "object":
            return fields_of(part, room)
        case "array":
            entry = filled(part["items"], room)
            size = len(json.dumps(entry)) + 2
            return [different(entry, n) for n in range(min(part["maxItems"], room // size))]
        case "string":
            return text_of(part, room)
        case "integer":
            return part.get("maximum", 1)
        case kind:
            return kind == "boolean"


def fields_of(part: Document, room: int) -> Document:
    if "additionalProperties" in part:
        most = min(part.get("maxProperties", 10**6), room // 80)
        return {f"key-{number:05}": "v" * 63 for number in range(most)}
    return {name: filled(each, room // 8) for name, each in part.get("properties", {}).items()}


def text_of(part: Document, room: int) -> str:
    for text in ("0.123456789012", "1", "1Gi", "36h", "name", "/path", "Kind", "100%"):
        if matches(text, part):
            whole = part.get("maxLength", room)
            return text if "pattern" in part or "enum" in part else "t" * min(whole, room)
    return str(part.get("enum", ["a"])[0])


def matches(text: str, part: Document) -> bool:
    patterns = [part.get("pattern", ""), *(each["pattern"] for each in part.get("allOf", ()))]
    return all(re.search(each, text) for each in patterns) and text in part.get("enum", [text])


def different(entry: Any, number: int) -> Any:
    """Return an entry that differs from others where a list has no duplicates."""
    if isinstance(entry, dict):
        keys = [key for key in ("name", "profile") if key in entry]
        return {**entry, **{key: f"{key}-{number}" for key in keys}}
    return f"{entry}-{number}" if entry == "name" else entry


KINDS = ("Entitlement", "MarketJob", "SpeedupProfile")
"""Kinds of Walras that users write."""

FIELDS = [(kind, name) for kind in KINDS for name in schema(kind)["properties"]]


def largest(kind: str, field: str) -> Document:
    """Return an object in which a field is as large as it may be."""
    document = next(each for each in VALID if each["kind"] == kind)
    spec = {**document["spec"], field: filled(schema(kind)["properties"][field], REQUEST)}
    return {**document, "metadata": {**document["metadata"]}, "spec": spec}
