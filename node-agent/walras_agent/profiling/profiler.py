"""Chooses: which measurement is made, one at a time, and none longer than its lease.

Everything that a measurement changes is in `Profiler.limits`, which the reconcile loop asks for at
every step: when it is over, whichever way, there are none, and the next step gives the pod all of
its cores back. An agent that was killed knows of no measurement and limits nobody.

The loop: `offer` what is asked for, step with `limits`, `note` the step's status, and come back at
`next_wake` at the latest.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from walras_agent.profiling.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.profiling.instruments import Meter
    from walras_agent.profiling.request import Report, Request
    from walras_agent.status import NodeStatus

_log = logging.getLogger(__name__)

_REMEMBERED = 256


class Profiler:
    """Measures one pod at a time.

    All times are seconds, monotonic, of the same clock as the readings'.

    Args:
        open_meter: See `Measurement`; `Instruments.open` on a real node.
    """

    def __init__(self, open_meter: Callable[[Request], Meter]) -> None:
        self._open_meter = open_meter
        self._done = deque[str](maxlen=_REMEMBERED)
        self._last: Measurement | None = None
        self._given_back = True

    @property
    def report(self) -> Report | None:
        """How the measurement goes, or how the last one went; None before the first."""
        return self._last.report if self._last else None

    def pass_over(self, request: str) -> None:
        """Do not make the measurement with this ID: it has ended before this process began."""
        self._done.append(request)

    def offer(self, request: Request | None, now: float) -> None:
        """Take what is asked for: a measurement, its renewal, or none.

        A running measurement that is not asked for any more, also because another one is, is
        cancelled. One that has ended, however, is not made again.
        """
        running = self._running(now)
        if running and request and request.id == running.request.id:
            running.renew(request, now)
            return
        if running:
            running.end("Cancelled", "the request was withdrawn")
        if request and request.id not in self._done:
            self._done.append(request.id)
            self._last = Measurement(request, self._open_meter, now + request.lease_seconds, now)
            _log.info("measurement %s of pod %s begins", request.id, request.pod)

    def limits(self, now: float) -> Mapping[str, int]:
        """By pod UID, how many of its own cores a pod is to use in the step that comes."""
        running = self._running(now)
        limits = running.limits if running else {}
        self._given_back = not limits
        return limits

    def note(self, status: NodeStatus, now: float) -> None:
        """Learn how the node is after a step that was given `limits`."""
        if running := self._running(now):
            running.note(status, now)

    def next_wake(self, now: float) -> float | None:
        """When the next step is due; None when only a new request makes one due."""
        if running := self._running(now):
            return min(running.wake, running.lease)
        return None if self._given_back else now

    def _running(self, now: float) -> Measurement | None:
        """The measurement that goes on, after a look at its lease."""
        last = self._last
        if last is None or not last.running:
            return None
        if now >= last.lease:
            last.end("Expired", "the lease ran out: renew it until all samples are taken")
            return None
        return last
