"""Facts: reads the processes of this machine from ``/proc`` (proc(5)).

For a process that has ended meanwhile every function returns None or an empty result, and raises no
error.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXEC_SECONDS = 10.0
_EXEC_PAUSE_SECONDS = 0.0005

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment, identified by ``pid`` and ``start`` together.

    Attributes:
        pid: Process ID.
        parent: ID of the parent; of init or a subreaper once the parent has ended.
        group: Process group ID.
        session: Session ID.
        start: Start time in ticks since boot.
        alive: False for a zombie.
        ticks: CPU time in ticks, including that of children it has waited for.
    """

    pid: int
    parent: int
    group: int
    session: int
    start: int
    alive: bool
    ticks: int


def read_process(pid: int) -> Process | None:
    """Read one process; None if it has ended."""
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


def is_current(process: Process) -> bool:
    """Whether the PID of a process is still its own."""
    now = read_process(process.pid)
    return now is not None and now.start == process.start


def processes() -> Iterator[Process]:
    """Read all processes that are visible to this one."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, every second
        if entry.isdecimal() and (process := read_process(int(entry))):
            yield process


def threads(pid: int) -> tuple[int, ...]:
    """Return the thread IDs of a process; empty if it has ended."""
    try:
        return tuple(int(entry) for entry in os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:
        return ()


def waited_seconds(thread: int) -> float | None:
    """Return how long a thread has been ready to run without a CPU; None if it has ended."""
    fields = _read(f"/proc/{thread}/schedstat").split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else None


def idle_seconds() -> dict[int, float]:
    """Return how long each online CPU has been idle since boot; {} if that cannot be read."""
    idle = {}
    for line in _read("/proc/stat").splitlines():
        name, *ticks = line.split()
        if not name.startswith(b"cpu"):
            break
        if name != b"cpu":
            idle[int(name[3:])] = (int(ticks[3]) + int(ticks[4])) / TICKS_PER_SECOND
    return idle


def has_variable(pid: int, assignment: bytes) -> bool:
    """Whether a process was started with ``NAME=value`` in its environment.

    False for a process whose environment this one may not read.
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


def is_in_cgroup(pid: int, group: str) -> bool:
    """Whether a thread of a process is in a cgroup or below it.

    The first thread can have ended before the others; version 1 then says that it is at the top.

    Args:
        pid: Process ID.
        group: End of the group's path, such as ``/walras-1/job-a``; the hierarchy's mount can begin
            below the root, of which the kernel counts.
    """
    sought = f"{group}/".encode()
    return any(
        sought in line + b"/"
        for thread in threads(pid)
        for line in _read(f"/proc/{pid}/task/{thread}/cgroup").splitlines()
    )


def _is_in_exec(pid: int) -> bool:
    """Whether a process is in execve(2), with its new memory but no environment in it yet."""
    if not os.access(f"/proc/{pid}/environ", os.R_OK):
        return False
    stat = _fields(pid)
    # A kernel thread has no memory; an empty environment has an address.
    return bool(stat) and int(stat[23 - 3]) > 0 and int(stat[51 - 3]) == 0


def _fields(pid: int) -> list[bytes]:
    """Return the fields of ``/proc/PID/stat`` from the third, the state; empty if it has ended."""
    stat = _read(f"/proc/{pid}/stat")
    # The second field, the command's name, may contain blanks and parentheses.
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
