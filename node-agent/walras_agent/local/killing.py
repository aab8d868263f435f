"""Effects: kills a process that was found by its PID, and never one that got the PID since."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def kill_if(pid: int, is_meant: Callable[[], bool]) -> None:
    """Send SIGKILL to a process, if it is the one that is meant.

    One that has ended or belongs to another user is passed over. A pidfd holds on to the process
    while `is_meant` looks at it, so that the signal reaches nobody else. Without pidfds (before
    Linux 5.3, or where a sandbox forbids them), a PID could change hands right after that look.

    Args:
        pid: Its PID.
        is_meant: Looks at the process with this PID now, and says whether it is meant.
    """
    with suppress(ProcessLookupError, PermissionError), ExitStack() as held:
        handle = _pidfd(pid)
        if handle is not None:
            held.callback(os.close, handle)
        if not is_meant():
            return
        if handle is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(handle, signal.SIGKILL)


def _pidfd(pid: int) -> int | None:
    """Return a pidfd of a process, or None where there are none.

    Raises:
        ProcessLookupError: The process has ended.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # neither every build of Python nor every kernel has them
        return None
