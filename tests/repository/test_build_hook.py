"""A wheel is built with or without a C compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT_COMPILER = os.environ | {"CC": "no-such-compiler"}

pytestmark = pytest.mark.system


def test_without_a_compiler_the_wheel_has_the_kernels_in_plain_python(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env=WITHOUT_COMPILER,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "walras/numerics/kernel.py" in names
    assert not [name for name in names if name.startswith("walras/_kernels")]
