"""Runs a command inside an emulated Linux machine, by a guest tool whose path is in WALRAS_GUEST.

The tool boots Debian's kernel with cgroup v2 or v1 and any CPU topology, copies folders in, and
prints what the command prints. With many CPUs the last line before power-off may get lost on the
serial console, so the command prints its status itself, a moment before its end.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.metadata import distribution
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TOOL = os.environ.get("WALRAS_GUEST", "")
MINUTES = 10
ATTEMPTS = 2

in_a_guest = [
    pytest.mark.guest,
    pytest.mark.skipif(not TOOL, reason="needs the path of a guest tool in WALRAS_GUEST"),
]


class Inside(NamedTuple):
    """How a command in the guest went; status is None if the guest never got that far."""

    status: int | None
    output: str


def run_inside(command: str, folders: Iterable[Path], *, smp: str, cgroup: str) -> Inside:
    """Run a shell command in the first of the folders, which are at their paths in the guest."""
    options = ["--smp", smp, "--cgroup", cgroup, "--timeout", str(MINUTES * 60)]
    options += [option for folder in folders for option in ("--dir", str(folder))]
    inside = Inside(None, "")
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [TOOL, *options, "--", f'{command}; s=$?; echo "verdict:$s:"; sleep 2; exit $s'],
            capture_output=True,
            text=True,
            check=False,
        )
        verdict = re.search(r"^verdict:(\d+):", done.stdout, re.MULTILINE)
        inside = Inside(int(verdict[1]) if verdict else None, done.stdout + done.stderr)
        if inside.status is not None:
            break
    return inside


def copy_distributions(names: Iterable[str], folder: Path) -> None:
    """Copy installed distributions into a folder, for a guest that has nothing but Python."""
    for name in names:
        for file in distribution(name).files or ():
            if file.suffix != ".pyc" and not {"..", "tests"} & set(file.parts):
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), folder / file)
