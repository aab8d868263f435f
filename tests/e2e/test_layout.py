"""Rules of the repository that no linter knows."""

from __future__ import annotations

import typing
from collections import Counter
from pathlib import Path

import pytest
from pydantic import BaseModel

from walras.resources.allocation import NodeAllocation
from walras.resources.kinds import KINDS
from walras.resources.node_status import NodeAllocationStatus

ROOT = Path(__file__).parents[2]
PARTS = ["core", "service", "node-agent", "profiler", "operator", "cli"]


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


@pytest.mark.parametrize("kind", [*KINDS.values(), NodeAllocation])
def test_the_reference_names_every_field(kind: type[BaseModel]) -> None:
    text = (ROOT / "docs/reference.md").read_text()
    named = fields(typing.get_type_hints(kind)["spec"])
    if kind is NodeAllocation:
        named |= fields(NodeAllocationStatus)
    heading = f"\n## {kind.__name__}\n"
    assert heading in text
    section = text.partition(heading)[2].partition("\n## ")[0]
    assert [name for name in sorted(named) if name not in section] == []
