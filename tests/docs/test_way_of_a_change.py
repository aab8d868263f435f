"""The functions that architecture.md names on the way from an Entitlement to a cpuset exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
SECTION = PAGE.read_text().partition("## From an Entitlement to a cpuset")[2].partition("\n## ")[0]
NAMES = sorted(set(re.findall(r"`(walras[a-z_.]*\.[A-Za-z_.]+)`", SECTION)))


def _exists(name: str) -> bool:
    parts = name.split(".")
    last = next((i for i, part in enumerate(parts) if part[0].isupper()), len(parts) - 1)
    try:
        found: Any = import_module(".".join(parts[:last]))
    except ImportError:
        return False
    for part in parts[last:]:
        found = getattr(found, part, None)
    return found is not None


EXISTING = {name for name in NAMES if _exists(name)}
"""Found here, since some modules open a socket when they are imported, as no unit test may."""


def test_the_section_names_functions_of_all_parts_on_the_way() -> None:
    parts = {name.partition(".")[0] for name in NAMES}
    assert parts == {"walras", "walras_api", "walras_operator", "walras_agent", "walras_service"}


@pytest.mark.parametrize("name", NAMES)
def test_name_exists(name: str) -> None:
    assert name in EXISTING
