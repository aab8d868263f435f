"""Facts: how the agent does, as Prometheus wants it told.

Names follow https://prometheus.io/docs/practices/naming/. What is about single pods is made anew
of the last report at every scrape, so that nothing is left of a pod that is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from walras_agent.daemon.stall import node_stalls, pod_stalls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from walras_agent.daemon.report import Report
    from walras_agent.observe import PodSource
    from walras_agent.tree import Cgroups

# When a counter began is of no use here, and costs a line for each.
disable_created_metrics()  # type: ignore[no-untyped-call]

_POD = ("namespace", "pod")
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Metrics:
    """What is counted.

    Args:
        cgroups: Of this node.
        pods: Its pods.

    Attributes:
        registry: Has all of it.
    """

    def __init__(self, cgroups: Cgroups, pods: PodSource) -> None:
        self.registry = CollectorRegistry()
        self._cgroups, self._pods = cgroups, pods
        self._last: Report | None = None
        self._writes = Counter(
            "walras_agent_writes", "Writes to cgroup files.", ["controller"], registry=self.registry
        )
        self._failures = Counter(
            "walras_agent_failures",
            "Groups that were not as they should be after a look, by class of error.",
            ["kind"],
            registry=self.registry,
        )
        self._repairs = Counter(
            "walras_agent_drift_repairs",
            "Containers whose CPUs others had changed.",
            registry=self.registry,
        )
        self._delay = Histogram(
            "walras_agent_plan_enforced_seconds",
            "From taking a plan until all of it held.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._look = Histogram(
            "walras_agent_look_seconds",
            "What a look at the node took, writes included.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._refused = Gauge(
            "walras_agent_refused", "1 where nothing may be written.", registry=self.registry
        )
        self._epoch = Gauge(
            "walras_agent_epoch", "Epoch of the plan in force.", registry=self.registry
        )
        self._when = Gauge(
            "walras_agent_last_look_timestamp_seconds",
            "When the node was last looked at.",
            registry=self.registry,
        )
        self.registry.register(self)

    def tell(self, report: Report) -> None:
        """Count what a look found and did."""
        node = report.node
        if node.mode == "enforce":
            for setting, _ in node.writes:
                self._writes.labels(setting.controller).inc()
        for failure in node.failures:
            self._failures.labels(failure.kind).inc()
        self._repairs.inc(len(node.repaired))
        self._look.observe(report.seconds)
        if report.delay is not None:
            self._delay.observe(report.delay)
        self._refused.set(bool(node.refused))
        if node.epoch is not None:
            self._epoch.set(node.epoch)
        self._when.set_to_current_time()
        self._last = report

    def collect(self) -> Iterator[Metric]:
        """What is so at present (``prometheus_client.registry.Collector``)."""
        if self._last is not None:
            yield from _pods(self._last)
        yield from self._stalls()

    def _stalls(self) -> Iterator[Metric]:
        node = CounterMetricFamily(
            "walras_agent_node_stall_seconds",
            "Time in which a task of this node waited for the resource.",
            labels=["resource"],
        )
        for stall in node_stalls():
            node.add_metric([stall.resource], stall.seconds)
        yield node
        pods = CounterMetricFamily(
            "walras_agent_pod_stall_seconds",
            "Time in which a task of a granted pod waited for the resource (cgroup v2).",
            labels=[*_POD, "resource"],
        )
        granted = {each.pod: each.title for each in self._last.node.pods} if self._last else {}
        for stall in pod_stalls(self._cgroups, self._pods):
            if stall.pod in granted:
                pods.add_metric([*_labels(granted[stall.pod]), stall.resource], stall.seconds)
        yield pods


def _pods(report: Report) -> Iterator[Metric]:
    node = report.node
    cpus = GaugeMetricFamily("walras_agent_pod_cpus", "CPUs that a pod may use.", labels=_POD)
    own = GaugeMetricFamily("walras_agent_pod_own_cpus", "CPUs of its own.", labels=_POD)
    memory = GaugeMetricFamily(
        "walras_agent_pod_memory_bytes", "Memory that a pod is held to.", labels=_POD
    )
    for pod in node.pods:
        labels = _labels(pod.title)
        if pod.cpus is not None:
            cpus.add_metric(labels, len(pod.cpus))
            own.add_metric(labels, len(pod.own))
        if pod.memory is not None:
            memory.add_metric(labels, pod.memory)
    states = GaugeMetricFamily(
        "walras_agent_pods", "Grants by how they are held.", labels=["state"]
    )
    for state in ("Enforced", "Pending", "Failed", "Absent"):
        states.add_metric([state], sum(pod.state == state for pod in node.pods))
    shared = GaugeMetricFamily(
        "walras_agent_shared_cpus",
        "CPUs of the pods without whole cores.",
        value=len(node.shared),
    )
    yield from (cpus, own, memory, states, shared)


def _labels(title: str) -> list[str]:
    namespace, _, name = title.partition("/")
    return [namespace, name]
