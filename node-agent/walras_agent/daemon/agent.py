"""Effects: the agent's loop: take the latest plan, reconcile the node, and notify listeners.

It reconciles when something has changed (`inotify`), and at least once every period. What fails is
tried again in the next pass. The process ends only on request and leaves the pods as they are, so
that its successor goes on from there.
"""

from __future__ import annotations

import logging
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from walras_agent.daemon.plans import (
    PlanError,
    PlanWithdrawn,
    measurement_request,
    node_plan,
    reported_demands,
    watched_counters,
)
from walras_agent.daemon.report import ReconcileReport, mark_interrupted, profiling_status
from walras_agent.daemon.state import StateError
from walras_agent.journal import JournalError
from walras_agent.node_plan import NodePlan
from walras_agent.status import NodeStatus
from walras_agent.watched_demand import GLANCE
from walras_service.signals import handling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_agent.daemon.inotify import ChangeWaiter
    from walras_agent.daemon.node import NodeComponents
    from walras_agent.daemon.state import State
    from walras_agent.node_plan import Mode
    from walras_api.node_allocation import NodeAllocation
    from walras_api.node_allocation_status import ProfilingStatus

_log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Time to the next reconcile pass while something is pending."""


class PlanSource(Protocol):
    """Source of the node's plans: a file or the API server."""

    def changed(self) -> NodeAllocation | None:
        """Return the latest plan if it has changed since the last call; else None.

        Raises:
            PlanError: The plan has changed and is invalid.
            PlanWithdrawn: The plan was deleted, so that all grants end.
        """


class Listener(Protocol):
    """Receiver of the report of every reconcile pass."""

    def notify(self, report: ReconcileReport) -> None:
        """Take a report."""


@dataclass(slots=True)
class Agent:
    """Enforces the plans of a node.

    Attributes:
        node: Components that observe the node and write to it.
        plans: Source of the plans.
        state: State on disk that outlives the process.
        waiter: Waits for changes on the node and for calls.
        listeners: Receivers of the report of every reconcile pass.
        period: Longest time between two reconcile passes, in seconds.
        mode: Mode that overrides the plans'; None for the plans' own.
    """

    node: NodeComponents
    plans: PlanSource
    state: State
    waiter: ChangeWaiter
    listeners: tuple[Listener, ...]
    period: float = 10.0
    mode: Mode | None = None
    _plan: NodePlan | None = None
    _last_measurement: ProfilingStatus | None = None
    _problems: tuple[str, ...] = ()
    _accepted_at: float = 0.0
    _enforced_epoch: int | None = None
    _enforced: bool = False
    _demands_restored: bool = False
    _stopping: bool = False
    _crash: str = ""  # the last one, so that it is not logged every second

    def resume(self) -> None:
        """Restore the plan and the last measurement of the agent that ran before this one."""
        last_measurement = self.state.last_measurement()
        if last_measurement is not None:
            # Never continued, even if it was running: its lease may have expired meanwhile.
            self.node.profiler.skip(last_measurement.id)
            self._last_measurement = mark_interrupted(last_measurement)
        last = self.state.last_plan()
        if last is not None:
            self._apply(last)

    def run(self) -> None:
        """Reconcile the node until `stop`."""
        undisturbed = False
        while not self._stopping:
            report = self.reconcile(undisturbed=undisturbed)
            undisturbed = not self._wait(self._pause(report)) and not self.waiter.polls

    def _wait(self, seconds: float) -> bool:
        """Wait until the next pass is due, and return whether something may have changed.

        Meanwhile, correct the weights of pods that compete, and glance at what pods use.
        """
        reconciler = self.node.reconciler
        now = time.monotonic()
        end, corrected = now + seconds, now
        while not self._stopping:
            correction = corrected + reconciler.pause if reconciler.competing else inf
            glance = inf if self.waiter.polls else reconciler.glance_due
            due = min(end, correction, glance)
            if self.waiter.wait(due - time.monotonic()):
                return True
            if due == end:
                return False
            if due == correction:
                corrected = time.monotonic()
                self._correct()
            elif self._glance():
                return True
        return False

    def _correct(self) -> None:
        # What fails is found in the next pass.
        with suppress(JournalError):
            tree = self.node.tree
            self.waiter.forget(
                Path(tree.folder(setting.controller, setting.group), setting.file)
                for setting, _ in self.node.reconciler.correct(time.monotonic())
            )

    def _glance(self) -> bool:
        """Glance at what pods use, and return whether something may have changed meanwhile."""
        with self.node.reconciler.glance():
            return self.waiter.wait(GLANCE)

    def stop(self) -> None:
        """End `run` after the present pass; for signal handlers and other threads."""
        self._stopping = True
        self.waiter.wake()

    def reconcile(self, *, undisturbed: bool = False) -> ReconcileReport:
        """Make one pass: take a new plan if there is one, enforce it, and notify the listeners.

        Args:
            undisturbed: As of `Reconciler.step`.
        """
        self._receive_plan()
        now = time.monotonic()
        status = self._step(now, undisturbed=undisturbed)
        self.node.profiler.update(status, time.monotonic())
        delay = self._record(status)
        report = ReconcileReport(
            node=status,
            seconds=time.monotonic() - now,
            topology=self.node.topology(),
            problems=self._problems,
            enforced=self._enforced_epoch,
            delay=delay,
            profiling=self._measurement(),
            counters=self.node.counters.readings,
            kernel=self.node.kernel(),
        )
        for listener in self.listeners:
            listener.notify(report)
        return report

    def _receive_plan(self) -> None:
        try:
            plan = self.plans.changed()
        except PlanError as error:
            self._problems = error.problems
            for problem in error.problems:
                _log.error("plan refused: %s", problem, extra={"event": "plan-refused"})
        except PlanWithdrawn as withdrawn:
            self._problems = ()
            if self._plan is not None:
                self._apply(withdrawn.empty_plan, reset_epoch=True)
                self._forget_measurement()
        else:
            if plan is not None:
                self._problems = ()
                self._restore_demands(plan)
                self._apply(plan)

    def _restore_demands(self, allocation: NodeAllocation) -> None:
        """Continue from the memory demands that the previous agent reported in the status."""
        if not self._demands_restored:
            self._demands_restored = True
            self.node.reconciler.memory.restore_demands(reported_demands(allocation))

    def _apply(self, allocation: NodeAllocation, *, reset_epoch: bool = False) -> None:
        """Put a plan into force and on disk, unless its epoch is too old."""
        plan = node_plan(allocation)
        if self.mode is not None:
            plan = replace(plan, mode=self.mode)
        if not self.node.reconciler.offer(plan, reset_epoch=reset_epoch):
            self._problems = (
                f"the plan of epoch {plan.epoch} is older than the plan in force; raise its epoch",
            )
            return
        self._save(lambda: self.state.save_plan(allocation))
        self._plan, self._accepted_at, self._enforced = plan, time.monotonic(), False
        request = measurement_request(allocation) if plan.mode == "enforce" else None
        self.node.profiler.offer(request, self._accepted_at)
        self.node.counters.watch(watched_counters(allocation) if plan.mode == "enforce" else ())

    def _save(self, write: Callable[[], None]) -> None:
        """Write to the state folder; go on without where that is impossible, as on a full disk."""
        try:
            write()
        except StateError as error:
            _log.error("%s; an agent that restarts now will not know it", error)

    def _step(self, now: float, *, undisturbed: bool) -> NodeStatus:
        try:
            limits = self.node.profiler.limits(now)
            return self.node.reconciler.step(now, limits, undisturbed=undisturbed)
        except JournalError as error:
            _log.error("%s", error, extra={"event": "journal"})
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - the same plan would end every next agent, too
            problem = f"internal error ({error!r:.200}); report the stack trace in the agent's log"
            if problem != self._crash:
                _log.exception("a pass failed", extra={"event": "crash"})
            self._crash = problem
        plan = self._plan or NodePlan(0, "observe", ())
        return NodeStatus(plan.epoch, plan.mode, refused=problem)

    def _record(self, status: NodeStatus) -> float | None:
        """Return the seconds from accepting the plan until it was enforced.

        None if it is not enforced yet, or was already in an earlier pass.
        """
        if not status.is_enforced:
            return None
        self._enforced_epoch = status.epoch
        first, self._enforced = not self._enforced, True
        return time.monotonic() - self._accepted_at if first else None

    def _measurement(self) -> ProfilingStatus | None:
        """Return the last measurement; its start and its end are saved on disk."""
        report = self.node.profiler.report
        if report is None:
            return self._last_measurement
        status = profiling_status(report)
        before = self._last_measurement
        if before is None or (before.id, before.state) != (status.id, status.state):
            self._save(lambda: self.state.save_measurement(status))
            self._last_measurement = status
        return status

    def _forget_measurement(self) -> None:
        """Forget the last measurement with the plan, as after an uninstall."""
        self.node.profiler.forget()
        self._last_measurement = None
        self._save(self.state.forget_measurement)

    def _pause(self, report: ReconcileReport) -> float:
        """Return the seconds until the next reconcile pass is due."""
        settled = report.node.is_enforced or report.node.mode == "observe"
        pause = self.period if settled else min(RETRY_SECONDS, self.period)
        now = time.monotonic()
        due = self.node.profiler.next_wake(now)
        return pause if due is None else min(pause, due - now)


@contextmanager
def stop_on_signals(agent: Agent) -> Iterator[None]:
    """Let SIGTERM and SIGINT (Ctrl-C) end the agent after its present pass."""
    # The kernel may choose any thread for a signal. Python's handlers run in the main thread only,
    # which would wait on.
    descriptor = signal.set_wakeup_fd(agent.waiter.waker, warn_on_full_buffer=False)
    try:
        with handling(lambda *_: agent.stop(), signal.SIGTERM, signal.SIGINT):
            yield
    finally:
        signal.set_wakeup_fd(descriptor)
