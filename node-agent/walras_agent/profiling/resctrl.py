"""Facts: how much data a pod moves between caches and memory, where the processor counts that.

By the kernel's resctrl file system (``Documentation/filesystems/resctrl.rst``, "Monitoring"): a
monitoring group counts for the tasks in it and for those that they start. The groups that are made
here are called ``walras-*``; what a killed agent left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from walras_agent.tree import CgroupError, Setting, below

if TYPE_CHECKING:
    from walras_agent.tree import Cgroups

ROOT = Path("/sys/fs/resctrl")
_NAME = "walras-profiling"
_ROUNDS = 5
_TASKS = {1: "tasks", 2: "cgroup.threads"}


@dataclass(frozen=True, slots=True)
class MemoryTraffic:
    """A monitoring group with the tasks of a pod."""

    folder: Path

    @classmethod
    def open(cls, cgroups: Cgroups, group: str, root: Path = ROOT) -> MemoryTraffic | None:
        """Count from now on for all tasks of a group and of the groups inside.

        Returns:
            None where it cannot be counted: no such processor, file system not mounted, all of its
            counters in use, or the tasks are in a control group of somebody else.
        """
        groups = root / "mon_groups"
        if not groups.is_dir():
            return None
        remove_stale(root)
        traffic = cls(groups / _NAME)
        try:
            _make(traffic.folder)
        except OSError:
            return None
        try:
            traffic._admit(cgroups, group)
            traffic._sum()
        except (OSError, ValueError):
            traffic.close()
            return None
        return traffic

    def read(self) -> float | None:
        """Bytes so far; None when the processor has lost count."""
        try:
            return self._sum()
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Remove the group; its tasks fall back to the one above."""
        with contextlib.suppress(OSError):
            _remove(self.folder)

    def _sum(self) -> float:
        """Over all domains.

        Raises:
            ValueError: A file has no number, but ``Unavailable`` or ``Error``; or there is none.
        """
        files = sorted(self.folder.glob("mon_data/mon_L3_*/mbm_total_bytes"))
        if not files:
            raise ValueError(f"{self.folder} counts no bytes")
        return float(sum(int(file.read_text(encoding="ascii")) for file in files))

    def _admit(self, cgroups: Cgroups, group: str) -> None:
        """Take in all tasks; again while some have been started by others not yet in."""
        admitted: set[str] = set()
        for _ in range(_ROUNDS):
            new = _tasks(cgroups, group) - admitted
            if not new:
                return
            with (self.folder / "tasks").open("ab", buffering=0) as file:
                for task in sorted(new, key=int):
                    self._write(file.fileno(), task)
            admitted |= new

    @staticmethod
    def _write(descriptor: int, task: str) -> None:
        try:
            os.write(descriptor, f"{task}\n".encode("ascii"))
        except OSError as error:
            if error.errno != errno.ESRCH:  # it has ended meanwhile
                raise


def remove_stale(root: Path = ROOT) -> None:
    """Remove the groups of an agent that was killed."""
    for folder in (root / "mon_groups").glob("walras-*"):
        with contextlib.suppress(OSError):
            _remove(folder)


def _tasks(cgroups: Cgroups, group: str) -> set[str]:
    tasks: set[str] = set()
    for each in (group, *below(cgroups, group)):
        with contextlib.suppress(CgroupError):
            listed = cgroups.read(Setting("cpuset", each, _TASKS[cgroups.version]))
            tasks.update(task for task in listed.split() if task != "0")
    return tasks


def _make(folder: Path) -> None:
    folder.mkdir()


def _remove(folder: Path) -> None:
    folder.rmdir()
