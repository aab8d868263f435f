"""Effects: reconciles the node with its latest plan, one step at a time.

Every step observes the node and writes only what differs, whatever has happened in between: a new
container, a write by somebody else, a CPU that went offline, a restart of the agent. A plan that is
older than the last one is ignored, since it comes from a leader that has been replaced.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from walras_agent.backoff import Backoff
from walras_agent.cpu_use import CpuUseReader
from walras_agent.dry_run import DryRunCgroups
from walras_agent.enforce import enable_cpuset
from walras_agent.journal import Journal
from walras_agent.memory.enforce import MemoryEnforcer
from walras_agent.memory.limit_steps import ReclaimPace
from walras_agent.memory.numa import NumaEnforcer, local_nodes
from walras_agent.moves import target
from walras_agent.observe import ControllerDisabledError
from walras_agent.pod_cpus import NO_LIMITS
from walras_agent.round_log import GroupFailure
from walras_agent.shown_use import ShownUse
from walras_agent.status import NodeStatus, pod_status
from walras_agent.tree import CgroupError
from walras_agent.watched_demand import ASLEEP, DemandWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from walras_agent.cpu_demand import CpuDemand
    from walras_agent.cpuset import CpuSet
    from walras_agent.enforce import CpuEnforcer, CpuRound
    from walras_agent.node_plan import NodePlan
    from walras_agent.topology import Topology
    from walras_agent.tree import FileWrite

_log = logging.getLogger(__name__)

REST = 60.0
"""Longest time in seconds for which files that change only when they are written are not read."""


@dataclass(slots=True)
class Reconciler:
    """Reconciles a node with its plan, step by step.

    Attributes:
        enforcer: Enforcer of CPUs, quotas and weights.
        memory: Enforcer of memory limits.
        numa: Enforcer of NUMA bindings.
        topology: Function that reads the CPUs that are online now.
        write_conflict: Function that returns why the agent must not write on this node; empty if
            it may.
        dry: Whether no time passes between steps, so that nothing can be told of use.
    """

    enforcer: CpuEnforcer
    memory: MemoryEnforcer
    numa: NumaEnforcer
    topology: Callable[[], Topology]
    write_conflict: Callable[[], str]
    dry: bool = False
    _plan: NodePlan | None = None
    _looked: float = -inf
    _use: ShownUse = field(init=False)
    _demand: DemandWatch = field(init=False)
    _expected: Mapping[str, CpuSet] = field(default_factory=dict)
    _refused: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=300.0))
    _busy: Backoff = field(default_factory=lambda: Backoff(first=0.1, longest=30.0))
    _undone: Backoff = field(default_factory=lambda: Backoff(first=0.5, longest=60.0))

    def __post_init__(self) -> None:
        self._use = ShownUse(self.enforcer.cgroups)
        enforcer = self.enforcer
        self._demand = DemandWatch(CpuUseReader(enforcer.cgroups, enforcer.clock, asleep=ASLEEP))

    def offer(self, plan: NodePlan, *, reset_epoch: bool = False) -> bool:
        """Use a plan from now on; return False for one that is older than the last, and ignore it.

        Args:
            plan: The plan.
            reset_epoch: Whether to use it whatever its epoch is.
        """
        if self._plan is not None and plan.epoch < self._plan.epoch and not reset_epoch:
            _log.warning(
                "ignoring plan of epoch %d: epoch %d is in force", plan.epoch, self._plan.epoch
            )
            return False
        self._plan = plan
        return True

    def step(
        self,
        now: float,
        limits: Mapping[str, int] = NO_LIMITS,
        fixed: Collection[str] = (),
        *,
        undisturbed: bool = False,
    ) -> NodeStatus:
        """Observe the node, make the writes that its plan needs, and return its status.

        Args:
            now: Monotonic time in seconds.
            limits: Number of cores of its own that a measured pod may use in this step, by UID; its
                other cores stay idle. Ignored in mode ``observe``.
            fixed: Containers that stay on their CPUs in this step, whatever their grant; no other
                pod gets these CPUs.
            undisturbed: Whether nobody else has made or removed a group, or written a file that is
                enforced, since the last step, so that few files need to be read.

        Raises:
            JournalError: The journal cannot be written; nothing was written after that.
        """
        undisturbed = undisturbed and now - self._looked < REST
        if not undisturbed:
            self._looked = -inf  # until all has been read, however this step ends
        plan = self._plan
        if plan is None:
            return NodeStatus(None, "observe")
        if refused := self.write_conflict():
            return NodeStatus(plan.epoch, plan.mode, refused)
        if not undisturbed:
            self.memory.look_anew()
        enabled: set[str] = set()
        while True:
            try:
                status = self._step(plan, now, limits, fixed, undisturbed=undisturbed)
            except ControllerDisabledError as disabled:
                undisturbed = False
                # Every pod may lack it; one pass enables it for all of them.
                if refused := self._enable_cpuset(disabled, plan, enabled):
                    return NodeStatus(plan.epoch, plan.mode, refused)
            except CgroupError as error:
                return NodeStatus(plan.epoch, plan.mode, str(error))
            else:
                self._looked = self._looked if undisturbed else now
                return status

    @property
    def competing(self) -> bool:
        """Whether pods compete for CPU time, or could, so that `correct` is due soon."""
        return self.enforcer.competing

    @property
    def pause(self) -> float:
        """Time in seconds after which `correct` is due."""
        return self.enforcer.pause

    @property
    def glance_due(self) -> float:
        """When to glance at what pods use, in monotonic seconds; infinity if never."""
        return self._demand.due

    @contextmanager
    def glance(self) -> Iterator[None]:
        """Compare what pods have used before and after a moment of `watched_demand.GLANCE`."""
        self._demand.begin_glance()
        yield
        self._demand.end_glance()

    def correct(self, now: float) -> tuple[FileWrite, ...]:
        """Correct the weights of all pods, without looking at anything else.

        Returns:
            The writes that were made.

        Raises:
            JournalError: The journal cannot be written; nothing was written after that.
        """
        return self.enforcer.correct(self._failing(now).union(self._undone.waiting(now)))

    def _enable_cpuset(
        self, disabled: ControllerDisabledError, plan: NodePlan, enabled: set[str]
    ) -> str:
        """Enable the controller that a pod needs; return why that cannot be done.

        Args:
            disabled: Names the group that lacks the controller.
            plan: The plan; in mode ``observe``, nothing is enabled.
            enabled: Groups for which this pass has enabled it, to which this one is added.
        """
        group = disabled.setting.group
        if plan.mode != "enforce" or group in enabled:
            return str(disabled)
        enabled.add(group)
        _log.warning("%s; enabling it", disabled)
        try:
            enable_cpuset(self.enforcer.cgroups, group)
        except CgroupError as error:
            return f"{disabled} ({error})"
        return ""

    def _step(
        self,
        plan: NodePlan,
        now: float,
        limits: Mapping[str, int],
        fixed: Collection[str],
        *,
        undisturbed: bool,
    ) -> NodeStatus:
        if plan.mode == "observe":
            return self._observe(plan, now)
        waiting = self._failing(now).union(self._undone.waiting(now), fixed)
        topology = self.topology()
        done = self.enforcer.enforce(
            topology,
            plan.grants,
            waiting,
            unit=plan.unit,
            limits=limits,
            keeps_limits=plan.keeps_limits,
            undisturbed=undisturbed,
        )
        wanted = local_nodes(done.node_cpus, topology) if plan.memory_nodes == "local" else {}
        numa = self.numa.step(done.pods, wanted, now)
        memory = {each.pod: each.memory for each in plan.grants if each.memory is not None}
        limits_held = self.memory.step(done.pods, memory, now)
        repaired = self._note(done, waiting, now)
        pods = {pod.uid: pod for pod in done.pods}
        used, could_use = self._used(plan, done, now)
        return NodeStatus(
            plan.epoch,
            plan.mode,
            pods=tuple(
                pod_status(
                    grant,
                    pods.get(grant.pod),
                    done,
                    limits_held,
                    numa.pods,
                    topology,
                    used,
                    could_use,
                )
                for grant in plan.grants
            ),
            shared=done.node_cpus.shared,
            writes=(*done.writes, *numa.writes, *limits_held.writes),
            repaired=repaired,
            failures=(
                *done.failures,
                *map(_failure, (*numa.refused, *limits_held.refused.values())),
            ),
        )

    def _observe(self, plan: NodePlan, now: float) -> NodeStatus:
        """Restore everything, and return the status with the writes that the plan would need."""
        back = self.enforcer.enforce(self.topology(), (), self._failing(now))
        self._note_refusals(back, now)
        numa = self.numa.step(back.pods, {}, now)
        memory = self.memory.step(back.pods, {}, now)
        self._expected = {}
        refused = map(_failure, (*numa.refused, *memory.refused.values()))
        granted = [each.pod for each in plan.grants if each.memory is not None]
        demands = self.memory.measure(back.pods, granted, now)
        seen = self.preview(plan, now)
        used, could_use = self._used(plan, back, now)
        pods = tuple(
            replace(
                each,
                demand=demands.get(each.pod),
                used=used.get(each.pod),
                could_use=could_use.get(each.pod),
            )
            for each in seen.pods
        )
        return replace(seen, pods=pods, failures=(*back.failures, *refused))

    def _used(
        self, plan: NodePlan, done: CpuRound, now: float
    ) -> tuple[Mapping[str, float], Mapping[str, CpuDemand]]:
        """Return what pods with a grant use, and what they could, by UID."""
        if self.dry:
            return {}, {}
        granted = {grant.pod for grant in plan.grants}
        pods = [pod for pod in done.pods if pod.uid in granted]
        own: dict[str, float] = {
            uid: 0 if cpus.limit else len(cpus.exclusive)
            for uid, cpus in done.node_cpus.pods.items()
            if cpus.limit or (cpus.exclusive and not cpus.shared)
        }
        return self._use.look(pods, now), self._demand.look(pods, own)

    def preview(self, plan: NodePlan, now: float) -> NodeStatus:
        """Return the status after the first two steps of a plan, in a dry run.

        The first step does not lower memory. How far it is lowered after the second depends on
        what the pod does.

        Args:
            plan: The plan, in any mode.
            now: Monotonic time in seconds.
        """
        dry_cgroups = DryRunCgroups(self.enforcer.cgroups)
        journal = Journal.in_memory(self.enforcer.journal.originals.values())
        enforcer = self.enforcer.with_cgroups(dry_cgroups, journal)
        memory = MemoryEnforcer(dry_cgroups, journal, self.memory.pace)
        numa = NumaEnforcer(dry_cgroups, journal, self.numa.root)
        dry_run = Reconciler(enforcer, memory, numa, self.topology, self.write_conflict, dry=True)
        dry_run.offer(replace(plan, mode="enforce"))
        dry_run.step(now)
        status = dry_run.step(now + (self.memory.pace or ReclaimPace()).pause)
        return replace(status, mode="observe", writes=tuple(dry_cgroups.writes))

    def _note(self, done: CpuRound, waiting: frozenset[str], now: float) -> tuple[str, ...]:
        """Remember the CPUs that are enforced now, and return the groups that others changed."""
        failed = waiting.union(each.group for each in done.failures)
        repaired, expected = [], {}
        for pod in done.pods:
            for each in pod.containers:
                name, cpus = each.group.name, each.group.cpus
                after = target(pod, each, done.node_cpus)
                if self._expected.get(name, cpus) != cpus != after:
                    repaired.append(name)
                if name not in failed:
                    expected[name] = after
        repaired += sorted(done.overwritten)
        for name in repaired:
            wait = self._undone.failed(name, now)
            _log.warning("%s was changed by others; next write in %g s", name, wait)
        self._note_refusals(done, now)
        # Without grants others may change all CPUs.
        self._expected = expected if done.node_cpus.pods else {}
        return tuple(repaired)

    def _failing(self, now: float) -> frozenset[str]:
        """Return the groups that must not be written yet because the last write failed."""
        return self._refused.waiting(now) | self._busy.waiting(now)

    def _note_refusals(self, done: CpuRound, now: float) -> None:
        """Delay the next try of writes that failed, and forget groups that were deleted."""
        for failure in done.failures:
            if failure.kind == "permanent":
                wait = self._refused.failed(failure.group, now)
                _log.error("%s; next try in %g s", failure.reason, wait)
            elif failure.kind == "transient":
                self._busy.failed(failure.group, now)
        there = {group for pod in done.pods for group in pod.groups}
        there.update(self.enforcer.classes)
        for waits in (self._refused, self._busy, self._undone):
            waits.keep(frozenset(there))


def _failure(refusal: CgroupError) -> GroupFailure:
    return GroupFailure(refusal.setting.group, refusal.kind, str(refusal))
