"""Pure: orders cpuset changes so that no CPU ever has two exclusive owners.

Every group of tasks goes from the CPUs that it may use now to those that it is to have. It may
always release CPUs. It may gain a CPU that becomes exclusive once all other groups have left it,
and one that becomes shared once its exclusive owner has left it. So all groups first release what
they lose, then gain. Every single write keeps the rule, so a crash after any of them leaves no CPU
with two owners.

A group that keeps none of its CPUs cannot release all of them first: an empty cpuset is refused
(cgroup v1: ENOSPC) or means all CPUs of the parent (v2). It moves in one write when its new CPUs
are free. Where several groups wait for each other, one is parked on CPUs that others share, or on
those of its CPUs that no pod is to have exclusively.
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
class CpusetChange:
    """The CPUs of one group of tasks before and after a transition.

    Attributes:
        group: Name of the group, unique among the changes.
        pod: UID of its pod.
        before: CPUs that its tasks may use now.
        after: CPUs that they are to use, at least one.
        exclusive: Exclusive CPUs of the pod so far; no other pod gains one before the group has
            left it.
        fixed: Whether the group must not be written now; no other group gains the CPUs that it
            was to leave.
    """

    group: str
    pod: str
    before: CpuSet
    after: CpuSet
    exclusive: CpuSet = _NOTHING
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class CpusetWrite:
    """One write: the CPUs that the tasks of a group may use from then on."""

    group: str
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Transition:
    """Cpuset writes in a safe order.

    Attributes:
        writes: Writes in order; it is safe to stop after any of them.
        stuck: Groups that do not reach their CPUs: they wait for CPUs of a fixed group, or for
            each other's while there is no CPU to park one of them on.
    """

    writes: tuple[CpusetWrite, ...]
    stuck: tuple[str, ...]


def transition(changes: Iterable[CpusetChange], shared: CpuSet) -> Transition:
    """Order the writes that lead from ``before`` to ``after``; none for groups without a change.

    The result does not depend on the order of the changes.

    Args:
        changes: One change for each group.
        shared: CPUs that are shared afterwards, on which groups may be parked. All others have one
            owner at most, or are isolated.

    Raises:
        ValueError: A group is to have no CPU.
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
    """The CPUs of every group after the writes so far."""

    def __init__(self, changes: Sequence[CpusetChange], shared: CpuSet) -> None:
        self.writes: list[CpusetWrite] = []
        self._shared = shared
        self._now: dict[str, CpuSet] = {}
        # By CPU, the number of groups that are to leave it, and of those that own it exclusively.
        self._leaving: Counter[int] = Counter()
        self._owning: Counter[int] = Counter()
        self._blocked: set[int] = set()
        self._changes = changes
        for change in changes:
            self._enter(change, change.before)
            if change.fixed:
                self._blocked.update(change.before - change.after)

    def put(self, change: CpusetChange, cpus: CpuSet) -> None:
        leaving = self._now[change.group] - change.after
        self._leaving.subtract(leaving)
        self._owning.subtract(leaving & change.exclusive)
        self._enter(change, cpus)
        self.writes.append(CpusetWrite(change.group, cpus))

    def gain(self, change: CpusetChange) -> bool:
        """Give a group its CPUs if they are free; True if it has them now."""
        now = self._now[change.group]
        if now == change.after:
            return True
        for cpu in change.after - now:
            if self._owning[cpu] if cpu in self._shared else self._leaving[cpu]:
                return False
        self.put(change, change.after)
        return True

    def park(self, waiting: Iterable[CpusetChange], parked: set[str]) -> bool:
        """Park the first group that can wait on other CPUs, at most once each; False if none can.

        CPUs that the group is to have are the second choice: the groups on them have yet to leave.
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
            rest = now & (room | (change.exclusive & self._shared))
            if rest and rest != now:
                parked.add(change.group)
                self.put(change, rest)
                return True
        return False

    def _room(self) -> CpuSet:
        """Return the CPUs to park groups on: shared later or not yet left by all, and not owned."""
        to_be_left = CpuSet(cpu for cpu, groups in self._leaving.items() if groups > 0)
        room = self._shared | (to_be_left - CpuSet(self._blocked))
        for change in self._changes:
            room -= (self._now[change.group] & change.exclusive) - (change.after & self._shared)
        return room

    def _enter(self, change: CpusetChange, cpus: CpuSet) -> None:
        leaving = cpus - change.after
        self._now[change.group] = cpus
        self._leaving.update(leaving)
        self._owning.update(leaving & change.exclusive)
