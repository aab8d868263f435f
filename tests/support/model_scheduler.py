"""A model of how Linux divides CPUs among groups of threads by weight, in time slices of 4 ms.

It has what makes weights inexact on several CPUs (``kernel/sched/fair.c``): a thread runs on one
CPU at a time, a group's weight is spread over the CPUs in proportion to its threads there, and
threads move only now and then, to even out loads. A thread that wakes goes to an idle CPU if there
is one, else it stays where it was; a CPU that falls idle pulls a thread that waits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SLICE = 0.004
"""Seconds for which a thread runs."""

_BALANCE = 5  # slices between two looks for a CPU with too much load


@dataclass(slots=True)
class Thread:
    """A thread of a program.

    Attributes:
        wants: Whether it can run, by the time in seconds and the CPU seconds that it has used.
        pinned: The CPU on which it stays; None for any.
        cpu: CPU on which it is.
        used: CPU seconds so far.
        awake: Whether it can run in this slice.
    """

    wants: Callable[[float, float], bool]
    pinned: int | None = None
    cpu: int = 0
    used: float = 0.0
    awake: bool = False


@dataclass(slots=True)
class Group:
    """The threads of a pod.

    Attributes:
        threads: All of its threads.
        weight: Weight of the group.
        waited: Seconds so far in which some thread waited.
    """

    threads: list[Thread]
    weight: float = 1.0
    waited: float = 0.0

    @property
    def used(self) -> float:
        """CPU seconds so far."""
        return sum(thread.used for thread in self.threads)


@dataclass(slots=True)
class _Cpu:
    """One CPU: weighted run times of the groups on it, by name, and who ran in the last slice."""

    idle: float = 0.0
    runtime: dict[str, float] = field(default_factory=dict)


class Scheduler:
    """CPUs that groups share.

    Attributes:
        groups: Groups by name.
        now: Seconds so far.
    """

    def __init__(self, cpus: int, groups: Mapping[str, Group]) -> None:
        self.groups, self.now = dict(groups), 0.0
        self._cpus = [_Cpu() for _ in range(cpus)]
        self._slices = 0
        for group in groups.values():
            for number, thread in enumerate(group.threads):
                thread.cpu = number % cpus if thread.pinned is None else thread.pinned

    @property
    def idle(self) -> list[float]:
        """Seconds so far in which each CPU was idle."""
        return [cpu.idle for cpu in self._cpus]

    def elapse(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / SLICE)):
            queues = self._queues()
            if self._slices % _BALANCE == 0:
                self._balance(queues)
            self._pull(queues)
            self._run(queues)
            self._slices += 1
            self.now += SLICE

    def _queues(self) -> list[list[tuple[str, Thread]]]:
        """Return the threads that can run on each CPU, after those that wake have chosen theirs."""
        queues: list[list[tuple[str, Thread]]] = [[] for _ in self._cpus]
        woken = []
        for name, group in self.groups.items():
            for thread in group.threads:
                was, thread.awake = thread.awake, thread.wants(self.now, thread.used)
                if thread.awake and not was and thread.pinned is None:
                    woken.append((name, thread))
                elif thread.awake:
                    queues[thread.cpu].append((name, thread))
        for name, thread in woken:
            if queues[thread.cpu]:
                thread.cpu = min(range(len(queues)), key=lambda cpu: len(queues[cpu]) > 0)
            queues[thread.cpu].append((name, thread))
        return queues

    def _loads(self) -> dict[str, float]:
        """Return the weight of one thread of each group."""
        awake = {
            name: sum(thread.awake for thread in group.threads)
            for name, group in self.groups.items()
        }
        return {name: group.weight / max(awake[name], 1) for name, group in self.groups.items()}

    def _balance(self, queues: list[list[tuple[str, Thread]]]) -> None:
        """Move threads from the CPU with the most load to the one with the least, if that helps."""
        of_thread = self._loads()
        loads = [sum(of_thread[name] for name, _ in queue) for queue in queues]
        for _ in queues:
            busiest, idlest = loads.index(max(loads)), loads.index(min(loads))
            gap = loads[busiest] - loads[idlest]
            for each in queues[busiest]:
                if each[1].pinned is None and of_thread[each[0]] < gap / 2:
                    self._move(each, queues, idlest)
                    loads[busiest] -= of_thread[each[0]]
                    loads[idlest] += of_thread[each[0]]
                    break
            else:
                return

    def _pull(self, queues: list[list[tuple[str, Thread]]]) -> None:
        """Let CPUs without work pull threads that wait elsewhere."""
        for cpu, queue in enumerate(queues):
            waiting = [each for other in queues if len(other) > 1 for each in other]
            movable = [each for each in waiting if each[1].pinned is None]
            if not queue and movable:
                self._move(movable[0], queues, cpu)

    @staticmethod
    def _move(each: tuple[str, Thread], queues: list[list[tuple[str, Thread]]], cpu: int) -> None:
        queues[each[1].cpu].remove(each)
        each[1].cpu = cpu
        queues[cpu].append(each)

    def _run(self, queues: list[list[tuple[str, Thread]]]) -> None:
        of_thread, waiting = self._loads(), set()
        for cpu, queue in zip(self._cpus, queues, strict=True):
            if not queue:
                cpu.idle += SLICE
                cpu.runtime = {}
                continue
            here = Counter(name for name, _ in queue)
            # Who comes to a CPU, or back to it, begins where the others are.
            begin = min((cpu.runtime[name] for name in here if name in cpu.runtime), default=0.0)
            cpu.runtime = {name: max(cpu.runtime.get(name, begin), begin) for name in here}
            chosen = min(here, key=lambda name: cpu.runtime[name])
            cpu.runtime[chosen] += SLICE / (of_thread[chosen] * here[chosen])
            runs = min((each for name, each in queue if name == chosen), key=lambda one: one.used)
            runs.used += SLICE
            waiting |= {name for name, each in queue if each is not runs}
        for name in waiting:
            self.groups[name].waited += SLICE


def spins(_now: float, _used: float) -> bool:
    """Return True: a thread that always computes."""
    return True


def in_phases(busy: float, asleep: float) -> Callable[[float, float], bool]:
    """Return a thread that computes for some seconds of CPU time, then sleeps for some."""
    until, done = 0.0, busy

    def wants(now: float, used: float) -> bool:
        nonlocal until, done
        if used >= done:
            done, until = used + busy, now + asleep
        return now >= until

    return wants
