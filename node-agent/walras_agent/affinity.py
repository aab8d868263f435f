"""Apply: jobs held to CPUs by the affinity of their threads, for users who are not root.

sched_setaffinity(2) moves one thread; a child has the affinity its parent had when the fork
began, and cannot be seen before the fork is over. A job is therefore moved in passes until one
finds nothing left to move, and what shows up later is moved by the next call of ``place``. That
call also brings back threads that broke out: unlike a cpuset, affinity does not bind.
"""

from __future__ import annotations

import math
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from walras_agent import procfs, runs
from walras_agent.cpuset import CpuSet
from walras_agent.family import ProcessFamily
from walras_agent.runs import PlacementError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_agent.procfs import Process

# Enough for any program that does not undo the placement itself; those are met again next time.
_PASSES = 20

# Lets forks that had begun before a pass show their children in the next.
_PAUSE_SECONDS = 0.002

_KILL_SECONDS = 5.0

# sched_prio_to_weight of kernel/sched/core.c for nice 0 to 19.
_WEIGHT_OF_NICE = (
    *(1024, 820, 655, 526, 423, 335, 272, 215, 172, 137),
    *(110, 87, 70, 56, 45, 36, 29, 23, 18, 15),
)
_DEFAULT_WEIGHT = 100


def nice_of(weight: int) -> int:
    """The nice value from 0 to 19 whose kernel weight is closest in ratio to ``weight``/100."""
    target = weight / _DEFAULT_WEIGHT * _WEIGHT_OF_NICE[0]
    distance = [abs(math.log(kernel / target)) for kernel in _WEIGHT_OF_NICE]
    return distance.index(min(distance))


class AffinityPlacer:
    """Places jobs by CPU affinity and nice values; see ``placement.Placer``."""

    description = "CPU affinity"

    def __init__(self, run: str) -> None:
        self._run = runs.checked_name(run)
        self._groups: dict[str, AffinityGroup] = {}

    def open(self, name: str) -> AffinityGroup:
        """Make the group of one job."""
        before = self._groups.get(runs.checked_name(name))
        if before is not None and not before.closed:
            raise PlacementError(f"{name}: a job of this name is already placed; rename one")
        self._groups[name] = AffinityGroup(self._run, name)
        return self._groups[name]

    def close(self) -> None:
        """Kill what all groups still hold, also if one resists."""
        with ExitStack() as closing:
            for group in self._groups.values():
                closing.callback(group.close)
        self._groups.clear()


class AffinityGroup:
    """One job's processes; see ``placement.Group``."""

    def __init__(self, run: str, name: str) -> None:
        self.environment: Mapping[str, str] = runs.marker(run, name)
        self.closed = False
        self._name = name
        self._family = ProcessFamily(f"{runs.MARKER}={run}/{name}")
        self._cpus: CpuSet | None = None
        # What members had before the last move, and forks under way may still bring.
        self._left: set[CpuSet] = set()
        self._nice = 0
        # Relative to the run's own nice value, so that ratios between jobs hold under nice(1).
        self._base_nice = os.getpriority(os.PRIO_PROCESS, 0)

    def admit(self, pid: int) -> None:
        """Take in a process, and all that it starts, at the present placement."""
        self._family.add(pid)
        if self._cpus is not None:
            self._hold_all([pid], self._cpus, news=True)

    def place(self, cpus: CpuSet, weight: int = _DEFAULT_WEIGHT) -> None:
        """Hold every thread of the job to ``cpus`` and raise its nice value to fit ``weight``.

        A thread that chose a part of these CPUs for itself is left there until ``cpus`` change:
        programs that bind each thread to a core of its own keep doing so.
        """
        if not cpus:
            raise ValueError(f"{self._name}: no CPU to be placed on")
        self._nice = min(19, self._base_nice + nice_of(runs.checked_weight(self._name, weight)))
        news = cpus != self._cpus
        if news:
            self._left = {self._cpus} if self._cpus else set()
        for _ in range(_PASSES):
            members = self._family.scan()
            if not self._hold_all((process.pid for process in members), cpus, news=news):
                break
            time.sleep(_PAUSE_SECONDS)
        for process in members:
            self._set_autogroup(process)
        self._cpus = cpus

    def pids(self) -> tuple[int, ...]:
        """The processes of the job that are alive, oldest first."""
        return tuple(process.pid for process in self._family.scan())

    def cpu_seconds(self) -> float:
        """User and system time so far; misses what unseen processes used."""
        self._family.scan()
        return self._family.cpu_seconds()

    def kill(self) -> None:
        """Kill all processes of the job, whole process groups at a time.

        The kernel signals a process group under the lock that fork takes, so one that keeps
        forking is caught whole, processes that no scan sees included.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while True:
            members = self._family.scan()
            for group in self._family.groups:
                _signal(-group)
            for process in members:
                _signal(process.pid)
            if not members:
                return
            if time.monotonic() > deadline:
                listed = ", ".join(str(process.pid) for process in members[:5])
                raise PlacementError(
                    f"{self._name}: processes {listed} outlive SIGKILL; end them by hand"
                )
            time.sleep(0.005)

    def close(self) -> None:
        """Kill the job; nothing else is left behind."""
        self.kill()
        self.closed = True

    def _hold_all(self, pids: Iterable[int], cpus: CpuSet, *, news: bool) -> bool:
        """Hold all threads that can be; True if there may be more to move.

        So there may when one had to be moved, or was gone before: what it has started meanwhile
        has the affinity it had.

        Raises:
            PlacementError: Some could not be held; the message is about the first of them.
        """
        more, refusals = False, list[PlacementError]()
        for pid in pids:
            threads = procfs.threads(pid)
            more |= news and not threads
            for thread in threads:
                try:
                    more |= self._hold(thread, cpus, news=news)
                except ProcessLookupError:
                    more |= news
                except PlacementError as refusal:
                    refusals.append(refusal)
        if refusals:
            raise refusals[0]
        return more

    def _hold(self, thread: int, cpus: CpuSet, *, news: bool) -> bool:
        """Set a thread's affinity and nice value; True if it had to be moved."""
        try:
            if os.getpriority(os.PRIO_PROCESS, thread) < self._nice:
                os.setpriority(os.PRIO_PROCESS, thread, self._nice)
            allowed = CpuSet(os.sched_getaffinity(thread))
            if allowed == cpus or (not news and self._chose_itself(allowed, cpus)):
                return False
            os.sched_setaffinity(thread, cpus)
            granted = CpuSet(os.sched_getaffinity(thread))
        except ProcessLookupError:
            raise
        except OSError as error:
            raise PlacementError(
                f"{self._name}: thread {thread} cannot be moved to CPUs {cpus}: {error.strerror}; "
                "place jobs as the user they run as, on CPUs this process is allowed"
            ) from error
        if granted != cpus:
            raise PlacementError(
                f"{self._name}: CPUs {cpus} were asked for, the kernel allows only {granted}; "
                "choose among CPUs that are online and allowed"
            )
        if news:
            self._left.add(allowed)
        return True

    def _chose_itself(self, allowed: CpuSet, cpus: CpuSet) -> bool:
        """Whether a thread set its affinity itself, within bounds, and did not miss the move."""
        return allowed <= cpus and allowed not in self._left

    def _set_autogroup(self, process: Process) -> None:
        """Carry the nice value over to the session, where the kernel compares whole sessions.

        With autogrouping (sched(7)) nice values count only within a session. The kernel takes
        one such write in 0.1 s from ordinary users; the next call of ``place`` tries again.
        """
        if process.pid != process.session:
            return
        file = Path(f"/proc/{process.pid}/autogroup")
        try:
            state = file.read_text(encoding="ascii").split()
            if state and int(state[-1]) != self._nice:
                file.write_text(f"{self._nice}\n", encoding="ascii")
        except OSError:
            return


def _signal(target: int) -> None:
    try:
        os.kill(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # gone, or of another user: the next scan tells
