"""Facts: whether this kernel counts the weight of a group once for each CPU that it runs on.

Up to version 6, the kernel divides a group's weight among these CPUs. From 7 on, that is a mode
among others, of which ``concur`` is the default (``/sys/kernel/debug/sched/cgroup_mode``).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_FIRST = 7


def counts_for_each_cpu(root: Path = Path("/"), release: str = os.uname().release) -> bool:
    """Return whether weights count once for each CPU.

    Args:
        root: Folder that contains ``sys``.
        release: Release of the kernel.
    """
    try:
        modes = (root / "sys/kernel/debug/sched/cgroup_mode").read_text(encoding="ascii")
    except OSError:  # debugfs is seldom mounted in a container
        version = re.match(r"\d+", release)
        return version is not None and int(version[0]) >= _FIRST
    return "(concur)" in modes
