"""Rules of the repository that no linter knows."""

from __future__ import annotations

import typing
from collections import Counter
from pathlib import Path

import pytest
from pydantic import BaseModel

from walras.resources.kinds import KINDS

ROOT = Path(__file__).parents[2]
PARTS = ["core", "node-agent", "profiler", "operator", "cli"]


@pytest.mark.parametrize("part", PARTS)
def test_no_part_is_itself_a_package(part: str) -> None:
    """A package named ``operator`` would replace Python's own module in pytest, mypy and venv."""
    assert not (ROOT / part / "__init__.py").exists()
    assert not list((ROOT / part).glob("test*.py"))


def test_tests_are_modules_of_unique_names_and_no_packages() -> None:
    tests = ROOT / "tests"
    assert not list(tests.rglob("__init__.py"))
    names = Counter(path.name for path in tests.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def fields(model: type[BaseModel]) -> set[str]:
    """Return the names of all fields of a model and of the models in it."""
    found = set()
    for name, field in model.model_fields.items():
        found.add(field.alias or name)
        pending = [field.annotation]
        while pending:
            annotation = pending.pop()
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                found |= fields(annotation)
            pending += typing.get_args(annotation)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_names_every_field(kind: str) -> None:
    text = (ROOT / "docs/reference.md").read_text()
    spec = typing.get_type_hints(KINDS[kind])["spec"]
    assert [name for name in sorted(fields(spec)) if name not in text] == []
    assert f"## {kind}" in text
