"""Rules of the repository that no linter knows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ["core", "api", "service", "node-agent", "profiler", "operator", "view", "cli"]


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
