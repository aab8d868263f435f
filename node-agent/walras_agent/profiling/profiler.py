"""Facts: makes one measurement at a time, and none longer than its lease.

All effects of a measurement are in `Profiler.limits`, which the reconcile loop asks for in every
pass: when the measurement has ended, in whatever way, there are none, and the next pass gives the
pod all of its cores back. An agent that was killed knows of no measurement and limits no pod.

The loop: `offer` the present request, reconcile with `limits`, `update` with the resulting status,
and come back at `next_wake` at the latest.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from walras_agent.profiling.measurement import PodMeasurement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walras_agent.profiling.instruments import Meter
    from walras_agent.profiling.request import MeasurementReport, MeasurementRequest
    from walras_agent.status import NodeStatus

_log = logging.getLogger(__name__)

_MAX_REMEMBERED = 256  # IDs of measurements that are not repeated


class Profiler:
    """Measures one pod at a time.

    All times are seconds, monotonic, of the same clock as those of the readings.

    Args:
        open_meter: Opens the counters of a pod; `Instruments.open` on a real node.
    """

    def __init__(self, open_meter: Callable[[MeasurementRequest], Meter]) -> None:
        self._open_meter = open_meter
        self._done = deque[str](maxlen=_MAX_REMEMBERED)
        self._last: PodMeasurement | None = None
        self._limits_lifted = True

    @property
    def report(self) -> MeasurementReport | None:
        """Report of the present or the last measurement; None before the first."""
        return self._last.report if self._last else None

    def skip(self, request: str) -> None:
        """Never make the measurement with this ID, which ended before this process started."""
        self._done.append(request)

    def offer(self, request: MeasurementRequest | None, now: float) -> None:
        """Take the present request: a measurement, its renewal, or None.

        A running measurement is cancelled if it is no longer requested, or another one is. A
        measurement that has ended is not repeated.
        """
        running = self._running(now)
        if running and request and request.id == running.request.id:
            running.renew(request, now)
            return
        if running:
            running.end("Cancelled", "the request was withdrawn")
        if request and request.id not in self._done:
            self._done.append(request.id)
            self._last = PodMeasurement(request, self._open_meter, now + request.lease_seconds, now)
            _log.info("measurement %s of pod %s begins", request.id, request.pod)

    def forget(self) -> None:
        """Forget the report of the last measurement, unless it is still running."""
        if self._last is not None and not self._last.running:
            self._last = None

    def limits(self, now: float) -> Mapping[str, int]:
        """Return how many of its own cores a pod may use in the next pass, by UID."""
        running = self._running(now)
        limits = running.limits if running else {}
        self._limits_lifted = not limits
        return limits

    def update(self, status: NodeStatus, now: float) -> None:
        """Take the status of the node after a pass with `limits`."""
        if running := self._running(now):
            running.update(status, now)

    def next_wake(self, now: float) -> float | None:
        """Return the time of the next pass; None if only a new request makes one due."""
        if running := self._running(now):
            return min(running.due, running.expires)
        return None if self._limits_lifted else now

    def _running(self, now: float) -> PodMeasurement | None:
        """Return the running measurement, after ending one whose lease has expired."""
        last = self._last
        if last is None or not last.running:
            return None
        if now >= last.expires:
            last.end("Expired", "the lease expired: renew it until all samples are taken")
            return None
        return last
