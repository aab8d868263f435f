"""Starts programs of load.c in cgroups, and reads what they say that they have done."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SOURCE = "load.c"
_MOST_THREADS, _MOST_ANSWERS, _CACHE_LINE = 256, 1 << 18, 64  # as in load.c
_ANSWERS = _MOST_THREADS * _CACHE_LINE


class CompilerError(Exception):
    """The programs cannot be compiled; one line with the reason and the way out."""


def compile_programs(source: Path, program: Path) -> None:
    """Compile load.c, statically, so that it runs in any machine.

    Raises:
        CompilerError: There is no compiler, or it fails.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise CompilerError(
            "no C compiler: install gcc and the C library's static part (libc6-dev)"
        )
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread"]
    done = subprocess.run(
        [compiler, *options, "-o", str(program), str(source), "-lm"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CompilerError(f"{source} does not compile: {done.stderr.strip()}")


class Progress(NamedTuple):
    """What a program has done since it began.

    Attributes:
        blocks: Equal pieces of work.
        answers: Requests of a service that were answered.
    """

    blocks: int
    answers: int


class Program:
    """A running program of load.c.

    Args:
        load: The compiled load.c.
        words: What it is to do.
        figures: File for its figures, which does not exist yet.
        groups: Folders of the cgroups in which it runs.
    """

    def __init__(
        self, load: Path, words: Iterable[str], figures: Path, groups: Iterable[Path]
    ) -> None:
        with figures.open("xb+") as file:
            file.truncate(_ANSWERS + _CACHE_LINE + 4 * _MOST_ANSWERS)
            self._figures = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._process = subprocess.Popen([load, figures, *words], stdin=subprocess.PIPE)
        for group in groups:
            (group / "cgroup.procs").write_text(str(self._process.pid))

    def begin(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Kill it; its figures can still be read.

        Raises:
            RuntimeError: It had ended by itself.
        """
        ended = self._process.poll()
        self._process.kill()
        self._process.communicate()
        if ended is not None:
            raise RuntimeError(f"{self._process.args!r} ended with exit status {ended}")

    def progress(self) -> Progress:
        """Return what it has done so far."""
        counters = struct.unpack_from(f"<{_ANSWERS // 8}Q", self._figures)
        (answers,) = struct.unpack_from("<Q", self._figures, _ANSWERS)
        return Progress(sum(counters[:: _CACHE_LINE // 8]), answers)

    def latencies(self, since: Progress, until: Progress) -> list[int]:
        """Return the microseconds that answers between two moments took, in ascending order."""
        first = max(since.answers, until.answers - _MOST_ANSWERS)
        numbers = struct.unpack_from(f"<{_MOST_ANSWERS}I", self._figures, _ANSWERS + 8)
        return sorted(numbers[each % _MOST_ANSWERS] for each in range(first, until.answers))
