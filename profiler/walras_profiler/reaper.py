"""Starts the watchdog process that cleans up after a run, however the run ends.

Python's own clean-up does not run when the process is killed (`kill -9`, the kernel's OOM
killer). So each run starts one small process in a session of its own, which Ctrl-C does not reach.
It holds the read end of a pipe, which is closed when the run ends in any way; then the watchdog
kills the processes that are left, and removes cgroups, containers and temporary folders.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from walras_agent.local.runs import MARKER, checked_name
from walras_profiler._reaper import FOLDER_PREFIX, STARTED, TIMEOUT_SECONDS, stat_fields

_SCRIPT = Path(__file__).with_name("_reaper.py")


class Reaper:
    """Watchdog of one run; a run that succeeds cleans up by closing it.

    Args:
        run_id: ID of the run, which is part of the marker of its processes and of the name of its
            cgroups (``walras-<run id>``).

    Raises:
        ValueError: `run_id` is not made of lower-case letters, digits, dots and hyphens.
    """

    def __init__(self, run_id: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != MARKER}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), checked_name(run_id)],
            env=environment,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def guard_session(self, pid: int) -> None:
        """Register the session that `pid` leads; even its processes without a marker are killed."""
        stat = stat_fields(pid)
        if stat is not None:
            self._send(f"session {pid} {stat[STARTED]}")

    def guard_folder(self, folder: Path) -> None:
        """Register a temporary folder to remove.

        Raises:
            ValueError: The folder's name does not begin with ``walras-``, or holds a line break.
        """
        path = str(folder.absolute())
        if not folder.name.startswith(FOLDER_PREFIX) or "\n" in path:
            raise ValueError(f"folder {path!r}: only folders named {FOLDER_PREFIX}* are removed")
        self._send(f"folder {path}")

    def guard_container(self, name: str, socket: Path) -> None:
        """Register a container to kill and remove, of the Docker daemon at that Unix socket."""
        self._send(f"container {name} {socket}")

    def close(self) -> None:
        """Clean up now and wait until that is done; later calls do nothing."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(3 * TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, line: str) -> None:
        """Send a line to the watchdog.

        Raises:
            RuntimeError: The watchdog is closed or was killed.
        """
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            raise RuntimeError("the watchdog of this run is closed")
        try:
            stdin.write(os.fsencode(line) + b"\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise RuntimeError(
                "the watchdog of this run was killed: start the run again"
            ) from error
