"""Facts: which processes belong to a job, found without a cgroup.

The kernel keeps no such list, so three traces are followed: the parent, the process group that
a member leads or led, and the environment marker, which also finds daemons that forked twice
and left group and parent behind. A process that rids itself of all three between two scans is
lost, and one that lives shorter than a scan (about a millisecond per hundred processes of the
machine) is never seen; only a cgroup holds these.
"""

from __future__ import annotations

import errno
import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from walras_agent import procfs

if TYPE_CHECKING:
    from walras_agent.procfs import Process


class ProcessFamily:
    """The processes of one job, followed from scan to scan.

    Args:
        marker: The environment variable of the job's processes, as ``NAME=value``.
    """

    def __init__(self, marker: str) -> None:
        self._marker = marker.encode()
        # Nothing that started earlier can carry the marker: spares reading its environment.
        self._since = int(time.clock_gettime(time.CLOCK_BOOTTIME) * procfs.TICKS_PER_SECOND)
        self._members: dict[int, Process] = {}
        self._groups: set[int] = set()
        self._ticks_of_gone = 0
        self._ticks = 0

    def add(self, pid: int) -> None:
        """Make a process and its descendants members.

        Raises:
            ProcessLookupError: There is no such process.
        """
        process = procfs.read_process(pid)
        if process is None:
            raise ProcessLookupError(errno.ESRCH, "gone before it could be placed")
        self._members[pid] = process

    def scan(self) -> tuple[Process, ...]:
        """Find the members that are alive now, oldest first."""
        table = {process.pid: process for process in procfs.processes()}
        still = {pid for pid, was in self._members.items() if _is_same(was, table.get(pid))}
        self._groups = {
            group
            for group in self._groups
            # Its number is not given to a new process before its last process is gone.
            if (group in still if group in table else _has_processes(group))
        }
        marked = {
            process.pid
            for process in table.values()
            if process.pid not in still
            and process.start >= self._since
            and procfs.has_variable(process.pid, self._marker)
        }
        self._update({pid: table[pid] for pid in self._descend(table, still | marked)})
        alive = (process for process in self._members.values() if process.alive)
        return tuple(sorted(alive, key=lambda process: (process.start, process.pid)))

    @property
    def groups(self) -> frozenset[int]:
        """The process groups that members made and that have processes, as of the last scan.

        They hold also the processes that live too short to be seen.
        """
        return frozenset(self._groups)

    def cpu_seconds(self) -> float:
        """CPU time of all members ever seen, as of the last scan; never decreases.

        What a member used between the last scan and its end is only known if a member waited
        for it.
        """
        return self._ticks / procfs.TICKS_PER_SECOND

    def _descend(self, table: dict[int, Process], seeds: set[int]) -> set[int]:
        """The seeds, their descendants and all in the process groups that these lead."""
        reached_from: dict[int, list[int]] = defaultdict(list)
        for process in table.values():
            reached_from[process.parent].append(process.pid)
            reached_from[process.group].append(process.pid)
        members, frontier = set(seeds), [*seeds, *self._groups]
        while frontier:
            new = set(reached_from[frontier.pop()]) - members
            members |= new
            frontier.extend(new)
        return members

    def _update(self, members: dict[int, Process]) -> None:
        for pid, was in self._members.items():
            # A parent that waited has the time of a gone child in its own; others lose it.
            if not _is_same(was, members.get(pid)) and was.parent not in members:
                self._ticks_of_gone += was.ticks
        self._members = members
        self._groups |= {process.group for process in members.values() if process.group in members}
        now = self._ticks_of_gone + sum(process.ticks for process in members.values())
        self._ticks = max(self._ticks, now)


def _is_same(was: Process, now: Process | None) -> bool:
    return now is not None and now.start == was.start


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
