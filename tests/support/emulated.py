"""Runs a command inside an emulated Linux machine, by a guest tool whose path is in WALRAS_GUEST.

The tool boots Debian's kernel with cgroup v2 or v1 and any CPU topology, copies folders in, and
prints what the command prints. The last line before power-off may get lost on the serial console,
so the command prints its status itself, a moment before its end.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import time
from importlib.metadata import distribution
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TOOL = os.environ.get("WALRAS_GUEST", "")
SECONDS = 1800  # several times what any of the tests takes beside other work
BOOTS = 3
"""Most boots: now and then, the kernel panics on an emulated CPU that has lost its timer.

A command that has begun is not run again.
"""
PANIC = 120.0  # seconds after the start of a boot within which that happens

in_a_guest = pytest.mark.guest


class Inside(NamedTuple):
    """Result of a command in the guest; status is None if the command never ended."""

    status: int | None
    output: str


def run_inside(
    command: str, folders: Iterable[Path], *, smp: str, kernel: str, cgroup: str
) -> Inside:
    """Run a shell command in the first of the folders, which a guest has at the same paths."""
    options = ["--smp", smp, "--kernel", kernel, "--cgroup", cgroup, "--timeout", str(SECONDS)]
    options += [option for folder in folders for option in ("--dir", str(folder))]
    script = f'echo begun:; {command}; s=$?; echo "verdict:$s:"; sleep 2; exit $s'
    for _ in range(BOOTS):
        began = time.monotonic()
        done = subprocess.run(
            [TOOL, *options, "--", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if "begun:" in done.stdout or time.monotonic() > began + PANIC:
            break
    verdict = re.search(r"^verdict:(\d+):", done.stdout, re.MULTILINE)
    return Inside(int(verdict[1]) if verdict else None, done.stdout)


def copy_distributions(names: Iterable[str], folder: Path) -> None:
    """Copy installed distributions into a folder, for a guest that has only Python."""
    for name in names:
        for file in distribution(name).files or ():
            if file.suffix != ".pyc" and not {"..", "tests"} & set(file.parts):
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), folder / file)


def compile_ahead(folder: Path) -> None:
    """Compile all modules to bytecode, which takes a guest half a minute in every new process."""
    compileall.compile_dir(folder, quiet=2)
