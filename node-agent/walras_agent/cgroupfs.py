"""Primitives on cgroup directories that are the same for cgroup v1 and v2.

``Documentation/admin-guide/cgroup-v1/cgroups.rst``, ``.../freezer-subsystem.rst`` and
``Documentation/admin-guide/cgroup-v2.rst`` of Linux. One group is one directory in v2 and one
directory per hierarchy in v1; hence the tuples of folders.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from walras_agent.runs import PlacementError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_KILL_SECONDS = 5.0
_REMOVE_SECONDS = 5.0
_FREEZE_SECONDS = 0.5

# File, what to write to freeze and to thaw, the file that tells, and what it says once frozen.
_FREEZERS = (
    ("freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"),
    ("cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"),
)


def read(file: Path) -> str:
    """Read a cgroup file, without its last line's end.

    Raises:
        PlacementError: It cannot be read.
    """
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise PlacementError(f"{file} cannot be read: {error.strerror}") from error


def write(file: Path, value: str) -> None:
    """Write a value in one go, as cgroup files want it.

    Raises:
        PlacementError: The kernel refuses it.
    """
    try:
        # Not created when missing: the kernel's answer to that would hide what is wrong.
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode("ascii"))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise PlacementError(f"{file} does not take {value!r}: {error.strerror}") from error


def make(folder: Path) -> None:
    """Make a cgroup.

    Raises:
        PlacementError: It exists or the kernel refuses it.
    """
    try:
        folder.mkdir()
    except OSError as error:
        raise PlacementError(f"{folder} cannot be made: {error.strerror}") from error


def pids(folder: Path) -> tuple[int, ...]:
    """The processes in a cgroup and all below it, ascending; none when it is gone."""
    found: set[int] = set()
    for group in _subtree(folder):
        try:
            found.update(map(int, (group / "cgroup.procs").read_text(encoding="ascii").split()))
        except OSError:
            continue  # removed meanwhile
    # Processes of a PID namespace that cannot be seen from here are listed as 0.
    return tuple(sorted(found - {0}))


def kill(folders: Sequence[Path]) -> None:
    """Kill every process in a group, frozen first where possible so that none can fork away.

    Raises:
        PlacementError: Some outlive it for seconds.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while any(pids(folder) for folder in folders):
        if time.monotonic() > deadline:
            listed = ", ".join(map(str, pids(folders[0])[:5]))
            raise PlacementError(
                f"{folders[0]}: processes {listed} outlive SIGKILL; end them by hand"
            )
        _freeze(folders)
        try:
            for pid in {pid for folder in folders for pid in pids(folder)}:
                _signal(pid)
        finally:
            _thaw(folders)
        time.sleep(0.005)


def remove(folders: Iterable[Path]) -> None:
    """Remove empty cgroups with all below them; missing ones are fine.

    The kernel says EBUSY until the last task has finished exiting.

    Raises:
        PlacementError: One is still in use after seconds.
    """
    deadline = time.monotonic() + _REMOVE_SECONDS
    for folder in folders:
        while (error := _try_remove(folder)) is not None:
            if time.monotonic() > deadline:
                raise PlacementError(f"{folder} cannot be removed: {error.strerror}") from error
            time.sleep(0.005)


def _try_remove(folder: Path) -> OSError | None:
    for group in _subtree(folder):
        try:
            group.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            return error
    return None


def _subtree(folder: Path) -> Iterator[Path]:
    """A cgroup and all below it, children first."""
    for root, _, _ in os.walk(folder, topdown=False):
        yield Path(root)


def _freeze(folders: Iterable[Path]) -> None:
    for folder in folders:
        for file, frozen, _, told_by, says in _FREEZERS:
            if (folder / file).exists():
                write(folder / file, frozen)
                _await(folder / told_by, says)


def _thaw(folders: Iterable[Path]) -> None:
    for folder in folders:
        for file, _, thawed, _, _ in _FREEZERS:
            if (folder / file).exists():
                write(folder / file, thawed)


def _await(file: Path, line: str) -> None:
    """Wait until the file has the line; give up quietly, the caller's loop comes back."""
    deadline = time.monotonic() + _FREEZE_SECONDS
    while line not in read(file).splitlines() and time.monotonic() < deadline:
        time.sleep(0.001)


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # gone, or of another user: what is left is told by the caller's loop
