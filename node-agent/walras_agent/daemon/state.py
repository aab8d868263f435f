"""Facts: what an agent must still know when it is started again.

One folder of the host has the originals of cgroup files (`journal`), the last plan, which stays in
force until a newer one comes, the last measurement, which is not made again, and a lock: two
agents, or an agent and a restore, at the same time would undo each other's work.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from walras.resources.node_status import ProfilingStatus
from walras.resources.parse import parse_allocation
from walras_agent.durable import replace_file
from walras_agent.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pydantic import BaseModel

    from walras.resources.allocation import NodeAllocation


_log = logging.getLogger(__name__)

T = TypeVar("T")


class StateError(Exception):
    """The folder cannot be used; one line: what, why, and the way out."""


@dataclass(frozen=True, slots=True)
class State:
    """What is kept.

    Attributes:
        folder: Where.
        journal: The originals.
    """

    folder: Path
    journal: Journal

    def last_plan(self) -> NodeAllocation | None:
        """The last plan that was taken; None if there is none that can be understood."""
        return self._read("plan.json", lambda text: parse_allocation(json.loads(text)))

    def keep_plan(self, plan: NodeAllocation) -> None:
        """Keep a plan that was taken; on disk when this returns.

        Raises:
            StateError: It cannot be written.
        """
        self._write("plan.json", plan.model_copy(update={"status": None}))

    def forget_plan(self) -> None:
        """Let the next plan be the first, of whatever epoch.

        Raises:
            StateError: The last cannot be removed.
        """
        path = self.folder / "plan.json"
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"{path}: cannot be removed: {error.strerror}") from error

    def last_measurement(self) -> ProfilingStatus | None:
        """The last measurement that ended; None if there is none that can be understood."""
        return self._read("measurement.json", ProfilingStatus.model_validate_json)

    def keep_measurement(self, measured: ProfilingStatus) -> None:
        """Keep a measurement that has ended; on disk when this returns.

        Raises:
            StateError: It cannot be written.
        """
        self._write("measurement.json", measured)

    def _read(self, name: str, parse: Callable[[bytes], T]) -> T | None:
        path = self.folder / name
        try:
            return parse(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            # Of a later version perhaps; the agent can do without, so it must not stop here.
            _log.warning("%s: passed over: %s", path, " ".join(str(error).split()))
            return None

    def _write(self, name: str, document: BaseModel) -> None:
        path = self.folder / name
        try:
            replace_file(path, document.model_dump_json(by_alias=True, exclude_none=True).encode())
        except OSError as error:
            raise StateError(f"{path}: cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def open_state(folder: Path) -> Iterator[State]:
    """Open the folder for this process alone; it is made if it is not there.

    Raises:
        StateError: It cannot be had, or another process has it.
        JournalError: What the journal says cannot be used.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateError(
            f"{folder}: {error.strerror}; name another folder by --state-folder"
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
            f"{folder}: is used by another walras-agent (process {holder}); stop that one first"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
