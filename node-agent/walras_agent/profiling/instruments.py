"""Facts: chooses and opens the counters that a pod can be measured by on this node."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from walras_agent.profiling import resctrl
from walras_agent.profiling.container_file import ContainerFile
from walras_agent.profiling.counters import CounterError, CpuTime, Reading, ThreadedCounter
from walras_agent.profiling.http_page import HttpPage
from walras_agent.profiling.instructions import INSTRUCTIONS, Instructions, PerfEvent
from walras_agent.profiling.request import FileSource, HttpSource
from walras_agent.tree import members
from walras_agent.waiting import Watch, threads_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_agent.cpuset import CpuSet
    from walras_agent.kubepods import PodGroups
    from walras_agent.observe import PodSource
    from walras_agent.profiling.counters import Counter
    from walras_agent.profiling.request import MeasurementRequest
    from walras_agent.tree import CgroupTree
    from walras_agent.waiting import WaitingTimes


class TrafficCounter(Protocol):
    """Counter of the bytes between caches and memory, such as `resctrl.MemoryTraffic`."""

    def read(self) -> float | None:
        """Return the bytes so far; None when the processor has lost count."""

    def close(self) -> None:
        """Stop counting and release the counter."""


class Watching(Protocol):
    """Looks at how long the threads of a pod wait for CPUs, such as `waiting.Watch`."""

    def stop(self) -> WaitingTimes:
        """Stop, and return what was seen."""


@dataclass(slots=True)
class Meter:
    """Open counters of one pod.

    Attributes:
        group: Cgroup of the pod.
        counter: Counter of its progress.
        traffic: Counter of its memory traffic; None where the processor has none.
        warnings: Messages about what the counter cannot see.
        watch: Begins to look at how long the pod's threads wait, on a number of CPUs; None where
            its threads cannot be seen.
        clock: Returns the time in seconds, monotonic.
    """

    group: str
    counter: Counter
    traffic: TrafficCounter | None = None
    warnings: tuple[str, ...] = ()
    watch: Callable[[int], Watching] | None = None
    clock: Callable[[], float] = time.monotonic

    def read(self) -> Reading:
        """Read all counters.

        Raises:
            CounterError: The counter of progress cannot be read.
        """
        before = self.clock()
        progress = self.counter.read()
        took = self.clock() - before
        # If the answer took long, its value is from some moment in between.
        at = before + took / 2
        return Reading(progress, self.traffic.read() if self.traffic else None, at, took)

    def close(self) -> None:
        """Close all counters."""
        self.counter.close()
        if self.traffic:
            self.traffic.close()


@dataclass(slots=True)
class Instruments:
    """Opens the counters of pods on this node.

    Attributes:
        cgroups: Cgroup file systems of the node.
        source: Finds the pods among them.
        cpus: Returns the CPUs that are online.
        event: Event to count if the request names no counter.
        perf: Mount of the cgroups for perf_event_open(2): in v2 that of all controllers, in v1
            that of ``perf_event``; None for the one beside ``cpuset``.
        traffic: Mount of resctrl.
    """

    cgroups: CgroupTree
    source: PodSource
    cpus: Callable[[], CpuSet]
    event: PerfEvent = INSTRUCTIONS
    perf: Path | None = None
    traffic: Path = field(default=resctrl.ROOT)

    def __post_init__(self) -> None:
        resctrl.remove_stale(self.traffic)
        if self.perf is None:
            cpuset = Path(self.cgroups.mounts["cpuset"])
            self.perf = cpuset if self.cgroups.version == 2 else cpuset.with_name("perf_event")

    def open(self, request: MeasurementRequest) -> Meter:
        """Open the counters for a measurement.

        Raises:
            CounterError: The pod has ended, or the counter of the request cannot be read.
        """
        group = self._find(request.pod).group
        counter, warnings = self._counter(request, group)
        try:
            counter.read()
        except CounterError:
            counter.close()
            raise
        traffic = resctrl.MemoryTraffic.open(self.cgroups, group, self.traffic)
        return Meter(group, counter, traffic, warnings, lambda cpus: self._watch(group, cpus))

    def _watch(self, group: str, cpus: int) -> Watch:
        return Watch(lambda: threads_of(members(self.cgroups, group)), cpus)

    def _find(self, uid: str) -> PodGroups:
        for groups in self.source.scan(self.cgroups):
            if groups.uid == uid:
                return groups
        raise CounterError(f"the pod {uid} has no cgroup on this node any more")

    def _counter(self, request: MeasurementRequest, group: str) -> tuple[Counter, tuple[str, ...]]:
        if request.progress is None:
            return self._external_counter(group)
        return self.own_counter(request.pod, request.progress), ()

    def own_counter(self, pod: str, source: FileSource | HttpSource) -> Counter:
        """Return the counter that a pod keeps itself, by the pod's UID."""
        if isinstance(source, HttpSource):
            return HttpPage(source)
        file = ContainerFile(self.cgroups, lambda: self._find(pod).containers, source.path)
        return ThreadedCounter(file)

    def _external_counter(self, group: str) -> tuple[Counter, tuple[str, ...]]:
        """Open a counter that needs no help of the job: of instructions, or else of CPU time."""
        try:
            return Instructions.open(f"{self.perf}{group}", self.cpus(), self.event), ()
        except CounterError as error:
            warning = (
                f"{error}. CPU time was counted instead, which cannot see waiting: threads that "
                "spin look busy; if the job has such threads, let it count its own progress"
            )
            return CpuTime(self.cgroups, group), (warning,)
