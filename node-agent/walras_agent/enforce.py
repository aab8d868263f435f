"""Apply: the CPUs of granted pods, held by the kernel.

One round observes, divides the CPUs, and makes the writes of `moves` and `quota` in their order.
Before the first of them the journal has what the files said. After each container the kernel is
asked what it holds now; where that is not what was written, or the kernel refused, the round goes
on from a new look, with that container left as it is and its CPUs with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from walras_agent.bandwidth import bandwidth_writes
from walras_agent.cpuset import CpuSet
from walras_agent.holdings import Holdings, divide, limit
from walras_agent.moves import CPUS, plan_moves, target
from walras_agent.observe import read_group
from walras_agent.ownership import alone, owned_now
from walras_agent.restore import restore
from walras_agent.tree import CgroupError
from walras_agent.widening import widening

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from walras_agent.holdings import Grant
    from walras_agent.journal import Journal
    from walras_agent.moves import Move
    from walras_agent.observe import Observer, Pod
    from walras_agent.topology import Topology, Unit
    from walras_agent.tree import Cgroups, Setting

Write = tuple["Setting", str]

NO_LIMITS: Mapping[str, int] = MappingProxyType({})

_TRIES = 3
_GONE = "groups in it come and go while it is moved"
_STUCK = "waits for CPUs that others have not left yet"
_LEFT_ALONE = "is left alone for a while, as it could not be written or others keep changing it"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a group is not as it should be.

    Attributes:
        group: Its path.
        kind: As `CgroupError.kind`; "stuck" if it only waits.
        reason: For people, in one line.
    """

    group: str
    kind: Literal["gone", "transient", "permanent", "stuck"]
    reason: str


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did, or would do.

    Attributes:
        holdings: What pods are to hold.
        pods: Pods of this node, as they were when the round began.
        writes: The writes made; those of a dry run if it was one.
        failures: What is not as it should be.
    """

    holdings: Holdings
    pods: tuple[Pod, ...]
    writes: tuple[Write, ...]
    failures: tuple[Failure, ...]


@dataclass(slots=True)
class Enforcer:
    """Holds pods to CPUs.

    Attributes:
        cgroups: Of this node.
        observer: Sees its pods.
        journal: Has the originals.
        reserved: CPUs that nobody may have of their own.
        possible: CPUs that the machine may ever have, see `restore`.
        others: Whether pods may come without a grant, for which a core is always left.
    """

    cgroups: Cgroups
    observer: Observer
    journal: Journal
    reserved: CpuSet = field(default_factory=CpuSet)
    possible: CpuSet = field(default_factory=CpuSet)
    others: bool = True
    _own: Mapping[str, CpuSet] | None = None
    # What was divided last, and how: most looks divide the same again.
    _divided: tuple[object, Holdings] | None = None

    def hold(
        self,
        topology: Topology,
        grants: Iterable[Grant],
        fixed: Collection[str] = (),
        *,
        unit: Unit = "core",
        limits: Mapping[str, int] = NO_LIMITS,
    ) -> Round:
        """Bring all pods to the CPUs that they are to hold.

        Args:
            topology: The CPUs that are online now.
            grants: What was sold; those of pods that are not here are left out.
            fixed: Containers, and pods' groups, to which nothing is to be written this time.
            unit: What was sold.
            limits: By pod UID, how many of its own cores it is to use for now; see
                `holdings.limit`.

        Raises:
            JournalError: Originals cannot be kept; nothing more was written then.
        """
        granted = list(grants)
        pods = first = self.observer.observe()
        writes: list[Write] = []
        failed: dict[str, Failure] = {}
        gone: Counter[str] = Counter()
        while True:
            own = self._owned(pods)
            holdings = self._divide(topology, granted, pods, own, unit, limits)
            if not holdings.pods:  # then nobody owns a CPU, and all may be as it was before
                self._put_back(self._cpu_settings(), writes, failed, fixed)
                self._own = {}
                return Round(holdings, first, tuple(writes), tuple(failed.values()))
            moves = plan_moves(pods, holdings, self._texts(), own, {*fixed, *failed})
            problem = self._move(moves.moves, pods, writes)
            if problem is None and not (moves.stuck or failed or fixed):
                self._own = {uid: holding.own for uid, holding in holdings.pods.items()}
                break
            pods = self.observer.observe()
            self._own = owned_now(pods, own, holdings)
            if problem is None:
                break
            gone[problem.group] += problem.kind == "gone"
            # A container may make and remove groups inside of it faster than they can be moved.
            if problem.kind != "gone" or gone[problem.group] > _TRIES:
                failed[problem.group] = problem
        for name in moves.stuck:
            failed.setdefault(name, Failure(name, "stuck", f"{name}: {_STUCK}"))
        for name in _elsewhere(pods, holdings, fixed):
            failed.setdefault(name, _left_alone(name))
        self._bound(pods, holdings, writes, failed, fixed)
        return Round(holdings, first, tuple(writes), tuple(failed.values()))

    def rehearsed(self, cgroups: Cgroups, journal: Journal) -> Enforcer:
        """The same, on other cgroups and with another journal."""
        observer = replace(self.observer, cgroups=cgroups)
        return replace(self, cgroups=cgroups, observer=observer, journal=journal)

    def _owned(self, pods: Sequence[Pod]) -> Mapping[str, CpuSet]:
        """By pod, the CPUs that it has had for itself; after a start, as far as can be seen."""
        return alone(pods) if self._own is None else self._own

    def _divide(
        self,
        topology: Topology,
        grants: Iterable[Grant],
        pods: Sequence[Pod],
        own: Mapping[str, CpuSet],
        unit: Unit,
        limits: Mapping[str, int],
    ) -> Holdings:
        here = {pod.uid for pod in pods}
        present = [grant for grant in grants if grant.pod in here]
        others = self.others or len(present) < len(pods)
        inputs = (topology, present, dict(own), unit, others, dict(limits))
        if self._divided is None or self._divided[0] != inputs:
            holdings = divide(topology, present, own, unit, self.reserved, others=others)
            self._divided = inputs, limit(holdings, limits, topology, unit)
        return self._divided[1]

    def _texts(self) -> dict[Setting, str]:
        return {setting: kept.text for setting, kept in self.journal.originals.items()}

    def _move(
        self, moves: Sequence[Move], pods: Sequence[Pod], writes: list[Write]
    ) -> Failure | None:
        """Make moves until one fails, and return why; None when all were made."""
        above = {each.group.name: pod.group for pod in pods for each in pod.containers}
        planned = [
            [*widening(self.cgroups, above[move.container], move.cpus), *move.writes]
            for move in moves
        ]
        self.journal.take_down((s for each in planned for s, _ in each), self.cgroups)
        for move, steps in zip(moves, planned, strict=True):
            try:
                self._write(steps, writes)
                held = read_group(self.cgroups, move.container)
            except CgroupError as error:
                if error.kind == "gone":
                    return Failure(move.container, "gone", _GONE)
                return Failure(move.container, error.kind, str(error))
            if held is None:
                return Failure(move.container, "gone", _GONE)
            if held.cpus != move.cpus:
                told = f"{move.container}: CPUs {move.cpus} were written, {held.cpus} are in effect"
                return Failure(move.container, "permanent", told)
        return None

    def _bound(
        self,
        pods: Sequence[Pod],
        holdings: Holdings,
        writes: list[Write],
        failed: dict[str, Failure],
        fixed: Collection[str],
    ) -> None:
        """Set quotas and weights of granted pods, and put back those of others."""
        kept: set[str] = set()
        for pod in pods:
            holding = holdings.pods.get(pod.uid)
            if holding is None:
                continue
            kept.update((pod.group, *(each.group.name for each in pod.containers)))
            steps = bandwidth_writes(self.cgroups, pod, holding)
            if steps and pod.group in fixed:
                failed.setdefault(pod.group, _left_alone(pod.group))
                continue
            self.journal.take_down([setting for setting, _ in steps], self.cgroups)
            try:
                self._write(steps, writes)
            except CgroupError as error:
                _note(failed, pod.group, error)
        lost = [
            setting
            for setting in self.journal.originals
            if setting.controller == "cpu" and setting.group not in kept
        ]
        self._put_back(lost, writes, failed, fixed)

    def _cpu_settings(self) -> list[Setting]:
        """What the journal has of this module's files."""
        return [
            each for each in self.journal.originals if each.controller == "cpu" or each.file == CPUS
        ]

    def _put_back(
        self,
        settings: Collection[Setting],
        writes: list[Write],
        failed: dict[str, Failure],
        fixed: Collection[str],
    ) -> None:
        for setting in settings:
            if setting.group in fixed:
                failed.setdefault(setting.group, _left_alone(setting.group))
        texts = self._texts()
        tried = [setting for setting in settings if setting.group not in fixed]
        done = restore(self.journal, self.cgroups, tried, possible=self.possible)
        writes += [(setting, texts[setting]) for setting in done.restored]
        for setting, refusal in done.failed.items():
            _note(failed, setting.group, refusal)

    def _write(self, steps: Iterable[Write], writes: list[Write]) -> None:
        for setting, value in steps:
            self.cgroups.write(setting, value)
            writes.append((setting, value))


def _note(failed: dict[str, Failure], group: str, error: CgroupError) -> None:
    """Add a refusal to the failures, unless the group is gone: that is the end of many groups."""
    if error.kind != "gone":
        failed.setdefault(group, Failure(group, error.kind, str(error)))


def _left_alone(group: str) -> Failure:
    return Failure(group, "stuck", f"{group}: {_LEFT_ALONE}")


def _elsewhere(pods: Sequence[Pod], holdings: Holdings, fixed: Collection[str]) -> Iterator[str]:
    """Containers left alone that are not on the CPUs that they are to use."""
    for pod in pods:
        for each in pod.containers:
            if each.group.name in fixed and each.group.cpus != target(pod, holdings):
                yield each.group.name
