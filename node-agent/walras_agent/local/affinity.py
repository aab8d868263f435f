"""Effects: pins jobs by CPU affinity and nice value, for users who may not use cgroups.

`AffinityGroups` has the interface of cgroup v1, so that the same enforcer works on it: a job's
cpuset is the affinity of all its threads, and its ``cpu.shares`` are their nice value, for which
the kernel uses the same unit of weight.

sched_setaffinity(2) moves one thread; a child inherits the affinity that its parent had when the
fork began, and is not visible before the fork is over. So a job is moved in passes until one finds
no thread to move, and the next call of `keep` moves what appears later. That call also moves
threads back that changed their affinity: unlike a cpuset, it does not bind.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import signal
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walras_agent import procfs
from walras_agent.cpuset import CpuSet
from walras_agent.local.killing import kill_if
from walras_agent.local.processes import JobProcesses
from walras_agent.local.runs import PlacementError, Run, container_of, marker
from walras_agent.moves import CPUS
from walras_agent.observe import EFFECTIVE
from walras_agent.thread_affinity import set_affinity
from walras_agent.tree import CgroupError, CgroupFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walras_agent.procfs import Process

SHARES = "cpu.shares"
PROCS = "cgroup.procs"

# Enough for programs that do not change their affinity; others are moved again by the next call.
_PASSES = 20

# Until the next pass, in which the children of forks that had begun are visible.
_PAUSE_SECONDS = 0.002

# A killed process has to run once more to end, for which it waits on a busy machine.
_KILL_SECONDS = 60.0

# sched_prio_to_weight of kernel/sched/core.c for nice 0 to 19.
_SHARES_OF_NICE = (
    *(1024, 820, 655, 526, 423, 335, 272, 215, 172, 137),
    *(110, 87, 70, 56, 45, 36, 29, 23, 18, 15),
)


def nice_of(shares: int) -> int:
    """Return the nice value from 0 to 19 whose weight is closest in ratio to ``cpu.shares``."""
    distance = [abs(math.log(weight / shares)) for weight in _SHARES_OF_NICE]
    return distance.index(min(distance))


class AffinityGroups:
    """The groups of one run's jobs, by affinity (implements `placement.PlacementGroups`)."""

    description = "CPU affinity"
    weighs_threads = True
    version: Literal[1, 2] = 1

    def __init__(self, run: Run) -> None:
        self._run = run
        self._all = CpuSet(os.sched_getaffinity(0))
        self._jobs: dict[str, _Job] = {}  # by the group of their processes
        self._numbers = itertools.count(1)

    def read(self, setting: CgroupFile) -> str:
        """Return the text of a file; see `Cgroups`."""
        tasks, pod = self._at(setting.group)
        if setting.file in {CPUS, EFFECTIVE[1]} and self.identity(setting.group) is not None:
            return str(tasks.cpus if tasks else self._all)
        if setting.file == SHARES and pod:
            return str(pod.shares)
        raise CgroupError(setting, errno.ENOENT)

    def write(self, setting: CgroupFile, value: str) -> None:
        """Write a value to a file; see `Cgroups`."""
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
        """Return the number of a job, for both of its groups; see `Cgroups`."""
        job = next(filter(None, self._at(group)), None)
        if job is None:
            return 0 if group == self._run.group else None
        return job.number

    def children(self, group: str) -> tuple[str, ...]:
        """Return the child groups of a group; see `Cgroups`."""
        if group == self._run.group:
            return tuple(sorted(tasks.rpartition("/")[0] for tasks in self._jobs))
        return (container_of(group),) if container_of(group) in self._jobs else ()

    def make(self, pod: str) -> None:
        """Create the group of a job."""
        if container_of(pod) in self._jobs:
            raise PlacementError(f"{pod} cannot be created: {os.strerror(errno.EEXIST)}")
        ((name, value),) = marker(self._run.id, self._run.job(pod)).items()
        processes = JobProcesses(f"{name}={value}")
        self._jobs[container_of(pod)] = _Job(processes, next(self._numbers), self._all)

    def admit(self, pod: str, pid: int) -> None:
        """Add a process and its descendants to a job, and pin them to its CPUs."""
        self.write(CgroupFile("cpuset", container_of(pod), PROCS), str(pid))

    def keep(self) -> None:
        """Pin every thread of every job to the job's CPUs again."""
        for job in self._jobs.values():
            # A thread that could not be pinned shows in the CPUs that `read` returns.
            with suppress(OSError):
                job.keep()

    def cpu_seconds(self, group: str) -> float:
        """Return the CPU time of a group's jobs in seconds, without that of unseen processes."""
        return sum(job.cpu_seconds() for job in self._below(group))

    def kill(self, group: str) -> None:
        """Kill all processes of a group's jobs, even if one of the jobs cannot be killed."""
        with ExitStack() as killing:
            for job in self._below(group):
                killing.callback(job.kill)

    def remove(self, group: str) -> None:
        """Forget a group and all below it, if it exists."""
        for tasks in [each for each in self._jobs if each.startswith(f"{group}/")]:
            del self._jobs[tasks]

    def _at(self, group: str) -> tuple[_Job | None, _Job | None]:
        """Return the job whose processes are in a group, and the job whose pod it is."""
        return self._jobs.get(group), self._jobs.get(container_of(group))

    def _below(self, group: str) -> list[_Job]:
        return [job for tasks, job in self._jobs.items() if tasks.startswith(f"{group}/")]

    def _checked(self, cpus: CpuSet) -> CpuSet:
        if not cpus or not cpus <= self._all:
            raise OSError(errno.EINVAL, "not CPUs that this process may use")
        return cpus


class _Job:
    """The processes of one job, with their CPUs and nice value."""

    def __init__(self, processes: JobProcesses, number: int, cpus: CpuSet) -> None:
        self.number = number
        self.shares = _SHARES_OF_NICE[0]
        self._processes = processes
        self._cpus = cpus
        # Other CPUs of threads that could not be moved.
        self._unmoved = CpuSet()
        # CPUs of threads before the last move, which children of pending forks may still have.
        self._previous: set[CpuSet] = set()
        # Relative to the run's own nice value, so that ratios between jobs hold under nice(1).
        self._nice = self._base_nice = os.getpriority(os.PRIO_PROCESS, 0)

    @property
    def cpus(self) -> CpuSet:
        """CPUs that the job's threads may use."""
        return self._cpus | self._unmoved

    def admit(self, pid: int) -> None:
        self._processes.add(pid)
        self._pin_all([pid], self._cpus, changed=True)

    def move(self, cpus: CpuSet) -> None:
        """Move every thread to ``cpus``.

        A thread that pinned itself to some of these CPUs stays there until ``cpus`` change, so that
        programs may pin each thread to its own core.

        Raises:
            OSError: Some threads could not be moved; all others were moved back.
        """
        changed = cpus != self._cpus
        if changed:
            self._previous = {self._cpus}
        try:
            self._pin_members(cpus, changed=changed)
        except OSError:
            with suppress(OSError):
                self._pin_members(self._cpus, changed=changed)
            raise
        self._cpus = cpus

    def weigh(self, shares: int) -> None:
        """Raise the nice value of every thread to a weight; only root may lower it again."""
        self.shares = shares
        self._nice = min(19, self._base_nice + nice_of(shares))
        self.keep()

    def keep(self) -> None:
        self._pin_members(self._cpus, changed=False)

    def cpu_seconds(self) -> float:
        self._processes.scan()
        return self._processes.cpu_seconds()

    def kill(self) -> None:
        """Kill all processes of the job, by process group.

        The kernel signals a process group under the lock that fork takes, so one that keeps forking
        is killed as a whole, including processes that no scan sees.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while True:
            members = self._processes.scan()
            for group in self._processes.groups:
                # It may have ended, or belong to another user: the next scan shows.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)
            for process in members:
                kill_if(process.pid, partial(procfs.is_current, process))
            if not members:
                return
            if time.monotonic() > deadline:
                listed = ", ".join(str(process.pid) for process in members[:5])
                raise PlacementError(f"processes {listed} survive SIGKILL; end them by hand")
            time.sleep(0.005)

    def _pin_members(self, cpus: CpuSet, *, changed: bool) -> None:
        self._unmoved = CpuSet()
        for _ in range(_PASSES):
            members = self._processes.scan()
            if not self._pin_all((process.pid for process in members), cpus, changed=changed):
                break
            time.sleep(_PAUSE_SECONDS)
        for process in members:
            self._set_autogroup(process)

    def _pin_all(self, pids: Iterable[int], cpus: CpuSet, *, changed: bool) -> bool:
        """Pin all threads of some processes; True if there may be more threads to move.

        That is so if one had to be moved or has ended: what it started meanwhile has inherited its
        affinity.

        Raises:
            OSError: Some threads could not be pinned; the error of the first of them.
        """
        more, refusals = False, list[OSError]()
        for pid in pids:
            threads = procfs.threads(pid)
            more |= changed and not threads
            for thread in threads:
                try:
                    more |= self._pin(thread, cpus, changed=changed)
                except ProcessLookupError:
                    more |= changed
                except OSError as refusal:
                    refusals.append(refusal)
                    with suppress(OSError):
                        self._unmoved |= CpuSet(os.sched_getaffinity(thread))
        if refusals:
            raise refusals[0]
        return more

    def _pin(self, thread: int, cpus: CpuSet, *, changed: bool) -> bool:
        """Set a thread's affinity and nice value; True if it had to be moved."""
        if os.getpriority(os.PRIO_PROCESS, thread) < self._nice:
            os.setpriority(os.PRIO_PROCESS, thread, self._nice)
        allowed = CpuSet(os.sched_getaffinity(thread))
        if allowed == cpus or (not changed and self._chose_itself(allowed, cpus)):
            return False
        set_affinity(thread, cpus)
        if changed:
            self._previous.add(allowed)
        return True

    def _chose_itself(self, allowed: CpuSet, cpus: CpuSet) -> bool:
        """Whether a thread pinned itself to allowed CPUs, rather than missed the last move."""
        return allowed <= cpus and allowed not in self._previous

    def _set_autogroup(self, process: Process) -> None:
        """Set the nice value of the process's session, if it leads one.

        With autogrouping (sched(7)) nice values of processes count only within a session. The
        kernel accepts one such write in 0.1 s from ordinary users; the next `keep` tries again.
        """
        if process.pid != process.session:
            return
        file = Path(f"/proc/{process.pid}/autogroup")
        with suppress(OSError):
            state = file.read_text(encoding="ascii").split()
            if state and int(state[-1]) != self._nice:
                file.write_text(f"{self._nice}\n", encoding="ascii")
