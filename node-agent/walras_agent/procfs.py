"""Facts: the processes of this machine, as ``/proc`` tells them (proc(5)).

Every reader returns nothing for a process that has gone in the meantime: that is the normal end
of a process, not an error.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXEC_SECONDS = 1.0
_EXEC_PAUSE_SECONDS = 0.0005

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment; ``pid`` and ``start`` together never name another process.

    Attributes:
        pid: Its number.
        parent: Its parent's number; that of init or a subreaper once the parent is gone.
        group: Its process group.
        session: Its session.
        start: When it started, in ticks since boot.
        alive: False for a zombie, which holds nothing but its exit status.
        ticks: CPU time in ticks, its own and that of the children it has waited for.
    """

    pid: int
    parent: int
    group: int
    session: int
    start: int
    alive: bool
    ticks: int


def read_process(pid: int) -> Process | None:
    """Read one process; None when it is gone."""
    fields = _fields(pid)
    if not fields:
        return None
    # Numbers below are those of proc(5), whose third field is the state.
    return Process(
        pid=pid,
        parent=int(fields[4 - 3]),
        group=int(fields[5 - 3]),
        session=int(fields[6 - 3]),
        start=int(fields[22 - 3]),
        alive=fields[0] not in {b"Z", b"X"},
        ticks=sum(map(int, fields[14 - 3 : 18 - 3])),
    )


def processes() -> Iterator[Process]:
    """Read all processes that this one may see."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, every second
        if entry.isdecimal() and (process := read_process(int(entry))):
            yield process


def threads(pid: int) -> tuple[int, ...]:
    """The threads of a process; none when it is gone."""
    try:
        return tuple(int(entry) for entry in os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:
        return ()


def has_variable(pid: int, assignment: bytes) -> bool:
    """Whether the environment that a process was started with holds ``NAME=value``.

    False as well for processes whose environment this one may not read.
    """
    deadline = time.monotonic() + _EXEC_SECONDS
    settled = False
    while True:
        environment = _read(f"/proc/{pid}/environ")
        if environment or settled or time.monotonic() > deadline:
            return assignment in environment.split(b"\0")
        settled = not _is_in_exec(pid)
        if not settled:
            time.sleep(_EXEC_PAUSE_SECONDS)


def _is_in_exec(pid: int) -> bool:
    """Whether a process has its new memory already, but no environment in it yet (execve(2))."""
    if not os.access(f"/proc/{pid}/environ", os.R_OK):
        return False
    stat = _fields(pid)
    # A kernel thread has no memory at all; an empty environment still has an address.
    return bool(stat) and int(stat[23 - 3]) > 0 and int(stat[51 - 3]) == 0


def _fields(pid: int) -> list[bytes]:
    """Fields of ``/proc/PID/stat`` from the third (of proc(5), the state); none when it is gone."""
    stat = _read(f"/proc/{pid}/stat")
    # The second, the command's name, may hold anything, blanks and parentheses too.
    return stat[stat.rindex(b")") + 2 :].split() if stat else []


def _read(path: str) -> bytes:
    try:
        # A plain descriptor: this runs for every process, and pathlib costs more than the read.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - already a descriptor
            return file.read()
    except OSError:
        return b""
