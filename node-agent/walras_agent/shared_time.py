"""Facts: follows how pods use the CPUs that they share, for the weights that divide these.

While no pod waits, nothing has to be looked at often (`SharedTime.competing`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from walras_agent.correction import UNCORRECTED, compete, correct
from walras_agent.weights import WeighedPod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from walras_agent.correction import Correction, CpuRate, Purchase
    from walras_agent.cpu_use import CpuUseReader
    from walras_agent.observe import ObservedPod

_PAUSE = 2.0  # least seconds between two looks
_PAUSE_OF_BOOSTS = 1.0  # the same while a pod weighs more than it bought
_ALWAYS = 0.9  # of the time in which a thread waits, so that it is unknown how many do
_ENOUGH = 0.99  # of what was bought, wanted by a pod that runs all the time
_SPARE = 1.0  # CPUs that are idle where a pod that wakes has time, whatever it weighs


@dataclass(slots=True)
class SharedTime:
    """What the pods of one node use, and the corrections of their weights.

    Attributes:
        reader: Reader of the pods' CPU time.
        idle: Function that returns how long each CPU has been idle, in seconds.
        competing: Whether a pod waited for what it bought, or was seen for the first time, or
            would have to wait when it wakes.
    """

    reader: CpuUseReader
    idle: Callable[[], Mapping[int, float]]
    competing: bool = False
    _rates: Mapping[str, CpuRate] = field(default_factory=dict)
    _corrections: Mapping[str, Correction] = field(default_factory=dict)
    _idle: Mapping[int, float] = field(default_factory=dict)
    _looked: float = -inf

    @property
    def pause(self) -> float:
        """Least time in seconds between two looks."""
        boosted = any(each.boosted for each in self._corrections.values())
        return _PAUSE_OF_BOOSTS if boosted else _PAUSE

    def is_due(self) -> bool:
        """Whether to look again is worth while."""
        return self.reader.clock() - self._looked >= self.pause

    def look(
        self,
        pods: Sequence[ObservedPod],
        bought: Mapping[str, Purchase],
        corrected: Mapping[str, Purchase],
    ) -> None:
        """Read what pods used since the last look, and correct weights by it.

        Args:
            pods: Pods of the node.
            bought: What pods bought or requested, by UID; others are not read.
            corrected: Those of them by which weights are corrected.
        """
        now, before = self.reader.clock(), self._looked
        self._looked = now
        self._rates = self.reader.rates(pod for pod in pods if pod.uid in bought)
        idle = self._idle_since(now - before)
        self._corrections = correct(corrected, self._rates, idle, self._corrections)
        unknown = self.reader.seen - self._rates.keys()
        sleeps = any(_busy(bought[uid], rate) < 1 for uid, rate in self._rates.items())
        waits_when_it_wakes = sleeps and sum(idle.values()) < _SPARE
        self.competing = bool(unknown) or waits_when_it_wakes or compete(self._rates)

    def _idle_since(self, seconds: float) -> dict[int, float]:
        """Return the part of the time since the last look in which each CPU was idle."""
        now, before = self.idle(), self._idle
        self._idle = now
        if seconds <= 0:
            return {}
        return {
            cpu: min(max(now[cpu] - before[cpu], 0.0) / seconds, 1.0)
            for cpu in now.keys() & before.keys()
        }

    def weighed(
        self, pods: Sequence[ObservedPod], bought: Mapping[str, Purchase]
    ) -> list[WeighedPod]:
        """Return what every pod is weighed by, after the last look.

        One that bought and requested nothing adds next to nothing to its class, however busy it is.
        """
        return [
            self._weighed(pod, bought[pod.uid])
            if pod.uid in bought
            else WeighedPod(pod.group, pod.parent, 0.0, busy=0.0)
            for pod in pods
        ]

    def _weighed(self, pod: ObservedPod, bought: Purchase) -> WeighedPod:
        factor = self._corrections.get(pod.uid, UNCORRECTED).factor
        rate = self._rates.get(pod.uid)
        if rate is None:
            at_once = min(math.ceil(bought.cpus), len(bought.allowed))
            return WeighedPod(pod.group, pod.parent, bought.cpus, factor, 1.0, at_once)
        busy, at_once = _busy(bought, rate), _at_once(bought, rate)
        return WeighedPod(pod.group, pod.parent, bought.cpus, factor, busy, at_once)


def _wanted(rate: CpuRate) -> float:
    """Return the CPUs that a pod would have used had no thread waited."""
    return rate.used + (rate.waited or 0.0)


def _busy(bought: Purchase, rate: CpuRate) -> float:
    """Return the part of the time in which a thread ran or waited; 1 if for all that was bought."""
    wanted = _wanted(rate)
    return 1.0 if wanted >= _ENOUGH * bought.cpus else min(wanted, 1.0)


def _at_once(bought: Purchase, rate: CpuRate) -> int:
    """Return the number of CPUs on which a pod runs at once, or would."""
    threads = len(bought.allowed) if rate.threads is None else rate.threads
    many = (rate.waited or 0.0) > _ALWAYS
    running = threads if many else math.ceil(_wanted(rate))
    return max(min(running, threads, len(bought.allowed)), 1)
