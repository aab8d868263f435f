"""The files that docs/where.md names define what it says is in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "where.md").read_text()

PYTHON = r"`([\w/-]+\.py)`"
NAME = r"`[A-Za-z_][\w.]*`"
AFTER = re.compile(rf"{PYTHON}: ({NAME}(?:, {NAME})*)")
BEFORE = re.compile(rf"({NAME}) in {PYTHON}")


def places() -> list[tuple[str, str]]:
    """Return the path of a file and a name that is in it, for all that the page says so of."""
    after = [(path, name) for path, names in AFTER.findall(PAGE) for name in names.split(", ")]
    before = [(path, name) for name, path in BEFORE.findall(PAGE)]
    found = {(path, name.strip("`")) for path, name in (*after, *before) if (ROOT / path).exists()}
    return sorted(found)


def test_the_page_names_places_in_all_parts() -> None:
    parts = {path.partition("/")[0] for path, _ in places()}
    assert {"api", "cli", "core", "node-agent", "operator", "view"} <= parts


@pytest.mark.parametrize(("path", "name"), places())
def test_the_file_defines_the_name(path: str, name: str) -> None:
    text = (ROOT / path).read_text()
    for part in name.split("."):
        defined = rf"^\s*(?:class|def) {part}\b|^\s*{part}(?:: [^=]+)? = "
        assert re.search(defined, text, re.MULTILINE), f"{path} does not define {part}"
