"""Apply: the agent's loop: take the latest plan, look, write what is missing, tell how it went.

It looks when something has changed (`wake`), and at least every period. Whatever it cannot do now
is tried again at the next look; the process ends only when it is told to, and leaves all as it is
then: the pods keep what they hold, and the next start goes on from there.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from walras_agent.daemon.plans import PlanError, PlanWithdrawn, measurement, node_plan, told_demands
from walras_agent.daemon.report import Report, ended, holds, profiling_status
from walras_agent.journal import JournalError
from walras_agent.node_plan import NodePlan
from walras_agent.status import NodeStatus

if TYPE_CHECKING:
    from walras.resources.allocation import NodeAllocation
    from walras.resources.node_status import ProfilingStatus
    from walras_agent.daemon.node import Node
    from walras_agent.daemon.state import State
    from walras_agent.daemon.wake import Wake
    from walras_agent.node_plan import Mode

_log = logging.getLogger(__name__)

UNSETTLED = 1.0  # seconds to the next look while something is on its way


class PlanSource(Protocol):
    """Where plans come from."""

    def changed(self) -> NodeAllocation | None:
        """The latest plan, if it has changed since the last call; else None.

        Raises:
            PlanError: It has changed, and cannot be used.
            PlanWithdrawn: There is none any more: all grants are lost.
        """


class Listener(Protocol):
    """Is told of every look."""

    def tell(self, report: Report) -> None:
        """Take a report."""


@dataclass(slots=True)
class Agent:
    """Holds a node to its plans.

    Attributes:
        node: Its parts that look and write.
        plans: Where they come from.
        state: What must outlive the process.
        wake: Tells when to look.
        listeners: Who is told.
        period: Longest time between two looks, in seconds.
        mode: Instead of that of the plans; None for theirs.
    """

    node: Node
    plans: PlanSource
    state: State
    wake: Wake
    listeners: tuple[Listener, ...]
    period: float = 10.0
    mode: Mode | None = None
    _plan: NodePlan | None = None
    _last_measurement: ProfilingStatus | None = None
    _problems: tuple[str, ...] = ()
    _taken: float = 0.0
    _enforced: int | None = None
    _held: bool = False
    _recalled: bool = False
    _stopping: bool = False

    def resume(self) -> None:
        """Take up what was when the agent last ran."""
        last_measurement = self.state.last_measurement()
        if last_measurement is not None:
            # Not even one that was going on: its lease is over as far as anybody can tell.
            self.node.profiler.pass_over(last_measurement.id)
            self._last_measurement = ended(last_measurement)
        last = self.state.last_plan()
        if last is not None:
            self._take(last)

    def run(self) -> None:
        """Look at the node until `stop`."""
        while not self._stopping:
            self.wake.wait(self._pause(self.look()))

    def stop(self) -> None:
        """End `run` after the present look; for signal handlers and other threads."""
        self._stopping = True
        self.wake.call()

    def look(self) -> Report:
        """Take a new plan if there is one, and bring the node to it."""
        self._take_new()
        now = time.monotonic()
        status = self._step(now)
        self.node.profiler.note(status, time.monotonic())
        delay = self._note(status)
        report = Report(
            node=status,
            seconds=time.monotonic() - now,
            topology=self.node.topology(),
            problems=self._problems,
            enforced=self._enforced,
            delay=delay,
            profiling=self._measured(),
        )
        for listener in self.listeners:
            listener.tell(report)
        return report

    def _take_new(self) -> None:
        try:
            plan = self.plans.changed()
        except PlanError as error:
            self._problems = error.problems
            for problem in error.problems:
                _log.error("plan refused: %s", problem, extra={"event": "plan-refused"})
        except PlanWithdrawn as withdrawn:
            self._problems = ()
            if self._plan is not None:
                self._take(withdrawn.rest, anew=True)
        else:
            if plan is not None:
                self._problems = ()
                self._recall(plan)
                self._take(plan)

    def _recall(self, allocation: NodeAllocation) -> None:
        """Go on from what the agent before this one told: the first plan comes with its status."""
        if not self._recalled:
            self._recalled = True
            self.node.reconciler.memory.recall(told_demands(allocation))

    def _take(self, allocation: NodeAllocation, *, anew: bool = False) -> None:
        plan = node_plan(allocation)
        if self.mode is not None:
            plan = replace(plan, mode=self.mode)
        if not self.node.reconciler.offer(plan, anew=anew):
            self._problems = (
                f"the plan of epoch {plan.epoch} is older than that in force; give a later epoch",
            )
            return
        self.state.keep_plan(allocation)
        self._plan, self._taken, self._held = plan, time.monotonic(), False
        request = measurement(allocation) if plan.mode == "enforce" else None
        self.node.profiler.offer(request, self._taken)

    def _step(self, now: float) -> NodeStatus:
        try:
            return self.node.reconciler.step(now, self.node.profiler.limits(now))
        except JournalError as error:
            _log.error("%s", error, extra={"event": "journal"})
            plan = self._plan or NodePlan(0, "observe", ())
            return NodeStatus(plan.epoch, plan.mode, refused=str(error))

    def _note(self, status: NodeStatus) -> float | None:
        """Remember whether the plan holds; return how long that took, when it first does."""
        if not holds(status):
            return None
        self._enforced = status.epoch
        first, self._held = not self._held, True
        return time.monotonic() - self._taken if first else None

    def _measured(self) -> ProfilingStatus | None:
        """The last measurement; that it has begun and how it ended are kept."""
        report = self.node.profiler.report
        if report is None:
            return self._last_measurement
        status = profiling_status(report)
        before = self._last_measurement
        if before is None or (before.id, before.state) != (status.id, status.state):
            self.state.keep_measurement(status)
            self._last_measurement = status
        return status

    def _pause(self, report: Report) -> float:
        """Seconds until the node is to be looked at again."""
        settled = holds(report.node) or report.node.mode == "observe"
        pause = self.period if settled else min(UNSETTLED, self.period)
        now = time.monotonic()
        due = self.node.profiler.next_wake(now)
        return pause if due is None else min(pause, due - now)
