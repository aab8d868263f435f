"""What every way to place jobs has in common: the run, the names of its jobs, its errors.

A run is one round of placing jobs; a process may have several, also at once. Its id names the
process for all time, so that what a crashed run left behind can be told from what a living one
holds.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from walras_agent import procfs

MARKER = "WALRAS_RUN"
"""The environment variable that marks the processes of a job: ``<run>/<job>``."""

_NAME = re.compile(r"[a-z0-9.-]+")
_COUNT = itertools.count(1)


class PlacementError(Exception):
    """Jobs cannot be held to CPUs; the message is one line: what, why, and the way out."""


def run_id() -> str:
    """A new id: the calling process's PID, start time (ticks), PID namespace, and a count.

    The namespace is part of it because a PID of another container says nothing here.
    """
    own = procfs.read_process(os.getpid())
    if own is None:
        raise PlacementError("/proc does not show this process; mount proc for its PID namespace")
    return f"{own.pid}-{own.start}-{_pid_namespace()}-{next(_COUNT)}"


def is_over(run: str) -> bool:
    """Whether the run's process is known to be gone; False in doubt."""
    match = re.fullmatch(r"(\d+)-(\d+)-(\d+)-\d+", run)
    if match is None or int(match[3]) != _pid_namespace():
        return False
    process = procfs.read_process(int(match[1]))
    return process is None or not process.alive or process.start != int(match[2])


def checked_name(name: str) -> str:
    """Return the name of a run or job if it can safely be part of a path.

    Raises:
        ValueError: It is not made of lower-case letters, digits, dots and hyphens.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of lower-case letters, digits, '.' and '-'")
    return name


def checked_weight(name: str, weight: int) -> int:
    """Return the weight if it is on the scale of cgroup v2's ``cpu.weight``.

    Raises:
        ValueError: It is not from 1 to 10000.
    """
    if not 1 <= weight <= 10_000:
        raise ValueError(f"{name}: the weight {weight} is not from 1 to 10000")
    return weight


def marker(run: str, name: str) -> dict[str, str]:
    """The environment that marks a process and all its descendants as of this job."""
    return {MARKER: f"{run}/{name}"}


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino
