"""Pure choice: in which order cpusets change, so that no CPU ever has two owners.

Every group of tasks goes from the CPUs that it may use now to those that it is to have. Giving
CPUs up is always allowed. Gaining one is allowed once nobody is in the way: on a CPU that is to
have an owner, everybody else who is on it; on one that is to be shared, its owner until now. So
all groups first give up what they lose, then gain; and because each single write keeps the rule,
a crash after any of them leaves no CPU with two owners.

A group that keeps none of its CPUs cannot first give up all of them: an empty cpuset is refused
(cgroup v1: ENOSPC) or stands for all that the parent has (v2). It moves at one stroke when its new
CPUs are free; where several wait for each other, one waits on CPUs that others share, or on those
of its own that nobody is to have for itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walras_agent.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NOTHING = CpuSet()


@dataclass(frozen=True, slots=True)
class Change:
    """What one group of tasks has and is to have.

    Attributes:
        group: Its name, unique among the changes.
        pod: The pod that it is part of.
        before: CPUs that its tasks may use now.
        after: CPUs that they are to use, at least one.
        own: CPUs that the pod has had for itself until now; nobody comes before it leaves them.
        fixed: It cannot be moved for now: nothing is written to it, and nobody gains the CPUs
            that it was to leave.
    """

    group: str
    pod: str
    before: CpuSet
    after: CpuSet
    own: CpuSet = _NOTHING
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """One step: from now on the tasks of a group may use these CPUs."""

    group: str
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Transition:
    """An order of writes.

    Attributes:
        writes: To be made in this order; it is safe to stop after any of them.
        stuck: Groups that do not get there: they wait for the CPUs of one that is fixed, or for
            each other's while there is no shared CPU to wait on, or one that its owner is to leave.
    """

    writes: tuple[Write, ...]
    stuck: tuple[str, ...]


def transition(changes: Iterable[Change], shared: CpuSet) -> Transition:
    """Order the writes that lead from ``before`` to ``after``, none for groups that are there.

    The result does not depend on the order of the changes.

    Args:
        changes: One for each group.
        shared: The CPUs that are shared afterwards; all others have one owner at most.

    Raises:
        ValueError: A group has no CPU to go to.
    """
    ordered = sorted(changes, key=lambda change: change.group)
    for change in ordered:
        if not change.after:
            raise ValueError(f"{change.group}: no CPU to be placed on")
    if all(change.before == change.after for change in ordered):
        return Transition((), ())
    state = _State(ordered, shared)
    movable = [change for change in ordered if not change.fixed]
    for change in movable:
        kept = change.before & change.after
        if kept and kept != change.before:
            state.put(change, kept)
    waiting = [change for change in movable if change.before & change.after != change.after]
    parked: set[str] = set()
    while waiting:
        still = [change for change in waiting if not state.gain(change)]
        if len(still) == len(waiting) and not state.park(waiting, parked):
            break
        waiting = still
    return Transition(tuple(state.writes), tuple(change.group for change in waiting))


class _State:
    """Who is on which CPU after the writes so far."""

    def __init__(self, changes: Sequence[Change], shared: CpuSet) -> None:
        self.writes: list[Write] = []
        self._shared = shared
        self._now: dict[str, CpuSet] = {}
        # By CPU, how many groups are on it that are to leave it, and how many of those have it
        # for themselves.
        self._leaving: Counter[int] = Counter()
        self._owning: Counter[int] = Counter()
        self._blocked: set[int] = set()
        self._changes = changes
        for change in changes:
            self._enter(change, change.before)
            if change.fixed:
                self._blocked.update(change.before - change.after)

    def put(self, change: Change, cpus: CpuSet) -> None:
        leaving = self._now[change.group] - change.after
        self._leaving.subtract(leaving)
        self._owning.subtract(leaving & change.own)
        self._enter(change, cpus)
        self.writes.append(Write(change.group, cpus))

    def gain(self, change: Change) -> bool:
        """Give a group all that it is to have, if nobody is in the way."""
        now = self._now[change.group]
        if now == change.after:
            return True
        for cpu in change.after - now:
            if self._owning[cpu] if cpu in self._shared else self._leaving[cpu]:
                return False
        self.put(change, change.after)
        return True

    def park(self, waiting: Iterable[Change], parked: set[str]) -> bool:
        """Let the first group that can wait elsewhere do so, once; False if none can.

        Rather not on CPUs that are to be its own, as those who are on them will have to leave.
        """
        movers = [
            change
            for change in waiting
            if change.group not in parked and not self._now[change.group] & change.after
        ]
        room = self._room()
        for avoided in (True, False):
            for change in movers:
                elsewhere = room - self._now[change.group]
                if avoided:
                    elsewhere -= change.after
                if elsewhere:
                    parked.add(change.group)
                    self.put(change, elsewhere)
                    return True
        for change in movers:
            now = self._now[change.group]
            rest = now & (room | (change.own & self._shared))
            if rest and rest != now:
                parked.add(change.group)
                self.put(change, rest)
                return True
        return False

    def _room(self) -> CpuSet:
        """CPUs that nobody has for itself, or is about to; who stays on a shared one shares it."""
        to_be_left = CpuSet(cpu for cpu, groups in self._leaving.items() if groups > 0)
        room = self._shared | (to_be_left - CpuSet(self._blocked))
        for change in self._changes:
            room -= (self._now[change.group] & change.own) - (change.after & self._shared)
        return room

    def _enter(self, change: Change, cpus: CpuSet) -> None:
        leaving = cpus - change.after
        self._now[change.group] = cpus
        self._leaving.update(leaving)
        self._owning.update(leaving & change.own)
