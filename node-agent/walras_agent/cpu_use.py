"""Facts: reads how much CPU time pods use and how long their threads wait for it.

In cgroup v2, the kernel tells for every group how long at least one of its threads waited
(``Documentation/accounting/psi.rst``). In v1, or without PSI, the waiting times of single threads
are read from ``/proc`` (``Documentation/scheduler/sched-stats.rst``), only of pods that are awake,
and of some threads of each.

The CPU time of all pods is read before anything else. Else, what programs outside take of a CPU,
such as the agent itself while it reads on, would fall into the intervals of some pods there alone.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from walras_agent import procfs
from walras_agent.correction import CpuRate
from walras_agent.tree import CgroupError, CgroupFile, read_cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from walras_agent.observe import ObservedPod
    from walras_agent.tree import Cgroups

_SOME = re.compile(r"^some .*\btotal=(\d+)$", re.MULTILINE)
_THREADS = 16  # of one pod; more are taken to wait as these do
_AWAKE = 0.01  # of a CPU, used at least by a pod of which waiting threads are looked for


class _Spent(NamedTuple):
    """The CPU seconds of a pod at one moment, in monotonic seconds."""

    at: float
    used: float


class _Seen(NamedTuple):
    """The state of a pod at one moment.

    Attributes:
        at: Monotonic time in seconds.
        used: CPU seconds so far.
        pressure: Seconds so far in which some thread waited; None without PSI.
        delays: Seconds that each of some threads has waited so far, by thread ID.
        threads: Number of all threads; None if unknown.
    """

    at: float
    used: float
    pressure: float | None
    delays: Mapping[int, float]
    threads: int | None


@dataclass(slots=True)
class CpuUseReader:
    """Reads the CPU time of pods between its calls.

    Attributes:
        cgroups: Cgroups of this node.
        clock: Function that returns the monotonic time in seconds.
        asleep: Part of a CPU, used at most by a pod that is taken to sleep: nothing else is read.
    """

    cgroups: Cgroups
    clock: Callable[[], float] = time.monotonic
    asleep: float = 0.0
    _last: dict[str, _Seen] = field(default_factory=dict)

    @property
    def seen(self) -> frozenset[str]:
        """Pods whose CPU time was read by the last call, by UID."""
        return frozenset(self._last)

    def rates(self, pods: Iterable[ObservedPod]) -> dict[str, CpuRate]:
        """Return the CPU time since the last call, by pod UID, of pods that were there then."""
        seen, rates = {}, {}
        for pod, spent in [(pod, spent) for pod in pods if (spent := self._spent(pod))]:
            last = self._last.get(pod.uid)
            seen[pod.uid] = now = self._look(pod, spent, last)
            # A group that was made anew has used less so far than the one before it.
            if last is not None and now.used >= last.used and now.at > last.at:
                rates[pod.uid] = _rate(last, now)
        self._last = seen
        return rates

    def _spent(self, pod: ObservedPod) -> _Spent | None:
        try:
            used = read_cpu_seconds(self.cgroups, pod.group)
        except CgroupError:  # it was deleted, or the kernel does not count its time
            return None
        return _Spent(self.clock(), used)

    def _look(self, pod: ObservedPod, spent: _Spent, last: _Seen | None) -> _Seen:
        if last is not None and spent.used - last.used < self.asleep * (spent.at - last.at):
            return _Seen(*spent, last.pressure, {}, None)
        pressure = self._pressure(pod.group)
        if pressure is not None:
            return _Seen(*spent, pressure, {}, self._count(pod))
        if last is not None and spent.used - last.used < _AWAKE * (spent.at - last.at):
            return _Seen(*spent, None, {}, None)
        threads = sorted(set(self._threads(pod)))
        delays = {
            thread: waited
            for thread in threads[:_THREADS]
            if (waited := procfs.waited_seconds(thread)) is not None
        }
        return _Seen(*spent, None, delays, len(threads))

    def _pressure(self, group: str) -> float | None:
        if self.cgroups.version == 1:
            return None
        try:
            text = self.cgroups.read(CgroupFile("cpu", group, "cpu.pressure"))
        except CgroupError:
            return None
        return int(some[1]) / 1e6 if (some := _SOME.search(text)) else None

    def _count(self, pod: ObservedPod) -> int:
        """Return the number of a pod's threads (v2)."""
        try:
            return int(self.cgroups.read(CgroupFile("cpu", pod.group, "pids.current")))
        except CgroupError:  # the controller is not enabled there
            return len(set(self._threads(pod)))

    def _threads(self, pod: ObservedPod) -> Iterator[int]:
        file = {1: "tasks", 2: "cgroup.threads"}[self.cgroups.version]
        for container in pod.containers:
            for group in (container.group, *container.inside):
                try:
                    text = self.cgroups.read(CgroupFile("cpu", group.name, file))
                except CgroupError:
                    continue
                yield from map(int, text.split())


def _rate(last: _Seen, now: _Seen) -> CpuRate:
    seconds = now.at - last.at
    waited: float | None = None
    if now.pressure is not None and last.pressure is not None:
        waited = now.pressure - last.pressure
    elif both := last.delays.keys() & now.delays.keys():
        some = sum(now.delays[each] - last.delays[each] for each in both)
        waited = some * (now.threads or 0) / len(both)
    elif now.pressure is None and now.threads is None:
        waited = 0.0  # it sleeps
    used = (now.used - last.used) / seconds
    waited = None if waited is None else max(0.0, waited) / seconds
    return CpuRate(seconds, used, waited, now.threads)
