"""Cgroups in which other programs of the machine disturb a measurement little, and the counters.

All pods are below one group of the largest weight, and so is whoever divides the CPUs among them,
who makes the group of a run below the group that it is in (cgroup v1), or beside it (v2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path("/sys/fs/cgroup")
IS_V2 = (ROOT / "cgroup.controllers").exists()
CONTROLLERS = ("cpu", "cpuset") if IS_V2 else ("cpu", "cpuacct", "cpuset", "freezer")
WEIGHT, LARGEST = ("cpu.weight", 10_000) if IS_V2 else ("cpu.shares", 262_144)
NICE = -20
"""Nice value of who divides CPUs: with cgroup v1, it has no weight but its own beside the pods."""

_IN_MODIFY = 2
_PATIENCE, _PAUSE = 200, 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    """A counter at a moment, in seconds."""

    at: float
    value: float

    def since(self, before: Reading) -> float:
        """Return what was counted a second since another reading."""
        return (self.value - before.value) / (self.at - before.at)


@contextmanager
def nest(*, gentle: bool) -> Iterator[list[Path]]:
    """Make the group, and yield the folders in which the process belongs that divides CPUs.

    Args:
        gentle: Whether all of it weighs no more than another group.
    """
    name = f"held-{os.getpid()}"
    if IS_V2:
        _offer(ROOT)
        folders = [ROOT / name]
        members = [ROOT / name / "divides"]
    else:
        folders = members = [ROOT / controller / name for controller in CONTROLLERS]
    try:
        for folder in dict.fromkeys([*folders, *members]):
            folder.mkdir()
        if IS_V2:
            _offer(folders[0])
            (members[0] / WEIGHT).write_text(str(LARGEST))
        else:
            for file in ("cpuset.mems", "cpuset.cpus"):
                inherited = (ROOT / "cpuset" / file).read_text()
                (ROOT / "cpuset" / name / file).write_text(inherited)
        if not gentle:
            (folders[0] / WEIGHT).write_text(str(LARGEST))
        yield members
    finally:
        for folder in folders:
            _clear(folder)


def _offer(folder: Path) -> None:
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in CONTROLLERS))


def _clear(top: Path) -> None:
    """Kill all that still runs in a group or below it, and remove the groups."""
    for name, _, _ in os.walk(top, topdown=False):
        folder = Path(name)
        for _ in range(_PATIENCE):
            for pid in (folder / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            with suppress(OSError):  # what was killed has not ended yet
                folder.rmdir()
                break
            time.sleep(_PAUSE)


def cpu_time(folders: dict[str, str], group: str) -> Reading:
    """Return the CPU time of a group and all below it, by the kernel's own counter."""
    if IS_V2:
        text = Path(f"{folders['cpu']}{group}/cpu.stat").read_text()
        return Reading(time.monotonic(), int(text.split()[1]) / 1e6)
    text = Path(f"{folders['cpuacct']}{group}/cpuacct.usage").read_text()
    return Reading(time.monotonic(), int(text) / 1e9)


def idle_time() -> Reading:
    """Return how long all CPUs together have had nothing to run."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return Reading(time.monotonic(), (int(words[4]) + int(words[5])) / _TICKS)


def process_time(pid: int) -> Reading:
    """Return the CPU time of all threads of a process."""
    clock = (~pid << 3) | 2  # as clock_getcpuclockid(3) makes it
    return Reading(time.monotonic(), time.clock_gettime(clock))


class WriteCounter:
    """Counts the writes to the weights of groups, whoever makes them (inotify(7)).

    Writes to one file, one after the other, count once unless `count` is called in between.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.writes = 0
        for folder in folders:
            file = os.fsencode(folder / WEIGHT)
            if self._libc.inotify_add_watch(self._queue, file, _IN_MODIFY) < 0:
                raise OSError(ctypes.get_errno(), f"{folder}: its weight cannot be watched")

    def count(self) -> int:
        """Return the writes so far."""
        try:
            while found := os.read(self._queue, 1 << 16):
                self.writes += len(found) // 16  # the events of a file have no name
        except BlockingIOError:
            return self.writes
        return self.writes

    def close(self) -> None:
        """Count no more."""
        os.close(self._queue)
