"""Facts: the CPU time that pods use, as a status shows it: seldom, and only when it has changed.

Every change of a status is a write that all watchers receive. So what a pod used is averaged over a
minute, and shown if the average differs visibly from what is shown.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_agent.tree import CgroupError, read_cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walras_agent.observe import ObservedPod
    from walras_agent.tree import Cgroups

_INTERVAL = 60.0  # seconds over which is averaged
_FIRST = 5.0  # least seconds after which a pod is shown for the first time
_PART, _LEAST = 0.05, 0.02  # of what is shown, and of a CPU, that is visible
_DIGITS = 2


@dataclass(slots=True)
class ShownUse:
    """The CPU time of the pods of one node.

    Attributes:
        cgroups: Cgroups of this node.
        cpus: CPUs that each pod used on average, by UID.
    """

    cgroups: Cgroups
    cpus: dict[str, float] = field(default_factory=dict)
    _since: float = 0.0
    _marks: dict[str, tuple[float, float]] = field(default_factory=dict)

    def look(self, pods: Iterable[ObservedPod], now: float) -> Mapping[str, float]:
        """Read what pods used if that is due, and return the CPUs to show, by UID.

        Args:
            pods: Pods of the node with a grant.
            now: Monotonic time in seconds.
        """
        due = now - self._since >= _INTERVAL
        if due:
            self._since = now
        marks, cpus = {}, {}
        for pod in pods:
            mark, shown = self._marks.get(pod.uid), self.cpus.get(pod.uid)
            begins = mark is None or (shown is None and now - mark[0] >= _FIRST)
            if due or begins:
                with suppress(CgroupError):  # it was deleted
                    seconds = read_cpu_seconds(self.cgroups, pod.group)
                    shown = _shown(mark, (now, seconds), shown)
                    mark = now, seconds
            if mark is not None:
                marks[pod.uid] = mark
            if shown is not None:
                cpus[pod.uid] = shown
        self._marks, self.cpus = marks, cpus
        return cpus


def _shown(
    before: tuple[float, float] | None, now: tuple[float, float], shown: float | None
) -> float | None:
    """Return the average between two readings if it is to be shown instead of another."""
    if before is None or now[0] <= before[0] or now[1] < before[1]:
        return shown
    cpus = round((now[1] - before[1]) / (now[0] - before[0]), _DIGITS)
    if shown is not None and abs(cpus - shown) <= max(_PART * shown, _LEAST):
        return shown
    return cpus
