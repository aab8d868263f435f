"""Apply: the loop that holds the node to its latest plan, for as long as the agent runs.

Every step looks at what is there and makes what is missing, so that it does not matter what has
happened in between: a container has come, somebody has written to a cgroup, a CPU has gone
offline, the agent has been killed. A plan only says what is to be; an older one than the last is
ignored, since it comes from a leader that has been replaced.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from walras_agent.backoff import Backoff
from walras_agent.enforce import NO_LIMITS, Failure
from walras_agent.journal import Journal
from walras_agent.memory.course import Pace
from walras_agent.memory.keeper import MemoryKeeper
from walras_agent.memory.locality import local_nodes
from walras_agent.memory.nodes import NodeKeeper
from walras_agent.moves import target
from walras_agent.rehearsal import Rehearsal
from walras_agent.status import NodeStatus, pod_status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from walras_agent.cpuset import CpuSet
    from walras_agent.enforce import Enforcer, Round
    from walras_agent.node_plan import NodePlan
    from walras_agent.topology import Topology
    from walras_agent.tree import CgroupError

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reconciler:
    """Brings the node to its plan, a step at a time.

    Attributes:
        enforcer: Of CPUs.
        memory: Of memory.
        nodes: Of memory nodes.
        topology: Reads the CPUs that are online now.
        why_not: Tells why nothing may be written here; empty if it may.
    """

    enforcer: Enforcer
    memory: MemoryKeeper
    nodes: NodeKeeper
    topology: Callable[[], Topology]
    why_not: Callable[[], str]
    _plan: NodePlan | None = None
    _left: Mapping[str, CpuSet] = field(default_factory=dict)
    _bounds: Mapping[str, object] = field(default_factory=dict)
    _refused: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=300.0))
    _undone: Backoff = field(default_factory=lambda: Backoff(first=0.5, longest=60.0))

    def offer(self, plan: NodePlan, *, anew: bool = False) -> bool:
        """Take a plan from now on; False if it is older than the last, and ignored.

        Args:
            plan: What is to be.
            anew: Whatever its epoch is, since those of the last plan count no more.
        """
        if self._plan is not None and plan.epoch < self._plan.epoch and not anew:
            _log.warning(
                "plan of epoch %d ignored: the last was of %d", plan.epoch, self._plan.epoch
            )
            return False
        self._plan = plan
        return True

    def step(
        self, now: float, limits: Mapping[str, int] = NO_LIMITS, fixed: Collection[str] = ()
    ) -> NodeStatus:
        """Look, and write what is missing.

        Args:
            now: Seconds, monotonic.
            limits: By UID, pods that for the sake of a measurement use only so many of their own
                cores in this step, the first in assignment order. They keep owning the others,
                which lie idle. Ignored for pods without cores of their own, and when observing.
            fixed: Containers that stay on their CPUs in this step, whatever their grant; nobody
                comes onto these.

        Raises:
            JournalError: Originals cannot be kept; nothing more was written then.
        """
        plan = self._plan
        if plan is None:
            return NodeStatus(None, "observe")
        if refused := self.why_not():
            return NodeStatus(plan.epoch, plan.mode, refused)
        if plan.mode == "observe":
            return self._observe(plan, now)
        waiting = self._refused.waiting(now).union(self._undone.waiting(now), fixed)
        topology = self.topology()
        done = self.enforcer.hold(topology, plan.grants, waiting, unit=plan.unit, limits=limits)
        wanted = local_nodes(done.holdings, topology) if plan.memory_nodes == "local" else {}
        nodes = self.nodes.step(done.pods, wanted, now)
        memory = {each.pod: each.memory for each in plan.grants if each.memory is not None}
        limits_held = self.memory.step(done.pods, memory, now)
        repaired = self._note(done, waiting, now)
        pods = {pod.uid: pod for pod in done.pods}
        return NodeStatus(
            plan.epoch,
            plan.mode,
            pods=tuple(
                pod_status(grant, pods.get(grant.pod), done, limits_held, nodes.pods)
                for grant in plan.grants
            ),
            shared=done.holdings.shared,
            writes=(*done.writes, *nodes.writes, *limits_held.writes),
            repaired=repaired,
            failures=(
                *done.failures,
                *map(_failure, (*nodes.refused, *limits_held.refused.values())),
            ),
        )

    def _observe(self, plan: NodePlan, now: float) -> NodeStatus:
        """Put everything back, and tell what the plan would write."""
        back = self.enforcer.hold(self.topology(), (), self._refused.waiting(now))
        self._note_refusals(back, now)
        nodes = self.nodes.step(back.pods, {}, now)
        memory = self.memory.step(back.pods, {}, now)
        self._left = {}
        refused = map(_failure, (*nodes.refused, *memory.refused.values()))
        granted = [each.pod for each in plan.grants if each.memory is not None]
        demands = self.memory.measure(back.pods, granted, now)
        seen = self.preview(plan, now)
        pods = tuple(replace(each, demand=demands.get(each.pod)) for each in seen.pods)
        return replace(seen, pods=pods, failures=(*back.failures, *refused))

    def preview(self, plan: NodePlan, now: float) -> NodeStatus:
        """What the first two steps would do for a plan; nothing is written.

        Two, because memory is not lowered at first sight; how far it goes after that depends on
        what the pod does.

        Args:
            plan: In whatever mode.
            now: Seconds, monotonic.
        """
        stage = Rehearsal(self.enforcer.cgroups)
        journal = Journal.in_memory(self.enforcer.journal.originals.values())
        enforcer = self.enforcer.rehearsed(stage, journal)
        memory = MemoryKeeper(stage, journal, self.memory.pace)
        nodes = NodeKeeper(stage, journal, self.nodes.root)
        rehearsed = Reconciler(enforcer, memory, nodes, self.topology, self.why_not)
        rehearsed.offer(replace(plan, mode="enforce"))
        rehearsed.step(now)
        status = rehearsed.step(now + (self.memory.pace or Pace()).pause)
        return replace(status, mode="observe", writes=tuple(stage.writes))

    def _note(self, done: Round, waiting: frozenset[str], now: float) -> tuple[str, ...]:
        """Remember what is left as it should be, and what of that others have changed."""
        failed = waiting.union(each.group for each in done.failures)
        repaired, left = [], {}
        for pod in done.pods:
            after = target(pod, done.holdings)
            for each in pod.containers:
                name, cpus = each.group.name, each.group.cpus
                if self._left.get(name, cpus) != cpus:
                    repaired.append(name)
                if name not in failed:
                    left[name] = after
        repaired += self._unbound(done)
        for name in repaired:
            wait = self._undone.failed(name, now)
            _log.warning("%s was changed by others; left alone for %g s", name, wait)
        self._note_refusals(done, now)
        # Without grants all is as others want it.
        self._left = left if done.holdings.pods else {}
        return tuple(repaired)

    def _unbound(self, done: Round) -> list[str]:
        """Pods whose quotas or weight had to be written though they hold what they did before."""
        written = {setting.group for setting, _ in done.writes if setting.controller == "cpu"}
        found, bounds = [], {}
        for pod in done.pods:
            holding = done.holdings.pods.get(pod.uid)
            if holding is None:
                continue
            groups = frozenset((pod.group, *(each.group.name for each in pod.containers)))
            bounds[pod.uid] = (holding.milliquota, holding.milliweight, groups)
            if self._bounds.get(pod.uid) == bounds[pod.uid] and groups & written:
                found.append(pod.group)
        self._bounds = bounds
        return found

    def _note_refusals(self, done: Round, now: float) -> None:
        """Remember what is not to be tried again at once."""
        for failure in done.failures:
            if failure.kind == "permanent":
                wait = self._refused.failed(failure.group, now)
                _log.error("%s; next try in %g s", failure.reason, wait)
        there = {each.group.name for pod in done.pods for each in pod.containers}
        there.update(pod.group for pod in done.pods)
        for waits in (self._refused, self._undone):
            waits.keep(frozenset(there))


def _failure(refusal: CgroupError) -> Failure:
    return Failure(refusal.setting.group, refusal.kind, str(refusal))
