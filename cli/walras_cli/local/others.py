"""How many of the CPUs for sale other programs take while jobs run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_profiler.command_runner import busy_seconds

if TYPE_CHECKING:
    from walras_agent.cpuset import CpuSet

WORTH_SAYING = 0.05
"""Part of the CPUs for sale that others take before it is worth a line."""

FIRST_SECONDS = 2.0
"""Seconds of a run before its user is told: starting jobs takes time of its own."""


@dataclass(slots=True)
class Others:
    """The CPU time that goes to programs that are not of this run.

    Attributes:
        cpus: CPUs for sale.
        taken: CPUs that others took since the run began, on average.
    """

    cpus: CpuSet
    taken: float
    _before: float
    _told: bool = False

    @classmethod
    def from_now(cls, cpus: CpuSet, own: float) -> Others:
        """Begin to count; ``own`` are the CPU seconds of the run's jobs so far."""
        return cls(cpus, 0.0, _of_others(cpus, own))

    def count(self, seconds: float, own: float) -> str:
        """Count what others took until now; return what the user is to be told now, if anything.

        Args:
            seconds: Seconds since the run began.
            own: CPU seconds of the run's jobs so far.
        """
        taken = _of_others(self.cpus, own) - self._before
        self.taken = max(0.0, taken) / seconds if seconds > 0 else 0.0
        if self._told or seconds < FIRST_SECONDS or not self.sentence:
            return ""
        self._told = True
        return self.sentence

    @property
    def sentence(self) -> str:
        """What is worth saying about them; empty if they took next to nothing."""
        count = len(self.cpus)
        if self.taken <= WORTH_SAYING * count:
            return ""
        return f"other programs took {self.taken:.1f} of the {count} CPUs for sale"


def _of_others(cpus: CpuSet, own: float) -> float:
    """Return the seconds for which CPUs were busy, without a run's jobs and this process."""
    return busy_seconds(cpus) - own - time.process_time()
