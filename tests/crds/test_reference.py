"""docs/reference.md has all fields of the definitions, their choices and defaults, and no others.

A field has a row of its own, or is named in the meaning of the row of an object that it is part of.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from admission import read_definitions, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
NAMES = re.compile(r"`([^`]+)`")

DEFINITIONS = read_definitions()
PARTS = [(kind, part) for kind in DEFINITIONS for part in ("spec", "status")]


class Row(NamedTuple):
    """A row of a table of fields.

    Attributes:
        fields: Paths of the fields that the row describes.
        meaning: Meaning of the fields.
        default: Default of the fields; empty in a status.
    """

    fields: list[str]
    meaning: str
    default: str


def rows(kind: str, part: str) -> list[Row]:
    """Return what the page says of a kind's spec or status."""
    head = rf"^\| field of {part} \|.*\n\|[-| ]+\n"
    table = re.search(head + r"((?:\|.*\n?)+)", SECTIONS[kind], re.MULTILINE)
    assert table is not None
    found = []
    for line in table[1].splitlines():
        first, meaning, *default = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        found.append(
            Row(
                [named.replace("[]", "") for named in NAMES.findall(first)],
                meaning,
                "".join(default),
            )
        )
    return found


def fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield all fields below a schema, by path; entries of a list are at the list's own."""
    for name, each in schema.get("properties", {}).items():
        inner = each.get("items", each)
        yield f"{path}{name}", each | inner
        yield from fields(inner, f"{path}{name}.")


def known(kind: str, part: str) -> dict[str, Schema]:
    """Return the fields of a kind's spec or status, without those of conditions."""
    below = schema_of(DEFINITIONS[kind])["properties"][part]
    return {path: each for path, each in fields(below) if not path.startswith("conditions.")}


def row_of(path: str, table: list[Row]) -> Row | None:
    """Return the row about a field: its own, or that of the nearest object that contains it."""
    while path:
        for row in table:
            if path in row.fields:
                return row
        path = path.rpartition(".")[0]
    return None


def is_said(path: str, table: list[Row]) -> bool:
    row = row_of(path, table)
    if row is None:
        return any(each.startswith(f"{path}.") for row in table for each in row.fields)
    if path in row.fields:
        return True
    (own, *_) = [each for each in row.fields if path.startswith(f"{each}.")]
    words = {word for text in NAMES.findall(row.meaning) for word in re.findall(r"\w+", text)}
    return set(path.removeprefix(f"{own}.").split(".")) <= words


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_every_field_is_said(kind: str, part: str) -> None:
    table = rows(kind, part)
    assert [path for path in known(kind, part) if not is_said(path, table)] == []


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_nothing_is_said_of_fields_that_there_are_not(kind: str, part: str) -> None:
    said = {path for row in rows(kind, part) for path in row.fields}
    assert said - known(kind, part).keys() == set()


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_everything_that_a_field_may_say_is_said(kind: str, part: str) -> None:
    """A status may repeat what was said of a field of the spec."""
    table = rows(kind, part)
    missing = []
    for path, schema in known(kind, part).items():
        row = row_of(path, table)
        said = SECTIONS[kind] if row is None or part == "status" else row.meaning + row.default
        choices = (f"`{each}`" for each in schema.get("enum", ()))
        missing += [f"{path}: {each}" for each in choices if each not in said]
    assert missing == []


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_defaults_are_those_of_the_definitions(kind: str) -> None:
    wrong = []
    for row in rows(kind, "spec"):
        for path in row.fields:
            schema = known(kind, "spec")[path]
            if schema.get("default") not in (None, [], {}) and not shows(
                row.default, schema["default"]
            ):
                wrong.append(f"{path}: {row.default}, and it is {schema['default']}")
    assert wrong == []


def shows(cell: str, default: Any) -> bool:
    """Say whether a cell of defaults has this one."""
    text = str(default[0] if isinstance(default, list) else default)
    text = text.lower() if isinstance(default, bool) else text
    return text in re.split(r"[`\", ]+", cell)
