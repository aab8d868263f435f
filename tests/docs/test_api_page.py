"""The page about the library names all that it has, and its examples run as doctests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import walras

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/api.md").read_text()


def test_the_page_has_a_row_for_every_public_name_and_no_other() -> None:
    firsts = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    named = [name for cell in firsts for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == walras.__all__


def test_every_public_name_documents_its_arguments_and_errors() -> None:
    for name in walras.__all__:
        text = getattr(walras, name).__doc__
        if "Arguments and errors are those of" in text:
            continue
        assert "Args:" in text or "Attributes:" in text, name
        assert name[0].isupper() or "Raises:" in text, name


def test_the_examples_are_in_the_default_selection() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert "docs/api.md" in config["testpaths"]
    assert "--doctest-glob=api.md" in config["addopts"].split()
