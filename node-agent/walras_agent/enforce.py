"""Effects: enforces the CPUs of granted pods, by cpuset and CPU weight, without CFS quotas.

One round observes the pods, allocates the CPUs, and makes the writes of `moves` and `bandwidth` in
their order. Between rounds, weights alone are corrected (`CpuEnforcer.correct`). The journal has
the original texts of the files before the first write. After each container the effective cpuset is
read back. If that differs from what was written, or the kernel refused a write, the round observes
again and goes on without changing that container or its CPUs.
"""

from __future__ import annotations

import errno
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from walras_agent.bandwidth import BandwidthEnforcer
from walras_agent.cpu_use import CpuUseReader
from walras_agent.cpuset import CpuSet
from walras_agent.domains import domains_of
from walras_agent.moves import CPUS, plan_moves, target
from walras_agent.observe import read_group
from walras_agent.pod_cpus import (
    NO_LIMITS,
    NodeCpus,
    allocate_cpus,
    common_cpus,
    still_exclusive,
    unshared_cpus,
)
from walras_agent.procfs import idle_seconds
from walras_agent.purchases import correctable, purchases
from walras_agent.restore import restore
from walras_agent.round_log import GroupFailure, RoundLog
from walras_agent.shared_time import SharedTime
from walras_agent.tree import CgroupError, CgroupFile, is_gone
from walras_agent.ungranted import ungranted_cpus
from walras_agent.weights import RANGES, final_weights, weight_of_a_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from walras_agent.correction import Purchase
    from walras_agent.journal import Journal
    from walras_agent.moves import Move
    from walras_agent.node_plan import EnforcedGrant
    from walras_agent.observe import ObservedPod, PodObserver
    from walras_agent.topology import Topology, Unit
    from walras_agent.tree import Cgroups, FileWrite
    from walras_agent.weights import WeightRange

_TRIES = 3
_MOST_DELETED = 64  # originals of deleted groups, since to forget them is a durable write
_GONE = "its child cgroups keep changing while it is moved"
_STUCK = "waits for CPUs that other pods still use"


@dataclass(frozen=True, slots=True)
class CpuRound:
    """The result of one round, or of its dry run.

    Attributes:
        node_cpus: CPUs that all pods are to have.
        pods: Pods of this node when the round began.
        writes: Writes that were made, in order.
        failures: Cgroups that are not as `node_cpus` says.
        overwritten: Pods whose quota or weight others had changed, and that were written again.
        least_cpus: CPUs of the smallest grant that can be weighed.
    """

    node_cpus: NodeCpus
    pods: tuple[ObservedPod, ...]
    writes: tuple[FileWrite, ...]
    failures: tuple[GroupFailure, ...]
    overwritten: frozenset[str] = frozenset()
    least_cpus: float = 0.0


class _Settled(NamedTuple):
    """What a round led to, by which weights are corrected until the next.

    Attributes:
        pods: Pods of the node.
        lifted: Those whose quotas are lifted, by UID.
        bought: What pods bought, or requested if they have no grant, by UID.
        corrected: Purchases by which weights are corrected.
        cpus: Number of CPUs of the node.
    """

    pods: Sequence[ObservedPod]
    lifted: Collection[str]
    bought: Mapping[str, Purchase]
    corrected: Mapping[str, Purchase]
    cpus: int


@dataclass(slots=True)
class CpuEnforcer:
    """Enforces CPU grants on a node.

    Attributes:
        cgroups: Cgroups of this node.
        observer: Reader of the node's pods.
        journal: Original texts of the files that were written.
        reserved: Function that returns the CPUs that stay shared.
        possible: CPUs that the machine may ever have; see `restore`.
        others: Whether pods without a grant may come; at least one core is left for these.
        classes: Cgroups of QoS classes, which are weighed by their pods.
        weights: Range of weights; None for that of the cgroups.
        concurrent: Whether the kernel counts weights for each CPU (`kernel`).
        allocate: Function that chooses the CPUs of all grants.
        clock: Function that returns the monotonic time in seconds.
        idle: Function that returns how long each CPU has been idle, in seconds.
    """

    cgroups: Cgroups
    observer: PodObserver
    journal: Journal
    reserved: Callable[[], CpuSet] = CpuSet
    possible: CpuSet = field(default_factory=CpuSet)
    others: bool = True
    classes: tuple[str, ...] = ()
    weights: WeightRange | None = None
    concurrent: bool = False
    allocate: Callable[..., NodeCpus] = allocate_cpus
    clock: Callable[[], float] = time.monotonic
    idle: Callable[[], Mapping[int, float]] = idle_seconds
    # Exclusive CPUs of each pod now, and shared ones so far; None after a start.
    _exclusive: Mapping[str, CpuSet] | None = None
    _shared: Mapping[str, CpuSet] | None = None
    _settled: _Settled | None = None
    # The result of a round that had nothing to write, and its inputs.
    _unchanged: tuple[object, CpuRound] | None = None
    _time: SharedTime = field(init=False)
    _bandwidth: BandwidthEnforcer = field(init=False)

    def __post_init__(self) -> None:
        self._time = SharedTime(CpuUseReader(self.cgroups, self.clock), self.idle)
        self._bandwidth = BandwidthEnforcer(self.cgroups, self.journal)

    @property
    def competing(self) -> bool:
        """Whether pods compete for CPU time, or could, so that weights are to be corrected soon."""
        return self._settled is not None and self._time.competing

    @property
    def pause(self) -> float:
        """Time in seconds after which `correct` is due."""
        return self._time.pause

    def enforce(
        self,
        topology: Topology,
        grants: Iterable[EnforcedGrant],
        fixed: Collection[str] = (),
        *,
        unit: Unit = "core",
        limits: Mapping[str, int] = NO_LIMITS,
        keeps_limits: bool = False,
        undisturbed: bool = False,
    ) -> CpuRound:
        """Move all pods to the CPUs that their grants give them, lift quotas and set weights.

        Args:
            topology: CPUs that are online now.
            grants: Grants of the node; those of pods that are not here are ignored.
            fixed: Cgroups of containers and pods that must not be written in this round.
            unit: Whether grants count physical cores or single CPUs.
            limits: Cores that pods under measurement may use now, by pod UID; see
                `pod_cpus.allocate_cpus`.
            keeps_limits: Whether quotas stay.
            undisturbed: Whether nobody else has made or removed a group, or written a file that is
                enforced, since the last call. Then only the effective CPUs are read, if these and
                the other arguments are the same.

        Raises:
            JournalError: The journal cannot be written; nothing was written after that.
        """
        granted = list(grants)
        self.journal.see_online(topology.cpuset | topology.isolated)
        if self._exclusive is None:  # a previous agent may have written to groups in containers
            self.observer.divided.update(self._above_journaled())
            self.observer.known.update(self._journaled_cpus())
        pods = self.observer.observe(undisturbed=undisturbed)
        inputs = topology, granted, unit, dict(limits), keeps_limits, self.reserved(), pods
        if not undisturbed:
            self._bandwidth.look_anew()
        elif self._unchanged and self._unchanged[0] == inputs and not fixed:
            unchanged = self._unchanged[1]  # unless a correction fails
            return replace(unchanged, writes=self.correct())
        self._unchanged = None
        log = RoundLog(fixed, failed={each.group: each for each in map(_unreadable, _errors(pods))})

        def allocate(pods: Sequence[ObservedPod], exclusive: Mapping[str, CpuSet]) -> NodeCpus:
            return self._allocate(topology, granted, pods, exclusive, unit, limits)

        now, node_cpus = self._move_all(pods, allocate, topology, log)
        least = 0.0
        if node_cpus.pods:
            bought = purchases(now, node_cpus, self._bandwidth.requested)
            corrected = correctable(bought, node_cpus, domains_of(topology))
            cpus = len(topology.cpus)
            lifted = frozenset() if keeps_limits else node_cpus.pods.keys()
            self._settled = _Settled(now, lifted, bought, corrected, cpus)
            least = self._weigh(self._settled, log)
            self._forget_deleted(now)
        else:  # no exclusive CPUs, so everything can be restored
            self._restore(self._cpu_settings(), log)
            self._exclusive, self._settled = {}, None
            self._time.look((), {}, {})
        done = CpuRound(
            node_cpus,
            pods,
            tuple(log.writes),
            tuple(log.failed.values()),
            frozenset(log.overwritten),
            least,
        )
        if not (log.writes or log.failed or fixed):
            self._unchanged = inputs, done
        return done

    def correct(self, fixed: Collection[str] = ()) -> tuple[FileWrite, ...]:
        """Correct the weights of all pods by the time that they used, if due; return the writes.

        What the kernel refuses shows in the next round.

        Args:
            fixed: Cgroups that must not be written.

        Raises:
            JournalError: The journal cannot be written; nothing was written after that.
        """
        if self._settled is None or not self._time.is_due():
            return ()
        log = RoundLog(fixed)
        self._weigh(self._settled, log, quotas=False)
        if log.failed:
            self._unchanged = None
        return tuple(log.writes)

    def with_cgroups(self, cgroups: Cgroups, journal: Journal) -> CpuEnforcer:
        """Return a copy that writes to other cgroups and another journal."""
        observer = replace(self.observer, cgroups=cgroups)
        return replace(self, cgroups=cgroups, observer=observer, journal=journal)

    def _move_all(
        self,
        pods: tuple[ObservedPod, ...],
        allocate: Callable[[Sequence[ObservedPod], Mapping[str, CpuSet]], NodeCpus],
        topology: Topology,
        log: RoundLog,
    ) -> tuple[tuple[ObservedPod, ...], NodeCpus]:
        """Move all pods to their CPUs, as far as the kernel lets them, if any has a grant.

        Each turn leaves one more container where it is, or finds one that has changed meanwhile.

        Args:
            pods: The pods as observed.
            allocate: Function that returns the CPUs that pods are to have, of the pods and the
                exclusive CPUs of each so far.
            topology: CPUs that are online now.
            log: Of this round.

        Returns:
            The pods as observed last, and the CPUs that they are to have.
        """
        gone: Counter[str] = Counter()
        while True:
            exclusive = self._owned(pods)
            node_cpus = allocate(pods, exclusive)
            if not node_cpus.pods:
                return pods, node_cpus
            node_cpus = self._with_ungranted(node_cpus, pods, topology)
            moves = plan_moves(pods, node_cpus, self._texts(), exclusive, log.staying)
            problem = self._move(moves.moves, pods, log)
            if problem is None and not (moves.stuck or log.staying):
                self._exclusive = {uid: each.exclusive for uid, each in node_cpus.pods.items()}
                return pods, node_cpus
            pods = self.observer.observe()
            for each in map(_unreadable, _errors(pods)):
                log.failed.setdefault(each.group, each)
            self._exclusive = still_exclusive(pods, exclusive, node_cpus)
            if problem is None:
                break
            gone[problem.group] += problem.kind == "gone"
            # A container may create and remove child groups faster than they can be moved.
            if problem.kind != "gone" or gone[problem.group] > _TRIES:
                log.failed[problem.group] = problem
        for name in moves.stuck:
            log.failed.setdefault(name, GroupFailure(name, "stuck", f"{name}: {_STUCK}"))
        for name in _misplaced(pods, node_cpus, log.fixed):
            log.back_off(name)
        return pods, node_cpus

    def _weigh(self, settled: _Settled, log: RoundLog, *, quotas: bool = True) -> float:
        """Write the weights of all pods and classes; return the CPUs of the least weight.

        Args:
            settled: What the round led to.
            log: Of this round.
            quotas: Whether to lift quotas, too, and to restore what is no longer enforced.
        """
        pods, lifted, bought, corrected, cpus = settled
        if self._time.is_due():
            self._time.look(pods, bought, corrected)
        allowed = self.weights or RANGES[self.cgroups.version]
        scale = weight_of_a_cpu(sum(each.cpus for each in bought.values()), cpus, allowed)
        weights = final_weights(
            self._time.weighed(pods, bought),
            self.classes,
            scale,
            allowed,
            cpus,
            concurrent=self.concurrent,
        )
        if quotas:
            self._restore(self._bandwidth.enforce(pods, lifted, weights, log), log)
        else:
            self._bandwidth.weigh(pods, weights, log)
        return allowed.least / scale

    def _owned(self, pods: Sequence[ObservedPod]) -> Mapping[str, CpuSet]:
        """Return the exclusive CPUs of each pod by UID; after a start, those that are unshared."""
        if self._exclusive is not None:
            return self._exclusive
        available = {}
        for pod in pods:
            with suppress(CgroupError):
                if group := read_group(self.cgroups, pod.group):
                    available[pod.uid] = group.cpus
        return unshared_cpus(pods, available)

    def _allocate(
        self,
        topology: Topology,
        grants: Iterable[EnforcedGrant],
        pods: Sequence[ObservedPod],
        exclusive: Mapping[str, CpuSet],
        unit: Unit,
        limits: Mapping[str, int],
    ) -> NodeCpus:
        here = {pod.uid for pod in pods}
        present = [grant for grant in grants if grant.pod in here]
        if self._shared is None:  # after a start, they are where the previous agent left them
            self._shared = {pod.uid: common_cpus(pod) for pod in pods}
        before = self._shared
        node_cpus = self.allocate(
            topology,
            present,
            exclusive,
            unit,
            self.reserved(),
            shared_before=before,
            others=self.others or len(present) < len(pods),
            limits=limits,
        )
        self._shared = {
            # A pod that is measured comes back to its domain.
            uid: each.shared or before.get(uid, CpuSet())
            for uid, each in node_cpus.pods.items()
        }
        return node_cpus

    def _above_journaled(self) -> Iterator[str]:
        """Yield all groups above those of which the journal has the original CPUs."""
        for setting in self.journal.originals:
            group = setting.group if setting.file == CPUS else ""
            while group := group.rpartition("/")[0]:
                yield group

    def _journaled_cpus(self) -> Iterator[tuple[str, CpuSet]]:
        """Yield containers that a previous agent has written, and the CPUs that they may have."""
        for setting, kept in self.journal.originals.items():
            if setting.file == CPUS:
                texts = kept.written or ()
                yield setting.group, CpuSet(cpu for text in texts for cpu in CpuSet.parse(text))

    def _with_ungranted(
        self, node_cpus: NodeCpus, pods: Sequence[ObservedPod], topology: Topology
    ) -> NodeCpus:
        usable = topology.cpuset | topology.isolated
        ungranted = ungranted_cpus(self.cgroups, pods, node_cpus, self.journal, usable)
        return replace(node_cpus, ungranted=ungranted)

    def _texts(self) -> dict[CgroupFile, str]:
        return {setting: kept.text for setting, kept in self.journal.originals.items()}

    def _move(
        self, moves: Sequence[Move], pods: Sequence[ObservedPod], log: RoundLog
    ) -> GroupFailure | None:
        """Make moves until one fails; return its failure, or None if all were made."""
        above = {each.group.name: pod.group for pod in pods for each in pod.containers}
        planned = [
            [*_widen_ancestors(self.cgroups, above[move.container], move.cpus), *move.writes]
            for move in moves
        ]
        self.journal.record((write for each in planned for write in each), self.cgroups)
        for move, steps in zip(moves, planned, strict=True):
            try:
                for setting, value in steps:
                    self.journal.write(setting, value, self.cgroups)
                    log.writes.append((setting, value))
                held = read_group(self.cgroups, move.container)
            except CgroupError as error:
                divided = self.observer.divided
                in_use = error.errno == errno.EBUSY and self.cgroups.version == 2
                if error.kind == "gone" or (in_use and move.container not in divided):
                    if in_use:  # child groups may list CPUs that it is to leave: observe these, too
                        divided.add(move.container)
                    return GroupFailure(move.container, "gone", _GONE)
                return GroupFailure(move.container, error.kind, str(error))
            if held is None:
                return GroupFailure(move.container, "gone", _GONE)
            self.observer.known[move.container] = held.cpus
            if held.cpus != move.cpus:
                reason = f"{move.container}: wrote CPUs {move.cpus}, but {held.cpus} are in effect"
                return GroupFailure(move.container, "permanent", reason)
        return None

    def _forget_deleted(self, pods: Sequence[ObservedPod]) -> None:
        """Forget the originals of groups that were deleted, once there are many."""
        here = {group for pod in pods for group in pod.groups}
        originals = self.journal.originals
        away = [setting for setting in self._cpu_settings() if setting.group not in here]
        deleted = [
            setting
            for setting in away
            if is_gone(self.cgroups, setting.group, originals[setting].identity)
        ]
        if len(deleted) > _MOST_DELETED:
            self.journal.forget(deleted)

    def _cpu_settings(self) -> list[CgroupFile]:
        """Return the CPU files that the journal has originals of."""
        return [
            each for each in self.journal.originals if each.controller == "cpu" or each.file == CPUS
        ]

    def _restore(self, settings: Collection[CgroupFile], log: RoundLog) -> None:
        for setting in settings:
            if setting.group in log.fixed:
                log.back_off(setting.group)
        texts = self._texts()
        tried = [setting for setting in settings if setting.group not in log.fixed]
        done = restore(self.journal, self.cgroups, tried, possible=self.possible)
        self._bandwidth.forget(done.restored)
        log.writes.extend((setting, texts[setting]) for setting in done.restored)
        for setting, refusal in done.failed.items():
            log.note(setting.group, refusal)


def enable_cpuset(cgroups: Cgroups, group: str) -> None:
    """Enable the cpuset controller for a cgroup and those above it (v2).

    Raises:
        CgroupError: The kernel refuses.
    """
    names = group.strip("/").split("/")
    for depth in range(len(names)):
        above = "/" + "/".join(names[:depth])
        cgroups.write(CgroupFile("cpuset", above, "cgroup.subtree_control"), "+cpuset")


def _errors(pods: Iterable[ObservedPod]) -> Iterator[tuple[str, CgroupError]]:
    """Yield the containers that could not be read, with the errors."""
    for pod in pods:
        for each in pod.containers:
            if each.error is not None:
                yield each.group.name, each.error


def _unreadable(container: tuple[str, CgroupError]) -> GroupFailure:
    group, error = container
    return GroupFailure(group, "unreadable", str(error))


def _misplaced(
    pods: Sequence[ObservedPod], node_cpus: NodeCpus, fixed: Collection[str]
) -> Iterator[str]:
    """Yield the fixed containers that are not on the CPUs that they are to use."""
    for pod in pods:
        for each in pod.containers:
            if each.group.name in fixed and each.group.cpus != target(pod, each, node_cpus):
                yield each.group.name


def _widen_ancestors(cgroups: Cgroups, pod: str, cpus: CpuSet) -> Iterator[FileWrite]:
    """Yield the writes that add CPUs to a pod's group and its ancestors, topmost first.

    Ancestors are never narrowed: containers that are created later inherit from them, and fail
    where they cannot (koordinator 395, 546; kubernetes 104147).
    """
    try:
        group = read_group(cgroups, pod)
    except CgroupError:
        return  # the write to the container tells what is wrong
    if group is None or cpus <= group.cpus:
        return
    parts = pod.strip("/").split("/")
    for depth in range(len(parts)):
        setting = CgroupFile("cpuset", "/" + "/".join(parts[: depth + 1]), CPUS)
        try:
            listed = CpuSet.parse(cgroups.read(setting))
        except CgroupError:
            continue
        if listed and not cpus <= listed:  # an empty cpuset of v2 has the CPUs of its parent
            yield setting, str(listed | cpus)
