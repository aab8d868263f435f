"""Effects: pins threads to CPUs by sched_setaffinity(2)."""

from __future__ import annotations

import errno
import os

from walras_agent.cpuset import CpuSet


def set_affinity(thread: int, cpus: CpuSet) -> None:
    """Pin a thread to CPUs.

    Raises:
        ProcessLookupError: The thread has ended.
        OSError: The thread may not use all of these CPUs.
    """
    os.sched_setaffinity(thread, cpus)
    # The kernel silently drops CPUs that the cpuset does not allow.
    if CpuSet(os.sched_getaffinity(thread)) != cpus:
        raise OSError(errno.EINVAL, "not all of these CPUs are allowed")
