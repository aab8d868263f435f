"""The environment can be set up where Debian's python3-venv is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

SCRIPT = Path(__file__).parents[2] / "tools/make_venv.py"

WITHOUT_ENSUREPIP = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "ensurepip" else find(name, *rest)
script, target = sys.argv[1:]
sys.argv = [script, target]
runpy.run_path(script, run_name="__main__")
"""


def test_pip_comes_from_the_index_where_python_does_not_bring_it(tmp_path: Path) -> None:
    target = tmp_path / "venv"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ENSUREPIP, str(SCRIPT), str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = subprocess.run(
        [target / "bin/python", "-m", "pip", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.startswith("pip ")
    assert str(target) in said.stdout
