"""Leaves nothing behind: a watchdog process that outlives the run by a moment.

Python's own clean-up does not run when the process is killed (`kill -9`, the kernel's OOM
killer). So each run starts one small process in a session of its own, which Ctrl-C does not reach.
It holds the read end of a pipe; however the run ends, the pipe ends with it, and the
watchdog kills what is left of the run and removes its cgroups and temporary folders.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from walras_agent.local.runs import MARKER, checked_name
from walras_profiler._reaper import FOLDER_PREFIX, PATIENCE_SECONDS, STARTED, stat_fields

_SCRIPT = Path(__file__).with_name("_reaper.py")


class Reaper:
    """The watchdog of one run; closing it is also how the run cleans up when all went well.

    Args:
        run_id: The run's id, which its processes carry in their marker and its cgroups in their
            name (``walras-<run id>``).

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
        """Have the session that `pid` leads killed, also processes that shed their marker."""
        stat = stat_fields(pid)
        if stat is not None:
            self._tell(f"session {pid} {stat[STARTED]}")

    def guard_folder(self, folder: Path) -> None:
        """Have a temporary folder removed.

        Raises:
            ValueError: The folder's name does not begin with ``walras-``, or holds a line break.
        """
        path = str(folder.absolute())
        if not folder.name.startswith(FOLDER_PREFIX) or "\n" in path:
            raise ValueError(f"folder {path!r}: only folders named {FOLDER_PREFIX}* are removed")
        self._tell(f"folder {path}")

    def guard_container(self, name: str, socket: Path) -> None:
        """Have a container of the Docker daemon at that Unix socket killed and removed."""
        self._tell(f"container {name} {socket}")

    def close(self) -> None:
        """Have everything cleaned up now and wait until it is; may be called again."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(3 * PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _tell(self, line: str) -> None:
        """Pass one line on; a watchdog that was killed leaves the run without its safety net."""
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
