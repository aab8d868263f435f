"""Apply: the loop that holds the node to its latest plan, for as long as the agent runs.

Every step looks at what is there and makes what is missing, so that it does not matter what has
happened in between: a container has come, somebody has written to a cgroup, a CPU has gone
offline, the agent has been killed. A plan only says what is to be; an older one than the last is
ignored, since it comes from a leader that has been replaced.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from walras_agent.backoff import Backoff
from walras_agent.cpuset import CpuSet
from walras_agent.moves import target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.enforce import Enforcer, Round
    from walras_agent.holdings import Grant
    from walras_agent.memory import Report
    from walras_agent.memory_keeper import MemoryKeeper
    from walras_agent.topology import Topology
    from walras_agent.tree import CgroupError, Setting

_log = logging.getLogger(__name__)

Mode = Literal["enforce", "observe"]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What the operator wants of this node.

    Attributes:
        epoch: Grows from plan to plan.
        mode: Whether to write, or only to tell what would be written.
        grants: At most one for each pod.
    """

    epoch: int
    mode: Mode
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class PodStatus:
    """How one grant is held.

    Attributes:
        pod: UID.
        title: ``namespace/name``.
        cpus: CPUs that the pod may use now; None while it has no container here.
        memory: Bytes that it is held to; None where its memory is left alone.
        state: ``Enforced``; ``Pending`` on its way; ``Failed`` when the kernel refuses; ``Absent``
            while the pod has no container here.
        reason: Why it is not enforced, for people.
    """

    pod: str
    title: str
    cpus: CpuSet | None
    memory: int | None
    state: Literal["Enforced", "Pending", "Failed", "Absent"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How the node is.

    Attributes:
        epoch: Of the plan that this is about; None before the first.
        mode: Of that plan.
        refused: Why nothing may be written here; empty if it may.
        pods: One for each grant.
        shared: CPUs of all pods without one.
        writes: What this step wrote; in ``observe`` what it would have written.
        repaired: Containers whose CPUs others have changed since the last step.
        failures: By group, why it is not as it should be.
    """

    epoch: int | None
    mode: Mode
    refused: str = ""
    pods: tuple[PodStatus, ...] = ()
    shared: CpuSet = field(default_factory=CpuSet)
    writes: tuple[tuple[Setting, str], ...] = ()
    repaired: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether all is as the plan says."""
        return not self.refused and all(pod.state == "Enforced" for pod in self.pods)


@dataclass(slots=True)
class Reconciler:
    """Brings the node to its plan, a step at a time.

    Attributes:
        enforcer: Of CPUs.
        memory: Of memory.
        topology: Reads the CPUs that are online now.
        why_not: Tells why nothing may be written here; empty if it may.
    """

    enforcer: Enforcer
    memory: MemoryKeeper
    topology: Callable[[], Topology]
    why_not: Callable[[], str]
    _plan: NodePlan | None = None
    _left: Mapping[str, CpuSet] = field(default_factory=dict)
    _refused: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=300.0))
    _undone: Backoff = field(default_factory=lambda: Backoff(first=0.5, longest=60.0))

    def offer(self, plan: NodePlan) -> bool:
        """Take a plan from now on; False if it is older than the last, and ignored."""
        if self._plan is not None and plan.epoch < self._plan.epoch:
            _log.warning(
                "plan of epoch %d ignored: the last was of %d", plan.epoch, self._plan.epoch
            )
            return False
        self._plan = plan
        return True

    def step(self, now: float) -> NodeStatus:
        """Look, and write what is missing.

        Args:
            now: Seconds, monotonic.

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
        waiting = self._refused.waiting(now) | self._undone.waiting(now)
        done = self.enforcer.hold(self.topology(), plan.grants, waiting)
        memory = {each.pod: each.memory for each in plan.grants if each.memory is not None}
        reports, refusals = self.memory.step(done.pods, memory, now)
        repaired = self._note(done, waiting, now)
        return NodeStatus(
            plan.epoch,
            plan.mode,
            pods=tuple(_status(grant, done, reports, refusals) for grant in plan.grants),
            shared=done.holdings.shared,
            writes=done.writes,
            repaired=repaired,
            failures={each.group: each.reason for each in done.failures},
        )

    def _observe(self, plan: NodePlan, now: float) -> NodeStatus:
        """Put everything back, and tell what the plan would write."""
        back = self.enforcer.hold(self.topology(), ())
        self.memory.step(back.pods, {}, now)
        self._left = {}
        shown = self.enforcer.preview(self.topology(), plan.grants)
        return NodeStatus(
            plan.epoch,
            plan.mode,
            shared=shown.holdings.shared,
            writes=shown.writes,
            failures={each.group: each.reason for each in back.failures},
        )

    def _note(self, done: Round, waiting: frozenset[str], now: float) -> tuple[str, ...]:
        """Remember who was refused, and whose CPUs others have changed."""
        failed = waiting.union(each.group for each in done.failures)
        repaired, left = [], {}
        for pod in done.pods:
            after = target(pod, done.holdings)
            for each in pod.containers:
                name, cpus = each.group.name, each.group.cpus
                if self._left.get(name, cpus) != cpus:
                    repaired.append(name)
                    wait = self._undone.failed(name, now)
                    _log.warning("%s was changed by others; left alone for %g s", name, wait)
                if name not in failed:
                    left[name] = after
        for failure in done.failures:
            if failure.kind == "permanent":
                wait = self._refused.failed(failure.group, now)
                _log.error("%s; next try in %g s", failure.reason, wait)
        # Without grants all is as others want it.
        self._left = left if done.holdings.pods else {}
        for waits in (self._refused, self._undone):
            waits.keep(frozenset(each.group.name for pod in done.pods for each in pod.containers))
        return tuple(repaired)


def _status(
    grant: Grant, done: Round, reports: Mapping[str, Report], refusals: Mapping[str, CgroupError]
) -> PodStatus:
    pod = next((each for each in done.pods if each.uid == grant.pod), None)
    if pod is None or not pod.containers:
        return PodStatus(
            grant.pod, grant.title, None, None, "Absent", "the pod has no container on this node"
        )
    holding = done.holdings.pods[grant.pod]
    report = reports.get(grant.pod)
    limit = report.limit if report else None
    groups = {pod.group, *(each.group.name for each in pod.containers)}
    failures = [each for each in done.failures if each.group in groups]
    if failures or grant.pod in refusals:
        reasons = [each.reason for each in failures]
        reasons += [str(refusals[grant.pod])] if grant.pod in refusals else []
        stuck = all(each.kind != "permanent" for each in failures) and grant.pod not in refusals
        state: Literal["Pending", "Failed"] = "Pending" if stuck else "Failed"
        return PodStatus(grant.pod, grant.title, holding.cpus, limit, state, "; ".join(reasons))
    if holding.missing:
        missing = f"{holding.missing} of the cores granted are not to be had on this node now"
        return PodStatus(grant.pod, grant.title, holding.cpus, limit, "Pending", missing)
    if report is not None and report.state == "Pending":
        return PodStatus(grant.pod, grant.title, holding.cpus, limit, "Pending", report.reason)
    return PodStatus(grant.pod, grant.title, holding.cpus, limit, "Enforced")
