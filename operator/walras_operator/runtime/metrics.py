"""Facts: how the operator does, as Prometheus wants it told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sized

    from prometheus_client.metrics_core import Metric

    from walras_operator.runtime.publisher import Outcome

# When a counter began is of no use here, and costs a line for each.
disable_created_metrics()  # type: ignore[no-untyped-call]

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """What is counted.

    Attributes:
        registry: Has all of it.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._decide = Histogram(
            "walras_operator_decide_seconds",
            "From gathering what is known to a decision.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._recompute = Histogram(
            "walras_operator_recompute_seconds",
            "From gathering what is known until the decision was published.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._crashes = Counter(
            "walras_operator_crashes", "Decisions that failed.", registry=self.registry
        )
        self._writes = Counter(
            "walras_operator_writes",
            "Objects that were to be written, by kind and how that went.",
            ["kind", "result"],
            registry=self.registry,
        )
        self._notes = 0

    def decided(self, seconds: float) -> None:
        """Count a decision."""
        self._decide.observe(seconds)

    def noted(self, notes: Sized) -> None:
        """Keep how much there is to note."""
        self._notes = len(notes)

    def crashed(self) -> None:
        """Count one that failed."""
        self._crashes.inc()

    def published(self, outcome: Outcome, seconds: float) -> None:
        """Count what was written."""
        self._recompute.observe(seconds)
        for labels, number in outcome.results.items():
            self._writes.labels(*labels).inc(number)

    @property
    def notes(self) -> int:
        """How much the last decision left out that has no status to say so."""
        return self._notes


class Present:
    """What is so at the moment of a scrape (``prometheus_client.registry.Collector``).

    Args:
        gauges: By name, what it means, and its value; None while there is none.
        counts: By kind, how many objects there are and how many of them cannot be understood.
    """

    def __init__(
        self,
        gauges: Mapping[str, tuple[str, Callable[[], float | None]]],
        counts: Callable[[], Mapping[str, tuple[int, int]]],
    ) -> None:
        self._gauges, self._counts = gauges, counts

    def collect(self) -> Iterator[Metric]:
        """Look."""
        for name, (meaning, value) in self._gauges.items():
            found = value()
            if found is not None:
                yield GaugeMetricFamily(f"walras_operator_{name}", meaning, value=found)
        objects = GaugeMetricFamily(
            "walras_operator_objects", "Objects that are watched, by kind.", labels=["kind"]
        )
        broken = GaugeMetricFamily(
            "walras_operator_broken_objects",
            "Objects that cannot be understood, by kind.",
            labels=["kind"],
        )
        for kind, (total, wrong) in self._counts().items():
            objects.add_metric([kind], total)
            broken.add_metric([kind], wrong)
        yield from (objects, broken)


def age(since: float | None) -> float | None:
    """Seconds since then, by `time.monotonic`."""
    return None if since is None else time.monotonic() - since
