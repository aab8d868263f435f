"""Apply: groups of jobs without cgroups, for users who are not root: CPUs are held by affinity.

`AffinityGroups` answers as cgroup v1 would, so that the same enforcer works on it: a job's cpuset
is the affinity of all its threads, and its ``cpu.shares`` are their nice value, which the kernel
weighs in the same unit.

sched_setaffinity(2) moves one thread; a child has the affinity its parent had when the fork
began, and cannot be seen before the fork is over. A job is therefore moved in passes until one
finds nothing left to move, and what shows up later is moved by the next call of `keep`. That
call also brings back threads that broke out: unlike a cpuset, affinity does not bind.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras_agent import procfs
from walras_agent.cpuset import CpuSet
from walras_agent.local.family import ProcessFamily
from walras_agent.local.runs import MARKER, PlacementError, Run, container_of
from walras_agent.moves import CPUS
from walras_agent.observe import EFFECTIVE
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras_agent.procfs import Process

SHARES = "cpu.shares"
PROCS = "cgroup.procs"

# Enough for any program that does not undo the placement itself; those are met again next time.
_PASSES = 20

# Lets forks that had begun before a pass show their children in the next.
_PAUSE_SECONDS = 0.002

# A process that is killed has to run once more to end, and on a busy machine waits for that.
_KILL_SECONDS = 60.0

# sched_prio_to_weight of kernel/sched/core.c for nice 0 to 19.
_SHARES_OF_NICE = (
    *(1024, 820, 655, 526, 423, 335, 272, 215, 172, 137),
    *(110, 87, 70, 56, 45, 36, 29, 23, 18, 15),
)


def nice_of(shares: int) -> int:
    """The nice value from 0 to 19 whose kernel weight is closest in ratio to ``cpu.shares``."""
    distance = [abs(math.log(weight / shares)) for weight in _SHARES_OF_NICE]
    return distance.index(min(distance))


class AffinityGroups:
    """The groups of one run's jobs; see `placement.Groups`."""

    description = "CPU affinity"
    version: Literal[1, 2] = 1

    def __init__(self, run: Run) -> None:
        self._run = run
        self._all = CpuSet(os.sched_getaffinity(0))
        self._jobs: dict[str, _Job] = {}  # by the group of their processes
        self._numbers = itertools.count(1)

    def read(self, setting: Setting) -> str:
        """See `Cgroups`."""
        tasks, pod = self._at(setting.group)
        if setting.file in {CPUS, EFFECTIVE[1]} and self.identity(setting.group) is not None:
            return str(tasks.cpus if tasks else self._all)
        if setting.file == SHARES and pod:
            return str(pod.shares)
        raise CgroupError(setting, errno.ENOENT)

    def write(self, setting: Setting, value: str) -> None:
        """See `Cgroups`."""
        tasks, pod = self._at(setting.group)
        try:
            if setting.file == CPUS and tasks:
                tasks.move(self._checked(CpuSet.parse(value)))
            elif setting.file == PROCS and tasks:
                tasks.admit(int(value))
            elif setting.file == SHARES and pod:
                pod.weigh(int(value))
            else:
                raise PermissionError(errno.EACCES, "only these are there to be written")
        except OSError as error:
            raise CgroupError(setting, error.errno or 0, value) from error

    def identity(self, group: str) -> int | None:
        """See `Cgroups`; the two groups of a job are one here."""
        job = next(filter(None, self._at(group)), None)
        if job is None:
            return 0 if group == self._run.group else None
        return job.number

    def children(self, group: str) -> tuple[str, ...]:
        """See `Cgroups`."""
        if group == self._run.group:
            return tuple(sorted(tasks.rpartition("/")[0] for tasks in self._jobs))
        return (container_of(group),) if container_of(group) in self._jobs else ()

    def make(self, pod: str) -> None:
        """Make the group of a job."""
        if container_of(pod) in self._jobs:
            raise PlacementError(f"{pod} cannot be made: {os.strerror(errno.EEXIST)}")
        family = ProcessFamily(f"{MARKER}={self._run.id}/{self._run.job(pod)}")
        self._jobs[container_of(pod)] = _Job(family, next(self._numbers), self._all)

    def admit(self, pod: str, pid: int) -> None:
        """Take in a process, and all that it starts, at the present placement."""
        self.write(Setting("cpuset", container_of(pod), PROCS), str(pid))

    def keep(self) -> None:
        """Hold every thread to where its job was moved, also those that came or went since."""
        for job in self._jobs.values():
            # Who could not be held is on more CPUs than it should be, and that can be read.
            with suppress(OSError):
                job.keep()

    def cpu_seconds(self, group: str) -> float:
        """User and system time of a group's jobs so far; misses what unseen processes used."""
        return sum(job.cpu_seconds() for job in self._below(group))

    def kill(self, group: str) -> None:
        """Kill all processes of a group's jobs, also if one of these resists."""
        with ExitStack() as killing:
            for job in self._below(group):
                killing.callback(job.kill)

    def remove(self, group: str) -> None:
        """Forget a group and all below it; one that is gone is fine."""
        for tasks in [each for each in self._jobs if each.startswith(f"{group}/")]:
            del self._jobs[tasks]

    def _at(self, group: str) -> tuple[_Job | None, _Job | None]:
        """The job whose processes are in a group, and the one whose pod it is."""
        return self._jobs.get(group), self._jobs.get(container_of(group))

    def _below(self, group: str) -> list[_Job]:
        return [job for tasks, job in self._jobs.items() if tasks.startswith(f"{group}/")]

    def _checked(self, cpus: CpuSet) -> CpuSet:
        if not cpus or not cpus <= self._all:
            raise OSError(errno.EINVAL, "not CPUs that this process may use")
        return cpus


class _Job:
    """The processes of one job, held to CPUs and a nice value."""

    def __init__(self, family: ProcessFamily, number: int, cpus: CpuSet) -> None:
        self.number = number
        self.shares = _SHARES_OF_NICE[0]
        self._family = family
        self._cpus = cpus
        # Where else its threads may be, since they could not be moved.
        self._astray = CpuSet()
        # What members had before the last move, and forks under way may still bring.
        self._left: set[CpuSet] = set()
        # Relative to the run's own nice value, so that ratios between jobs hold under nice(1).
        self._nice = self._base_nice = os.getpriority(os.PRIO_PROCESS, 0)

    @property
    def cpus(self) -> CpuSet:
        """The CPUs that it may use."""
        return self._cpus | self._astray

    def admit(self, pid: int) -> None:
        self._family.add(pid)
        self._hold_all([pid], self._cpus, news=True)

    def move(self, cpus: CpuSet) -> None:
        """Move every thread to ``cpus``.

        A thread that chose a part of these CPUs for itself is left there until ``cpus`` change:
        programs that bind each thread to a core of its own keep doing so.

        Raises:
            OSError: Some could not be moved; all others are where they were.
        """
        news = cpus != self._cpus
        if news:
            self._left = {self._cpus}
        try:
            self._hold_members(cpus, news=news)
        except OSError:
            with suppress(OSError):
                self._hold_members(self._cpus, news=news)
            raise
        self._cpus = cpus

    def weigh(self, shares: int) -> None:
        """Raise the nice value of every thread to fit; the kernel lets nobody lower it again."""
        self.shares = shares
        self._nice = min(19, self._base_nice + nice_of(shares))
        self.keep()

    def keep(self) -> None:
        self._hold_members(self._cpus, news=False)

    def cpu_seconds(self) -> float:
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
            groups = [-group for group in self._family.groups]
            for target in (*groups, *(process.pid for process in members)):
                # It may be gone, or of another user: the next scan tells.
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(target, signal.SIGKILL)
            if not members:
                return
            if time.monotonic() > deadline:
                listed = ", ".join(str(process.pid) for process in members[:5])
                raise PlacementError(f"processes {listed} outlive SIGKILL; end them by hand")
            time.sleep(0.005)

    def _hold_members(self, cpus: CpuSet, *, news: bool) -> None:
        self._astray = CpuSet()
        for _ in range(_PASSES):
            members = self._family.scan()
            if not self._hold_all((process.pid for process in members), cpus, news=news):
                break
            time.sleep(_PAUSE_SECONDS)
        for process in members:
            self._set_autogroup(process)

    def _hold_all(self, pids: Iterable[int], cpus: CpuSet, *, news: bool) -> bool:
        """Hold all threads that can be; True if there may be more to move.

        So there may when one had to be moved, or was gone before: what it has started meanwhile
        has the affinity it had.

        Raises:
            OSError: Some could not be held; it is about the first of them.
        """
        more, refusals = False, list[OSError]()
        for pid in pids:
            threads = procfs.threads(pid)
            more |= news and not threads
            for thread in threads:
                try:
                    more |= self._hold(thread, cpus, news=news)
                except ProcessLookupError:
                    more |= news
                except OSError as refusal:
                    refusals.append(refusal)
                    with suppress(OSError):
                        self._astray |= CpuSet(os.sched_getaffinity(thread))
        if refusals:
            raise refusals[0]
        return more

    def _hold(self, thread: int, cpus: CpuSet, *, news: bool) -> bool:
        """Set a thread's affinity and nice value; True if it had to be moved."""
        if os.getpriority(os.PRIO_PROCESS, thread) < self._nice:
            os.setpriority(os.PRIO_PROCESS, thread, self._nice)
        allowed = CpuSet(os.sched_getaffinity(thread))
        if allowed == cpus or (not news and self._chose_itself(allowed, cpus)):
            return False
        os.sched_setaffinity(thread, cpus)
        # Of CPUs that a cpuset does not allow the kernel says nothing.
        if CpuSet(os.sched_getaffinity(thread)) != cpus:
            raise OSError(errno.EINVAL, "not all of these CPUs are allowed")
        if news:
            self._left.add(allowed)
        return True

    def _chose_itself(self, allowed: CpuSet, cpus: CpuSet) -> bool:
        """Whether a thread set its affinity itself, within bounds, and did not miss the move."""
        return allowed <= cpus and allowed not in self._left

    def _set_autogroup(self, process: Process) -> None:
        """Carry the nice value over to the session, where the kernel compares whole sessions.

        With autogrouping (sched(7)) nice values count only within a session. The kernel takes
        one such write in 0.1 s from ordinary users; the next call of ``keep`` tries again.
        """
        if process.pid != process.session:
            return
        file = Path(f"/proc/{process.pid}/autogroup")
        with suppress(OSError):
            state = file.read_text(encoding="ascii").split()
            if state and int(state[-1]) != self._nice:
                file.write_text(f"{self._nice}\n", encoding="ascii")
