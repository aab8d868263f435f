"""How a local run starts another `walras`, for the dashboard."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from walras_cli.local.local_command import THIS_PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.system


def test_no_module_of_the_current_folder_is_run(tmp_path: Path) -> None:
    for name in ("walras_cli", "click"):
        (tmp_path / name).mkdir()
        for part in ("__init__", "__main__"):
            (tmp_path / name / f"{part}.py").write_text("raise SystemExit('planted')")
    ended = subprocess.run(
        [*THIS_PROGRAM, "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "planted" not in ended.stderr
    assert (ended.returncode, "walras" in ended.stdout) == (0, True)
