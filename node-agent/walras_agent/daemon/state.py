"""Effects: the agent's state on disk, which outlives its process.

One folder of the host has the original values of cgroup files (`journal`), the last plan, which
stays in force until a newer one comes, the last measurement, which is not repeated, and a lock: two
agents, or an agent and a restore, would undo each other's writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from walras_agent.atomic_file import replace_file
from walras_agent.journal import Journal
from walras_api.node_allocation_status import ProfilingStatus
from walras_api.parse import parse_allocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pydantic import BaseModel

    from walras_api.node_allocation import NodeAllocation


_log = logging.getLogger(__name__)

T = TypeVar("T")


class StateError(Exception):
    """The state folder cannot be used; one line with the cause and the way out."""


@dataclass(frozen=True, slots=True)
class State:
    """The agent's state folder.

    Attributes:
        folder: Path of the folder.
        journal: Original values of the cgroup files that the agent has written.
    """

    folder: Path
    journal: Journal

    def last_plan(self) -> NodeAllocation | None:
        """Return the last plan that was accepted; None if there is none or it is unreadable."""
        return self._read("plan.json", lambda text: parse_allocation(json.loads(text), "ignore"))

    def save_plan(self, plan: NodeAllocation) -> None:
        """Save a plan that was accepted; it is on disk when this returns.

        Raises:
            StateError: The file cannot be written.
        """
        self._write("plan.json", plan.model_copy(update={"status": None}))

    def forget_plan(self) -> None:
        """Delete the last plan, so that the next one may have any epoch.

        Raises:
            StateError: The file cannot be deleted.
        """
        self._delete("plan.json")

    def last_measurement(self) -> ProfilingStatus | None:
        """Return the last measurement; None if there is none or it is unreadable."""
        return self._read("measurement.json", ProfilingStatus.model_validate_json)

    def save_measurement(self, measured: ProfilingStatus) -> None:
        """Save the status of a measurement; it is on disk when this returns.

        Raises:
            StateError: The file cannot be written.
        """
        self._write("measurement.json", measured)

    def forget_measurement(self) -> None:
        """Delete the last measurement, so that no later installation reports it.

        Raises:
            StateError: The file cannot be deleted.
        """
        self._delete("measurement.json")

    def _read(self, name: str, parse: Callable[[bytes], T]) -> T | None:
        path = self.folder / name
        try:
            return parse(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            # Perhaps written by a later version; the agent can do without it.
            _log.warning("%s: ignored: %s", path, " ".join(str(error).split()))
            return None

    def _write(self, name: str, document: BaseModel) -> None:
        path = self.folder / name
        try:
            replace_file(path, document.model_dump_json(by_alias=True, exclude_none=True).encode())
        except OSError as error:
            raise StateError(f"{path}: cannot be written: {error.strerror}") from error

    def _delete(self, name: str) -> None:
        path = self.folder / name
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"{path}: cannot be deleted: {error.strerror}") from error


@contextlib.contextmanager
def open_state(folder: Path) -> Iterator[State]:
    """Lock the state folder for this process and open it; create it if missing.

    Raises:
        StateError: The folder cannot be used, or another process has locked it.
        JournalError: The journal cannot be read.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(
            f"{folder}: {error.strerror}; give another folder by --state-folder"
        ) from error
    try:
        _lock(folder, lock)
        yield State(folder, Journal.open(folder / "journal.json"))
    finally:
        os.close(lock)  # which unlocks it, as does the end of the process


def _lock(folder: Path, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 32).decode("ascii", "replace").strip() or "unknown"
        raise StateError(
            f"{folder}: in use by another walras-agent (process {holder}); stop it first"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
