"""Apply: the CPUs of granted pods, held by the kernel.

One round observes, divides the CPUs, and makes the writes of `moves` and `quota` in their order.
Before the first of them the journal has what the files said. After each container the kernel is
asked what it holds now; where that is not what was written, or the kernel refused, the round goes
on from a new look, with that container left as it is and its CPUs with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from walras_agent.cpuset import CpuSet
from walras_agent.holdings import Holdings, divide
from walras_agent.journal import Original
from walras_agent.moves import CPUS, plan_moves, target
from walras_agent.observe import read_group
from walras_agent.quota import LOOKED_AT, QUOTA_FILES, CpuFiles, quota_writes
from walras_agent.restore import restore
from walras_agent.tree import CgroupError, Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from walras_agent.holdings import Grant, Holding
    from walras_agent.journal import Journal
    from walras_agent.moves import Move
    from walras_agent.observe import Observer, Pod
    from walras_agent.topology import Topology, Unit
    from walras_agent.tree import Cgroups

Write = tuple[Setting, str]

_TRIES = 3
_GONE = "groups in it come and go while it is moved"
_STUCK = "waits for CPUs that others have not left yet"
_LEFT_ALONE = "is left alone for a while, as it could not be moved or others keep moving it"


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
        unit: What is sold.
        reserved: CPUs that nobody may have of their own.
    """

    cgroups: Cgroups
    observer: Observer
    journal: Journal
    unit: Unit = "core"
    reserved: CpuSet = field(default_factory=CpuSet)
    _own: Mapping[str, CpuSet] | None = None

    def hold(
        self, topology: Topology, grants: Iterable[Grant], fixed: Collection[str] = ()
    ) -> Round:
        """Bring all pods to the CPUs that they are to hold.

        Args:
            topology: The CPUs that are online now.
            grants: What was sold; those of pods that are not here are left out.
            fixed: Containers that are not to be tried this time.

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
            holdings = self._divide(topology, granted, pods, own)
            if not holdings.pods:  # then nobody owns a CPU, and all may be as it was before
                self._put_back(self._cpu_settings(), writes, failed)
                self._own = {}
                return Round(holdings, first, tuple(writes), tuple(failed.values()))
            moves = plan_moves(pods, holdings, self._texts(), own, {*fixed, *failed})
            problem = self._move(moves.moves, pods, writes)
            if problem is None and not (moves.stuck or failed or fixed):
                self._own = {uid: holding.own for uid, holding in holdings.pods.items()}
                break
            pods = self.observer.observe()
            self._own = _owned_now(pods, own, holdings)
            if problem is None:
                break
            gone[problem.group] += problem.kind == "gone"
            # A container may make and remove groups inside of it faster than they can be moved.
            if problem.kind != "gone" or gone[problem.group] > _TRIES:
                failed[problem.group] = problem
        for name in moves.stuck:
            failed.setdefault(name, Failure(name, "stuck", f"{name}: {_STUCK}"))
        for name in _elsewhere(pods, holdings) & set(fixed):
            failed.setdefault(name, Failure(name, "stuck", f"{name}: {_LEFT_ALONE}"))
        self._bound(pods, holdings, writes, failed)
        return Round(holdings, first, tuple(writes), tuple(failed.values()))

    def preview(self, topology: Topology, grants: Iterable[Grant]) -> Round:
        """The writes that `hold` would make now; none is made."""
        pods = self.observer.observe()
        own = self._owned(pods)
        holdings = self._divide(topology, grants, pods, own)
        moves = plan_moves(pods, holdings, self._texts(), own)
        writes = [
            write for move in moves.moves for write in (*self._above(move, pods), *move.writes)
        ]
        for pod, holding in _granted(pods, holdings):
            writes += self._quota_writes(pod, holding)
        return Round(holdings, pods, tuple(writes), ())

    def _owned(self, pods: Sequence[Pod]) -> Mapping[str, CpuSet]:
        """By pod, the CPUs that it has had for itself; after a start, as far as can be seen."""
        return _alone(pods) if self._own is None else self._own

    def _divide(
        self,
        topology: Topology,
        grants: Iterable[Grant],
        pods: Sequence[Pod],
        own: Mapping[str, CpuSet],
    ) -> Holdings:
        here = {pod.uid for pod in pods}
        present = [grant for grant in grants if grant.pod in here]
        return divide(topology, present, own, self.unit, self.reserved)

    def _texts(self) -> dict[Setting, str]:
        return {setting: kept.text for setting, kept in self.journal.originals.items()}

    def _move(
        self, moves: Sequence[Move], pods: Sequence[Pod], writes: list[Write]
    ) -> Failure | None:
        """Make moves until one fails, and return why; None when all were made."""
        planned = [[*self._above(move, pods), *move.writes] for move in moves]
        self._remember(setting for each in planned for setting, _ in each)
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
    ) -> None:
        """Set quotas and weights of granted pods, and put back those of others."""
        for pod, holding in _granted(pods, holdings):
            steps = self._quota_writes(pod, holding)
            self._remember(setting for setting, _ in steps)
            try:
                self._write(steps, writes)
            except CgroupError as error:
                _note(failed, pod.group, error)
        kept = {
            group
            for pod, _ in _granted(pods, holdings)
            for group in (pod.group, *(each.group.name for each in pod.containers))
        }
        lost = [
            setting
            for setting in self.journal.originals
            if setting.controller == "cpu" and setting.group not in kept
        ]
        self._put_back(lost, writes, failed)

    def _cpu_settings(self) -> list[Setting]:
        """What the journal has of this module's files; memory is put back in steps."""
        return [each for each in self.journal.originals if each.controller in {"cpuset", "cpu"}]

    def _put_back(
        self, settings: Collection[Setting], writes: list[Write], failed: dict[str, Failure]
    ) -> None:
        texts = self._texts()
        done = restore(self.journal, self.cgroups, settings)
        writes += [(setting, texts[setting]) for setting in done.restored]
        for setting, refusal in done.failed.items():
            _note(failed, setting.group, refusal)

    def _quota_writes(self, pod: Pod, holding: Holding) -> tuple[Write, ...]:
        for files in (LOOKED_AT, QUOTA_FILES):  # bursts only where something is to be written
            containers = [self._cpu_files(each.group.name, files) for each in pod.containers]
            own = self._cpu_files(pod.group, files)
            writes = quota_writes(self.cgroups.version, own, containers, holding)
            if not writes:
                break
        return writes

    def _cpu_files(self, group: str, files: Mapping[Literal[1, 2], tuple[str, ...]]) -> CpuFiles:
        texts = {}
        for file in files[self.cgroups.version]:
            try:
                texts[file] = self.cgroups.read(Setting("cpu", group, file))
            except CgroupError:
                continue  # an older kernel has no bursts; a group that is gone has nothing
        return CpuFiles(group, texts)

    def _above(self, move: Move, pods: Sequence[Pod]) -> Iterator[Write]:
        """Writes that let the groups above a container have its CPUs, topmost first."""
        pod = next(each for each in pods if move.container.startswith(f"{each.group}/"))
        if not self._lacks(pod.group, move.cpus):
            return
        parts = pod.group.strip("/").split("/")
        for depth in range(len(parts)):
            group = "/" + "/".join(parts[: depth + 1])
            setting = Setting("cpuset", group, CPUS)
            try:
                own = CpuSet.parse(self.cgroups.read(setting))
            except CgroupError:
                continue
            if own and not move.cpus <= own:  # an empty one of v2 has all that its parent has
                yield setting, str(own | move.cpus)

    def _lacks(self, group: str, cpus: CpuSet) -> bool:
        found = read_group(self.cgroups, group)
        return found is not None and not cpus <= found.cpus

    def _remember(self, settings: Iterable[Setting]) -> None:
        known = self.journal.originals
        found = []
        for setting in settings:
            identity = self.cgroups.identity(setting.group)
            if identity is None:
                continue
            if setting in known and known[setting].identity == identity:
                continue
            try:
                found.append(Original(setting, identity, self.cgroups.read(setting)))
            except CgroupError:
                continue  # the write will say what is wrong with it
        self.journal.remember(found)

    def _write(self, steps: Iterable[Write], writes: list[Write]) -> None:
        for setting, value in steps:
            self.cgroups.write(setting, value)
            writes.append((setting, value))


def _note(failed: dict[str, Failure], group: str, error: CgroupError) -> None:
    """Add a refusal to the failures, unless the group is gone: that is the end of many groups."""
    if error.kind != "gone":
        failed.setdefault(group, Failure(group, error.kind, str(error)))


def _granted(pods: Sequence[Pod], holdings: Holdings) -> Iterator[tuple[Pod, Holding]]:
    for pod in pods:
        if pod.uid in holdings.pods:
            yield pod, holdings.pods[pod.uid]


def _elsewhere(pods: Sequence[Pod], holdings: Holdings) -> set[str]:
    """Containers that are not on the CPUs that they are to use."""
    return {
        each.group.name
        for pod in pods
        for each in pod.containers
        if each.group.cpus != target(pod, holdings)
    }


def _owned_now(
    pods: Sequence[Pod], before: Mapping[str, CpuSet], holdings: Holdings
) -> dict[str, CpuSet]:
    """By pod, what it has for itself when some of the moves have been made."""
    owned = {}
    for pod in pods:
        holding = holdings.pods.get(pod.uid)
        mine = holding.own if holding else CpuSet()
        owned[pod.uid] = (before.get(pod.uid, CpuSet()) | mine) & _cpus(pod)
    return owned


def _alone(pods: Sequence[Pod]) -> Mapping[str, CpuSet]:
    """By pod, the CPUs that no other pod may use: what it owns, as far as can be seen."""
    users = Counter(cpu for pod in pods for cpu in _cpus(pod))
    return {pod.uid: CpuSet(cpu for cpu in _cpus(pod) if users[cpu] == 1) for pod in pods}


def _cpus(pod: Pod) -> CpuSet:
    return CpuSet(cpu for each in pod.containers for cpu in each.group.cpus)
