"""Compiled kernels against the same kernels as they are written."""

import subprocess
import sys
from pathlib import Path

import pytest

from walras.numerics.kernel import COMPILED

PROGRAM = Path(__file__).parents[1] / "support" / "random_markets.py"


def plans(*arguments: str) -> list[str]:
    """Return the plans of random markets by a process of their own."""
    command = [sys.executable, str(PROGRAM), "100", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.system
@pytest.mark.skipif(COMPILED is None, reason="the kernels are not compiled")
def test_compiled_kernels_give_the_same_plans_to_the_bit() -> None:
    compiled, uncompiled = plans(), plans("uncompiled")
    assert sum("Plan(" in each for each in compiled) > 75
    assert compiled == uncompiled
