"""Runs a command inside an emulated Linux machine, by a guest tool whose path is in WALRAS_GUEST.

The tool boots Debian's kernel with cgroup v2 or v1 and any CPU topology, copies folders in, and
prints what the command prints. Two things go wrong in an emulator with many CPUs, and are met
here: the boot may hang (while the kernel patches its own code, CPUs can be caught for good in a
stale breakpoint), so it is tried again; and the last line before power-off may get lost on the
serial console, so the command prints its status itself, a moment before its end.
"""

from __future__ import annotations

import compileall
import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from importlib.metadata import distribution
from typing import TYPE_CHECKING, NamedTuple

import pytest

from walras_agent import procfs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TOOL = os.environ.get("WALRAS_GUEST", "")
# Most boots take ten to twenty seconds, copying included, on a busy machine forty. One attempt
# after the other has more time than the last: hung ones cost little, and slow machines get there.
BOOT_SECONDS = (45, 60, 75, 90, 120, 120)
RUN_SECONDS = 600
RUNS = 2

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
    timeout = max(BOOT_SECONDS) + RUN_SECONDS
    options = ["--smp", smp, "--cgroup", cgroup, "--timeout", str(timeout)]
    options += [option for folder in folders for option in ("--dir", str(folder))]
    inside, runs = Inside(None, ""), 0
    script = f'echo booted:; {command}; s=$?; echo "verdict:$s:"; sleep 2; exit $s'
    for seconds in BOOT_SECONDS:
        output, booted = _boot_and_run([*options, "--", script], seconds)
        verdict = re.search(r"^verdict:(\d+):", output, re.MULTILINE)
        inside = Inside(int(verdict[1]) if verdict else None, output)
        runs += booted
        if inside.status is not None or runs == RUNS:
            break
    return inside


def _boot_and_run(arguments: list[str], seconds: float) -> tuple[str, bool]:
    """One boot; returns what was printed, and whether the command was reached in time."""
    with subprocess.Popen(
        ["stdbuf", "-oL", TOOL, *arguments],  # each line as it comes, not when a pipe is full
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as guest:
        assert guest.stdout is not None
        hangs = threading.Timer(seconds, _end, [guest.pid])
        hangs.start()
        lines, booted = [], False
        try:
            for line in guest.stdout:
                lines.append(line)
                if line.startswith("booted:"):
                    hangs.cancel()
                    booted = True
        finally:
            hangs.cancel()
            _end(guest.pid)
    return "".join(lines), booted


def _end(session: int) -> None:
    for process in procfs.processes():  # the tool's emulator has a process group of its own
        if process.session == session:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)


def copy_distributions(names: Iterable[str], folder: Path) -> None:
    """Copy installed distributions into a folder, for a guest that has nothing but Python."""
    for name in names:
        for file in distribution(name).files or ():
            if file.suffix != ".pyc" and not {"..", "tests"} & set(file.parts):
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), folder / file)


def compile_ahead(folder: Path) -> None:
    """Make bytecode of all modules: a guest takes half a minute for it in every new process."""
    compileall.compile_dir(folder, quiet=2)
