"""Facts: finds the processes of a job without a cgroup.

A process belongs to a job by its parent, by a process group that a member leads or led, or by a
variable in its environment, which also finds daemons that forked twice and changed group and
parent. A process that loses all three between two scans is lost, and one that lives shorter than a
scan (about a millisecond per hundred processes of the machine) is never seen; only a cgroup
contains these.
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


class JobProcesses:
    """The processes of one job, updated by every scan.

    Args:
        marker: Environment variable of the job's processes, as ``NAME=value``.
    """

    def __init__(self, marker: str) -> None:
        self._marker = marker.encode()
        # Processes that started earlier cannot have the marker, so their environment is not read.
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
            raise ProcessLookupError(errno.ESRCH, "ended before it could be placed")
        self._members[pid] = process

    def scan(self) -> tuple[Process, ...]:
        """Return the members that are alive now, oldest first."""
        table = {process.pid: process for process in procfs.processes()}
        still = {pid for pid, was in self._members.items() if _is_same(was, table.get(pid))}
        self._groups = {
            group
            for group in self._groups
            # The number of a group is not reused before its last process has ended.
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
        """Process groups that members created and that had processes in the last scan.

        They include processes that live too short to be seen.
        """
        return frozenset(self._groups)

    def cpu_seconds(self) -> float:
        """Return the CPU time in seconds of all members ever seen, as of the last scan.

        It never decreases. The time of a member between its last scan and its end is only known if
        another member waited for it.
        """
        return self._ticks / procfs.TICKS_PER_SECOND

    def _descend(self, table: dict[int, Process], seeds: set[int]) -> set[int]:
        """Return the seeds, their descendants and all in process groups that these lead."""
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
            # The time of an ended child is part of its parent's only if that waited for it.
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
