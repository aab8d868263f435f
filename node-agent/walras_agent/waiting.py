"""Facts: how long a program would have run had it not waited for CPUs, by what the scheduler says.

The scheduler counts for every thread how long it ran and how long it waited for a CPU
(/proc/PID/task/TID/schedstat). These are read every `INTERVAL` seconds while the program runs. On c
CPUs of its own, n threads that could run would have run on min(n, c) of them, so that the d seconds
for which they ran together in an interval would have taken d / min(n, c). Time in which no thread
could run, because the program waited for something else, counts as it is.

A thread that waited longer than its fellows ends later, and runs alone meanwhile. Had it had a CPU
of its own, it would have done that work beside them. So a fellow that stops counts on as one that
could run until the others have made up for what they waited more. Whether a program divides its
work beforehand, as this takes it to, or while it runs, cannot be seen: half of the difference that
it makes is the error.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

INTERVAL = 0.01
"""Seconds between two looks at a program."""

MOST_COST = 0.05
"""Part of a CPU that looking at a program of many threads may take; then it is done less often."""

QUIET = 0.02
"""Part of a time that a program waited, below which the time is left as it is."""

LEAST_WAIT = 0.02
"""Part of a program's CPU time that its threads waited, below which it had its CPUs to itself."""

MOST_THREADS = 10_000
"""Threads of a program beyond which it is not looked at: a look would take a second."""

LEAST_SEEN = 0.7
"""Part of a program's CPU time that must have been seen, or else nothing is said about it: it may
have threads in processes that are no descendants."""


class Unwaited(NamedTuple):
    """Time that a program would have taken on CPUs of its own.

    Attributes:
        busy: Seconds in which it had a thread that could run.
        idle: Seconds in which it had none.
        error: Standard error of their sum, in seconds.
    """

    busy: float
    idle: float
    error: float


class Thread(NamedTuple):
    """A thread as the scheduler sees it: seconds that it ran, and waited, and whether it could."""

    ran: float
    waited: float
    could_run: bool


@dataclass(slots=True)
class WaitingTimes:
    """Sums over the looks at a program on some CPUs; give it each look, then ask for `unwaited`.

    Attributes:
        started: Time at which the program started, in seconds; None for one that runs already,
            whose time counts from the first look on.
    """

    cpus: int
    started: float | None
    _before: dict[int, Thread] = field(default_factory=dict)
    _time: float | None = None
    _ran: float = 0.0
    _waited: float = 0.0
    _busy: float = 0.0
    _alone: float = 0.0
    _idle: float = 0.0
    _unsure: float = 0.0
    _waits: dict[int, float] = field(default_factory=dict)
    _ahead: dict[int, float] = field(default_factory=dict)

    def look(self, now: float, threads: dict[int, Thread]) -> None:
        """Count what has happened since the last look.

        Args:
            now: Time in seconds.
            threads: All threads of the program, by their ID; none once it has ended.
        """
        if not threads:  # it has ended, perhaps long ago
            return
        if self.started is None:
            self.started, self._before = now, threads
            return
        before, self._before = self._before, threads
        last, self._time = self._last, now
        ran, awake, waited_before = 0.0, 0.0, self._waited
        for thread, each in threads.items():
            was = before.get(thread, Thread(0.0, 0.0, could_run=False))
            ran += max(each.ran - was.ran, 0.0)
            waited = max(each.waited - was.waited, 0.0)
            self._waits[thread] = self._waits.get(thread, 0.0) + waited
            self._waited += waited
            awake = max(awake, max(each.ran - was.ran, 0.0) + waited)
        earlier = {thread for thread, each in before.items() if each.could_run}
        later = {thread for thread, each in threads.items() if each.could_run}
        self._settle_unsure(before, threads, earlier)
        if earlier & later:
            self._unsure += max(now - last - ran - (self._waited - waited_before), 0.0)
        else:
            self._idle += max(now - last - awake, 0.0)
        if not earlier and not later:
            self._waits.clear()
            self._ahead.clear()
        self._note_fellows(earlier, later)
        running = max((len(earlier) + len(later)) / 2, 1.0)
        self._ran += ran
        self._alone += ran / min(running, self.cpus)
        self._busy += ran / min(running + len(self._ahead), self.cpus)
        self._ahead = {
            thread: left - ran / running
            for thread, left in self._ahead.items()
            if left > ran / running
        }

    @property
    def _last(self) -> float:
        """Time of the last look, or of the start."""
        return (self.started or 0.0) if self._time is None else self._time

    @property
    def ran(self) -> float:
        """CPU time in seconds that was seen."""
        return self._ran

    def _settle_unsure(
        self, before: dict[int, Thread], threads: dict[int, Thread], earlier: set[int]
    ) -> None:
        """Count time as idle that may have been waiting, which is known once a thread has run.

        A thread that could run at two looks may have slept meanwhile, or it waited on, which the
        scheduler counts when the thread has a CPU again.
        """
        if earlier - threads.keys():
            self._unsure = 0.0
        elif all(threads[each][:2] != before[each][:2] for each in earlier):
            waits = (threads[each].waited - before[each].waited for each in earlier)
            self._idle += max(self._unsure - max(waits, default=0.0), 0.0)
            self._unsure = 0.0

    def _note_fellows(self, earlier: set[int], later: set[int]) -> None:
        """Note by how much each thread that has stopped waited less than those that go on."""
        for thread in later:
            self._ahead.pop(thread, None)
        if later:
            mean = sum(self._waits.get(thread, 0.0) for thread in later) / len(later)
            for thread in earlier - later:
                if mean > self._waits.get(thread, 0.0):
                    self._ahead[thread] = mean - self._waits.get(thread, 0.0)

    def unwaited(self, seconds: float, cpu_seconds: float) -> Unwaited | None:
        """Return what the program would have taken; None if too little of it was seen.

        Args:
            seconds: Time that it took.
            cpu_seconds: CPU time that it took, with that of threads after the last look at them.
        """
        if self._ran < LEAST_SEEN * cpu_seconds or not self._ran:
            return None
        idle = self._idle
        if not any(each.could_run for each in self._before.values()):
            unseen = (self.started or 0.0) + seconds - self._last
            idle += max(unseen - max(cpu_seconds - self._ran, 0.0), 0.0)
        if self._waited <= LEAST_WAIT * self._ran:
            return Unwaited(max(seconds - idle, 0.0), min(idle, seconds), 0.0)
        whole = max(cpu_seconds / self._ran, 1.0)
        error = (self._alone - self._busy) / 2 * whole
        return Unwaited((self._alone + self._busy) / 2 * whole, idle, error)


class Watch:
    """Looks at a program from now until `stop`, in a thread of its own.

    Args:
        threads: Returns all threads of the program that there are.
        cpus: Number of CPUs that it may use.
        started: Time at which it started, as for `WaitingTimes`.
    """

    def __init__(
        self, threads: Callable[[], dict[int, Thread]], cpus: int, started: float | None = None
    ) -> None:
        self._threads = threads
        self._times = WaitingTimes(cpus, started)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="waiting-times", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            began = time.monotonic()
            self._times.look(began, self._threads())
            pause = max(INTERVAL, (time.monotonic() - began) / MOST_COST)

    def stop(self) -> WaitingTimes:
        """Stop, and return what was seen."""
        self._stopping.set()
        self._thread.join()
        return self._times


def threads_of(roots: Iterable[int]) -> dict[int, Thread]:
    """Return the threads of processes and of their descendants; ended ones are left out.

    There are none of a program that has more than `MOST_THREADS`.

    Children are known where the kernel lists them (CONFIG_PROC_CHILDREN, as in distributions).
    """
    threads: dict[int, Thread] = {}
    processes, seen = list(roots), set[int]()
    while processes:
        pid = processes.pop()
        if pid in seen:
            continue
        seen.add(pid)
        folder = f"/proc/{pid}/task"
        try:
            names = os.listdir(folder)  # noqa: PTH208 (as below)
        except OSError:
            continue
        for name in names:
            try:
                ran, waited, *_ = _read(f"{folder}/{name}/schedstat").split()
                state = _read(f"{folder}/{name}/stat").rpartition(b")")[2].split()[0]
                children = _read(f"{folder}/{name}/children").split()
            except (OSError, ValueError):
                continue
            threads[int(name)] = Thread(int(ran) / 1e9, int(waited) / 1e9, state == b"R")
            processes += map(int, children)
        if len(threads) > MOST_THREADS:
            return {}
    return threads


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (looked at a hundred times a second)
        return file.read()
