"""Facts: the operator's own metrics, for Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sized

    from prometheus_client.metrics_core import Metric

    from walras_operator.publish.publisher import PublishResult

# The time at which a counter was created is of no use here, and costs a line for each.
disable_created_metrics()  # type: ignore[no-untyped-call]

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """Counters and histograms of decisions and writes.

    Attributes:
        registry: Registry that contains all metrics of the process.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._decide = Histogram(
            "walras_operator_decide_seconds",
            "Time to make a decision.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._recompute = Histogram(
            "walras_operator_recompute_seconds",
            "Time to make a decision and publish it.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._crashes = Counter(
            "walras_operator_crashes",
            "Decisions that failed with an internal error.",
            registry=self.registry,
        )
        self._writes = Counter(
            "walras_operator_writes",
            "Objects written, or not, by kind and result.",
            ["kind", "result"],
            registry=self.registry,
        )
        self._history_bytes = Counter(
            "walras_operator_history_written_bytes",
            "Bytes of the market's history that were written.",
            registry=self.registry,
        )
        self._history_failures = Counter(
            "walras_operator_history_failures",
            "Times that the market's history could not be sampled or written.",
            registry=self.registry,
        )
        self._notes = 0

    def decided(self, seconds: float) -> None:
        """Observe how long a decision took."""
        self._decide.observe(seconds)

    def noted(self, notes: Sized) -> None:
        """Remember the number of problems that no status shows."""
        self._notes = len(notes)

    def crashed(self) -> None:
        """Count a decision that failed."""
        self._crashes.inc()

    def published(self, outcome: PublishResult, seconds: float) -> None:
        """Observe the writes of a decision, and how long all of it took."""
        self._recompute.observe(seconds)
        for labels, number in outcome.results.items():
            self._writes.labels(*labels).inc(number)

    def history_written(self, size: int) -> None:
        """Count bytes of the history that were written."""
        self._history_bytes.inc(size)

    def history_failed(self) -> None:
        """Count a sample of the history that failed, or a write."""
        self._history_failures.inc()

    @property
    def notes(self) -> int:
        """Problems found by the last decision that no status shows."""
        return self._notes


class OperatorGauges:
    """Gauges that are computed at each scrape (``prometheus_client.registry.Collector``).

    Args:
        gauges: HELP text and value of each gauge, by name; a value of None is left out.
        counts: Number of objects, and of invalid objects, by kind.
        silences: Seconds for which nothing was heard of a kind, by kind.
    """

    def __init__(
        self,
        gauges: Mapping[str, tuple[str, Callable[[], float | None]]],
        counts: Callable[[], Mapping[str, tuple[int, int]]],
        silences: Callable[[], Mapping[str, float]],
    ) -> None:
        self._gauges, self._counts, self._silences = gauges, counts, silences

    def collect(self) -> Iterator[Metric]:
        """Yield all gauges."""
        for name, (meaning, value) in self._gauges.items():
            current = value()
            if current is not None:
                yield GaugeMetricFamily(f"walras_operator_{name}", meaning, value=current)
        objects = GaugeMetricFamily(
            "walras_operator_objects",
            "Objects that the operator watches, by kind.",
            labels=["kind"],
        )
        broken = GaugeMetricFamily(
            "walras_operator_broken_objects",
            "Invalid objects, by kind.",
            labels=["kind"],
        )
        for kind, (total, wrong) in self._counts().items():
            objects.add_metric([kind], total)
            broken.add_metric([kind], wrong)
        silent = GaugeMetricFamily(
            "walras_operator_watch_age_seconds",
            "Seconds since the API server last confirmed that no change of a kind is missed.",
            labels=["kind"],
        )
        for kind, seconds in self._silences().items():
            silent.add_metric([kind], seconds)
        yield from (objects, broken, silent)


def age(since: float | None) -> float | None:
    """Return the seconds since a moment of `time.monotonic`; None for None."""
    return None if since is None else time.monotonic() - since
