"""Facts: watches on how many CPUs pods run at once, for the status (`cpu_demand`).

Each pass looks at all pods. What a pod uses on average says little of one that sleeps most of the
time, and nothing tells how many threads run at one moment but to read its CPU time twice within it.
So between passes, pods that have more threads than were seen to run are glanced at, at random
moments, so that nobody can arrange for it: often while they are new, and seldom later. A burst of a
tenth of a second every ten seconds is met with a chance of 99.9 % within ten minutes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from walras_agent.cpu_demand import begin, glanced, looked
from walras_agent.tree import CgroupError, read_cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from walras_agent.cpu_demand import CpuDemand, Watched
    from walras_agent.cpu_use import CpuUseReader
    from walras_agent.observe import ObservedPod

ASLEEP = 0.0002
"""Part of a CPU: one that others leave next to nothing uses more."""

GLANCE = 0.025
"""Seconds of one glance: several ticks of most kernels, and shorter than bursts that matter."""

_LONGEST = 4 * GLANCE  # of a glance that counts
_AWAKE = 0.02  # of a CPU, used by a pod that is glanced at
_NEW = 900.0  # seconds for which a pod is glanced at often
_PAUSE, _PAUSE_LATER = 0.5, 5.0  # mean seconds between glances while there are new pods, and later
_OF_A_SECOND = 16  # new pods that are glanced at in a second; of others, a tenth
_EVERY = 10  # glances at new pods, of which one is at all pods


_NO_CPUS: Mapping[str, float] = MappingProxyType({})

_Spent = Mapping[str, tuple[float, float]]
"""Monotonic time of a reading and CPU seconds until then, by pod."""


@dataclass(slots=True)
class DemandWatch:
    """Watches the pods of one node.

    Attributes:
        reader: Reader of the pods' CPU time, of its own.
        draw: Function that returns a random number from 0 to 1.
        pause: Least seconds between two looks.
    """

    reader: CpuUseReader
    draw: Callable[[], float] = random.random
    pause: float = 5.0
    _pods: dict[str, Watched] = field(default_factory=dict)
    _groups: Mapping[str, str] = field(default_factory=dict)
    _first: dict[str, float] = field(default_factory=dict)
    _glance: _Spent = field(default_factory=dict)
    _due: float = inf
    _count: int = 0
    _looked: float = -inf
    _own: dict[str, float] = field(default_factory=dict)
    _containers: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def due(self) -> float:
        """When to glance at pods next, in monotonic seconds; infinity while that is useless."""
        return self._due

    def look(
        self, pods: Sequence[ObservedPod], own: Mapping[str, float] = _NO_CPUS
    ) -> Mapping[str, CpuDemand]:
        """Look at pods if that is due, and return what to show of each, by UID.

        Args:
            pods: The pods.
            own: CPUs of their own to which some of them are confined now, by UID; 0 of one that is
                measured.
        """
        now = self.reader.clock()
        for uid, cpus in own.items():
            self._own[uid] = min(cpus, self._own.get(uid, inf))
        if now - self._looked >= self.pause:
            self._looked = now
            rates = self.reader.rates(pods)
            new = self._begun(pods)
            here = {pod.uid: self._pods.get(pod.uid) or begin(now) for pod in pods}
            self._pods = {
                uid: begin(now)
                if uid in new
                else looked(state, rates[uid], now, self._own.get(uid, inf))
                if uid in rates
                else state
                for uid, state in here.items()
            }
            self._own = dict(own)
            self._groups = {
                pod.uid: pod.group
                for pod in pods
                if pod.uid in rates
                and rates[pod.uid].used >= _AWAKE
                and _may_run_more(self._pods[pod.uid])
            }
            self._first = {uid: self._first.get(uid, now) for uid in self._groups}
            self._due = min(self._due, self._next(now)) if self._groups else inf
        return {uid: state.shown for uid, state in self._pods.items() if _is_known(state)}

    def begin_glance(self) -> None:
        """Read the CPU time of the pods that are to be glanced at."""
        now = self.reader.clock()
        new = {uid for uid, first in self._first.items() if now - first < _NEW}
        self._count += 1
        chosen = new if new and self._count % _EVERY else self._groups.keys()
        self._glance = self._read(chosen)

    def end_glance(self) -> None:
        """Read it again, at most a moment later."""
        for uid, (at, used) in self._read(self._glance).items():
            since, before = self._glance[uid]
            if GLANCE / 2 < at - since < _LONGEST:
                state = self._pods[uid]
                self._pods[uid] = glanced(state, (used - before) / (at - since))
        now = self.reader.clock()
        self._groups = {
            uid: group for uid, group in self._groups.items() if _may_run_more(self._pods[uid])
        }
        self._due = self._next(now) if self._groups else inf

    def _begun(self, pods: Iterable[ObservedPod]) -> set[str]:
        """Return the pods of which a container has begun since the last look.

        While its image was pulled, or containers prepared its work, a pod did not show what its
        program can use.
        """
        before = self._containers
        self._containers = {
            pod.uid: frozenset(each.group.name for each in pod.containers) for pod in pods
        }
        return {uid for uid, names in self._containers.items() if names - before.get(uid, names)}

    def _read(self, pods: Iterable[str]) -> _Spent:
        found = {}
        for uid in pods:
            if uid in self._groups:
                with suppress(CgroupError):  # it was deleted
                    used = read_cpu_seconds(self.reader.cgroups, self._groups[uid])
                    found[uid] = self.reader.clock(), used
        return found

    def _next(self, now: float) -> float:
        new = sum(now - self._first[uid] < _NEW for uid in self._groups)
        if new:
            pause = max(_PAUSE, new / _OF_A_SECOND)
        else:
            pause = max(_PAUSE_LATER, _EVERY * len(self._groups) / _OF_A_SECOND)
        return now + pause * (0.5 + self.draw())


def _may_run_more(state: Watched) -> bool:
    """Whether a pod has threads that were never seen to run beside the others."""
    return state.threads is None or state.threads > state.at_once + 0.5


def _is_known(state: Watched) -> bool:
    return bool(state.shown.free or state.shown.held_back)
