"""Facts: the instruments of this node, chosen and opened for one pod."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from walras_agent.profiling import resctrl
from walras_agent.profiling.container_file import ContainerFile
from walras_agent.profiling.counters import CounterError, CpuTime, InThread, Reading
from walras_agent.profiling.http_page import HttpPage
from walras_agent.profiling.instructions import INSTRUCTIONS, Event, Instructions
from walras_agent.profiling.request import FileCounter, HttpCounter

if TYPE_CHECKING:
    from collections.abc import Callable

    from walras_agent.cpuset import CpuSet
    from walras_agent.kubepods import PodGroups
    from walras_agent.observe import PodSource
    from walras_agent.profiling.counters import Counter
    from walras_agent.profiling.request import Request
    from walras_agent.tree import CgroupTree


class Traffic(Protocol):
    """Counts bytes between caches and memory; see `resctrl.MemoryTraffic`."""

    def read(self) -> float | None:
        """Bytes so far; None when they were lost count of."""

    def close(self) -> None:
        """Stop counting."""


@dataclass(slots=True)
class Meter:
    """What is read of one pod.

    Attributes:
        group: Of the pod.
        counter: Of its progress.
        traffic: Between caches and memory; None where that is not counted.
        warnings: What the counter cannot see.
        clock: Seconds, monotonic.
    """

    group: str
    counter: Counter
    traffic: Traffic | None = None
    warnings: tuple[str, ...] = ()
    clock: Callable[[], float] = time.monotonic

    def read(self) -> Reading:
        """Read all now.

        Raises:
            CounterError: The progress cannot be read.
        """
        before = self.clock()
        progress = self.counter.read()
        # A page that took long was made up somewhere in between.
        at = (before + self.clock()) / 2
        return Reading(progress, self.traffic.read() if self.traffic else None, at)

    def close(self) -> None:
        """Give back what is open."""
        self.counter.close()
        if self.traffic:
            self.traffic.close()


@dataclass(slots=True)
class Instruments:
    """Opens what there is to measure with.

    Attributes:
        cgroups: Of this node.
        source: Knows where pods are.
        cpus: Those that are online now.
        event: What is counted where the request names no counter.
        perf: Mount of the groups that perf_event_open(2) takes; in v2 that of all controllers, in
            v1 the one of ``perf_event``, by default beside that of ``cpuset``.
        traffic: Where resctrl is mounted.
    """

    cgroups: CgroupTree
    source: PodSource
    cpus: Callable[[], CpuSet]
    event: Event = INSTRUCTIONS
    perf: Path | None = None
    traffic: Path = field(default=resctrl.ROOT)

    def __post_init__(self) -> None:
        resctrl.remove_stale(self.traffic)
        if self.perf is None:
            cpuset = Path(self.cgroups.mounts["cpuset"])
            self.perf = cpuset if self.cgroups.version == 2 else cpuset.with_name("perf_event")

    def open(self, request: Request) -> Meter:
        """Open the counters for a measurement.

        Raises:
            CounterError: The pod is gone, or what the request names cannot be read.
        """
        group = self._find(request.pod).group
        counter, warnings = self._counter(request, group)
        try:
            counter.read()
        except CounterError:
            counter.close()
            raise
        traffic = resctrl.MemoryTraffic.open(self.cgroups, group, self.traffic)
        return Meter(group, counter, traffic, warnings)

    def _find(self, uid: str) -> PodGroups:
        for groups in self.source.scan(self.cgroups):
            if groups.uid == uid:
                return groups
        raise CounterError(f"the pod {uid} has no cgroup on this node any more")

    def _counter(self, request: Request, group: str) -> tuple[Counter, tuple[str, ...]]:
        match request.progress:
            case FileCounter(path):
                kept = ContainerFile(self.cgroups, lambda: self._find(request.pod).containers, path)
                return InThread(kept), ()
            case HttpCounter() as page:
                return HttpPage(page), ()
            case None:
                return self._without_the_job(group)

    def _without_the_job(self, group: str) -> tuple[Counter, tuple[str, ...]]:
        """What can be counted from outside: instructions if possible, CPU time otherwise."""
        try:
            return Instructions.open(f"{self.perf}{group}", self.cpus(), self.event), ()
        except CounterError as error:
            warning = (
                f"{error}. CPU time was counted, which cannot see waiting: threads that wait in a "
                "loop look busy; let the job count its progress if it has such"
            )
            return CpuTime(self.cgroups, group), (warning,)
