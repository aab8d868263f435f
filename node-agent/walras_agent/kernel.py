"""Facts: reads which kernel a node has, and how it counts the weight of a group on several CPUs.

Linux has the file ``sched/cgroup_mode`` in debugfs from version 7.0 on. It lists all modes, the
present one in parentheses: ``up smp (concur) max tasks``. Older kernels do what ``smp`` does: a
weight counts once, and is spread over the CPUs on which the group's threads run. The default of
newer ones is ``concur``: it counts once for each thread that runs at the same time.

A container sees its own ``/sys``, without debugfs. An agent that may look at other processes'
roots (the capability SYS_PTRACE) reads the file there; elsewhere, the version decides.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ONCE = "smp"
"""The mode of all kernels before 7.0."""

MODES_SINCE = 7
"""Major version of the first kernel with modes."""

DEFAULT = "concur"
"""The mode of a kernel with modes whose administrator chose none."""

FOLDERS = ("sys/kernel/debug/sched", "proc/1/root/sys/kernel/debug/sched")


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel of a node.

    Attributes:
        release: Release, such as ``6.12.57``.
        cgroup_mode: How it counts the weight of a group that runs on several CPUs.
        assumed: Whether the mode is the default of the release, since it cannot be read.
    """

    release: str
    cgroup_mode: str
    assumed: bool

    @property
    def counts_for_each_cpu(self) -> bool:
        """Whether a group's weight counts once for each CPU that the group runs on."""
        return self.cgroup_mode == DEFAULT


def read_kernel(root: Path = Path("/")) -> Kernel | None:
    """Return the kernel that runs; None if its release is hidden.

    Args:
        root: Folder that contains ``proc`` and ``sys``.
    """
    with suppress(OSError):
        release = (root / "proc/sys/kernel/osrelease").read_text().strip()
        mode = _mode(root)
        if mode is not None:
            return Kernel(release, mode, assumed=False)
        major = re.match(r"\d+", release)
        if major is None or int(major[0]) < MODES_SINCE:
            return Kernel(release, ONCE, assumed=False)
        return Kernel(release, DEFAULT, assumed=True)
    return None


def _mode(root: Path) -> str | None:
    """Return the mode that the kernel shows, `ONCE` if it has no modes; None if it is hidden."""
    for folder in FOLDERS:
        with suppress(OSError):
            files = {each.name: each for each in (root / folder).iterdir()}
            if "cgroup_mode" not in files:
                return ONCE
            chosen = re.search(r"\((\w+)\)", files["cgroup_mode"].read_text())
            if chosen is not None:
                return chosen[1]
    return None
