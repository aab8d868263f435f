"""Facts: whether the API server answers, for metrics and the log."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from walras_service.api_errors import ApiError, Reason

_log = logging.getLogger(__name__)

Task = Literal["plan", "status", "lease"]
"""Purpose of a request: to follow the plan, to write the status, or to renew the Lease."""

_CONSEQUENCE: dict[Task, str] = {
    "plan": "cannot follow the NodeAllocation, the last plan stays in force",
    "status": "cannot write the status of the NodeAllocation",
    "lease": "cannot renew the Lease, the operator may consider this agent lost",
}


@dataclass(slots=True, eq=False)
class ApiMonitor:
    """Records which requests to the API server succeed; safe for all threads."""

    _failing: dict[Task, tuple[Reason, float]] = field(default_factory=dict)  # and since when
    _last_response: float = 0.0
    _followed: bool = False
    _failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    _restarts: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def succeeded(self, task: Task) -> None:
        """Record a request that succeeded, and log the end of failures."""
        with self._lock:
            self._last_response = time.time()
            self._followed |= task == "plan"
            before = self._failing.pop(task, None)
        if before is not None:
            _log.info(
                "API requests succeed again after %.0f s: %s",
                time.monotonic() - before[1],
                task,
                extra={"event": "api-back", "task": task},
            )

    def failed(self, task: Task, error: ApiError) -> None:
        """Record a request that failed; a line is logged for each new reason, not each attempt."""
        with self._lock:
            last_response = self._last_response
            if error.reason != "unreachable":
                self._last_response = time.time()
            self._failures[task, error.reason] += 1
            reason, since = self._failing.get(task, (None, time.monotonic()))
            self._failing[task] = (error.reason, since)
        if reason != error.reason:
            when = f"{time.time() - last_response:.0f} s ago" if last_response else "never"
            _log.warning(
                "%s: %s (last response of the API server: %s)",
                _CONSEQUENCE[task],
                error,
                when,
                extra={"event": "api-lost", "task": task, "reason": error.reason},
            )

    def watch_restarted(self) -> None:
        """Record that the watch on the NodeAllocation has begun anew."""
        with self._lock:
            self._restarts += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the present state (``prometheus_client.registry.Collector``)."""
        with self._lock:
            up = self._followed and "plan" not in self._failing
            last_response = self._last_response
            failures, restarts = self._failures.copy(), self._restarts
        yield GaugeMetricFamily(
            "walras_agent_api_up",
            "1 while the agent follows the NodeAllocation of its node, otherwise 0.",
            value=up,
        )
        yield GaugeMetricFamily(
            "walras_agent_api_last_contact_timestamp_seconds",
            "Unix time of the last response of the API server; 0 before the first one.",
            value=last_response,
        )
        yield CounterMetricFamily(
            "walras_agent_watch_restarts",
            "Restarts of the watch on the NodeAllocation; one every few minutes is normal.",
            value=restarts,
        )
        failed = CounterMetricFamily(
            "walras_agent_api_failures",
            "Failed requests to the API server, by task (plan, status or lease) and reason.",
            labels=["task", "reason"],
        )
        for labels, count in sorted(failures.items()):
            failed.add_metric(labels, count)
        yield failed
