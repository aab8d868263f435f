"""Facts: whether the API server is heard, told when that changes and at every scrape."""

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

_MEANING: dict[Task, str] = {
    "plan": "the NodeAllocation is not followed, and the last plan stays in force",
    "status": "the status is not told",
    "lease": "the lease is not renewed, and the operator may take this agent for lost",
}


@dataclass(slots=True, eq=False)
class Contact:
    """How it goes with the API server; for all threads."""

    _wrong: dict[Task, tuple[Reason, float]] = field(default_factory=dict)  # and since when
    _heard: float = 0.0
    _followed: bool = False
    _failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    _restarts: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def worked(self, task: Task) -> None:
        """Note that the server has answered as it should."""
        with self._lock:
            self._heard = time.time()
            self._followed |= task == "plan"
            before = self._wrong.pop(task, None)
        if before is not None:
            _log.info(
                "it works again after %.0f s: %s",
                time.monotonic() - before[1],
                task,
                extra={"event": "api-back", "task": task},
            )

    def failed(self, task: Task, error: ApiError) -> None:
        """Note that it has not; the log has a line for each reason, not for each attempt."""
        with self._lock:
            heard = self._heard
            if error.reason != "unreachable":
                self._heard = time.time()
            self._failures[task, error.reason] += 1
            reason, since = self._wrong.get(task, (None, time.monotonic()))
            self._wrong[task] = (error.reason, since)
        if reason != error.reason:
            when = f"{time.time() - heard:.0f} s ago" if heard else "never yet"
            _log.warning(
                "%s: %s (the API server was last heard %s)",
                _MEANING[task],
                error,
                when,
                extra={"event": "api-lost", "task": task, "reason": error.reason},
            )

    def restarted(self) -> None:
        """Note that the watch has begun anew."""
        with self._lock:
            self._restarts += 1

    def collect(self) -> Iterator[Metric]:
        """What is so at present (``prometheus_client.registry.Collector``)."""
        with self._lock:
            up, heard = self._followed and "plan" not in self._wrong, self._heard
            failures, restarts = self._failures.copy(), self._restarts
        yield GaugeMetricFamily(
            "walras_agent_api_up", "1 while the NodeAllocation of this node is followed.", value=up
        )
        yield GaugeMetricFamily(
            "walras_agent_api_last_contact_timestamp_seconds",
            "When the API server last answered; 0 before the first time.",
            value=heard,
        )
        yield CounterMetricFamily(
            "walras_agent_watch_restarts",
            "How often the watch has begun anew; a few times in ten minutes is as it should be.",
            value=restarts,
        )
        failed = CounterMetricFamily(
            "walras_agent_api_failures",
            "Requests to the API server that failed, by what they were for and why.",
            labels=["task", "reason"],
        )
        for labels, count in sorted(failures.items()):
            failed.add_metric(labels, count)
        yield failed
