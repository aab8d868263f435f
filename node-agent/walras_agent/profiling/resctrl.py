"""Effects: counts the bytes that a pod moves between caches and memory, by a monitoring group.

It uses the kernel's resctrl file system (``Documentation/filesystems/resctrl.rst``, "Monitoring"):
a monitoring group counts for the tasks that are written to it and for those that they start. The
groups made here are named ``walras-*``; those that a killed agent left are removed by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from walras_agent.tree import CgroupError, CgroupFile, descendants

if TYPE_CHECKING:
    from walras_agent.tree import Cgroups

ROOT = Path("/sys/fs/resctrl")
_NAME = "walras-profiling"
_MAX_ROUNDS = 5
_TASKS = {1: "tasks", 2: "cgroup.threads"}


@dataclass(frozen=True, slots=True)
class MemoryTraffic:
    """A resctrl monitoring group with the tasks of a pod.

    Attributes:
        folder: Path of the monitoring group.
    """

    folder: Path

    @classmethod
    def open(cls, cgroups: Cgroups, group: str, root: Path = ROOT) -> MemoryTraffic | None:
        """Start to count for all tasks of a cgroup and its descendants.

        Returns:
            The open counter; None where nothing can be counted: the processor lacks the feature,
            resctrl is not mounted, all counters are in use, or the tasks belong to another control
            group.
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
            traffic._add_tasks(cgroups, group)
            traffic._sum()
        except (OSError, ValueError):
            traffic.close()
            return None
        return traffic

    def read(self) -> float | None:
        """Return the bytes so far; None when the processor has lost count."""
        try:
            return self._sum()
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Remove the monitoring group; its tasks fall back to its parent."""
        with contextlib.suppress(OSError):
            _remove(self.folder)

    def _sum(self) -> float:
        """Return the bytes of all domains.

        Raises:
            ValueError: There is no file, or one has ``Unavailable`` or ``Error`` for a number.
        """
        files = sorted(self.folder.glob("mon_data/mon_L3_*/mbm_total_bytes"))
        if not files:
            raise ValueError(f"{self.folder} counts no bytes")
        return float(sum(int(file.read_text(encoding="ascii")) for file in files))

    def _add_tasks(self, cgroups: Cgroups, group: str) -> None:
        """Add all tasks; repeat, because a task that is not yet added may start another one."""
        added: set[str] = set()
        for _ in range(_MAX_ROUNDS):
            new = _tasks(cgroups, group) - added
            if not new:
                return
            with (self.folder / "tasks").open("ab", buffering=0) as file:
                for task in sorted(new, key=int):
                    self._write(file.fileno(), task)
            added |= new

    @staticmethod
    def _write(descriptor: int, task: str) -> None:
        try:
            os.write(descriptor, f"{task}\n".encode("ascii"))
        except OSError as error:
            if error.errno != errno.ESRCH:  # the task has ended
                raise


def remove_stale(root: Path = ROOT) -> None:
    """Remove the monitoring groups of an agent that was killed."""
    for folder in (root / "mon_groups").glob("walras-*"):
        with contextlib.suppress(OSError):
            _remove(folder)


def _tasks(cgroups: Cgroups, group: str) -> set[str]:
    tasks: set[str] = set()
    for each in (group, *descendants(cgroups, group)):
        with contextlib.suppress(CgroupError):
            listed = cgroups.read(CgroupFile("cpuset", each, _TASKS[cgroups.version]))
            tasks.update(task for task in listed.split() if task != "0")
    return tasks


def _make(folder: Path) -> None:
    folder.mkdir()


def _remove(folder: Path) -> None:
    folder.rmdir()
