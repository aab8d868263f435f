"""Entries of ``Args:`` and ``Attributes:`` can be read alone: they do not complete the name."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PARTS = ["service", "node-agent", "profiler", "operator", "view", "cli", "dashboard", "studies"]
"""Parts of the product, without the core: there, entries may begin with a symbol of a paper."""

SECTION = re.compile(r"^(?:Args|Attributes):\n((?: .*\n|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\*{0,2}\w+): (.*)", re.MULTILINE)


def fragments(text: str) -> Iterator[str]:
    """Yield the entries of a module's docstrings that begin like the middle of a sentence."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for section in SECTION.finditer((ast.get_docstring(node) or "") + "\n"):
                for name, meaning in ENTRY.findall(section[1]):
                    if not re.match(r"[A-Z0-9`\"']", meaning):
                        yield f"{node.name}: {name}: {meaning}"


@pytest.mark.parametrize("part", PARTS)
def test_an_entry_of_a_docstring_begins_a_phrase_of_its_own(part: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {each}"
        for path in sorted((ROOT / part).glob("walras_*/**/*.py"))
        for each in fragments(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_fragment_is_found() -> None:
    text = '''
def width(page, of):
    """Return a width.

    Args:
        page: Page to measure.
        of: which.

    Raises:
        ValueError: no such column.
    """
'''
    assert list(fragments(text)) == ["width: of: which."]
