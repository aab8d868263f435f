"""Facts: the agent's Prometheus metrics.

Names follow https://prometheus.io/docs/practices/naming/. Metrics of single pods are made anew
from the last report at every scrape, so that no series of a deleted pod remains.

Stall times are pressure stall information (``Documentation/accounting/psi.rst``): of the node from
``/proc/pressure``, of a pod from the files of its cgroup (cgroup v2 only). ``some`` counts the time
during which at least one task waited.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from walras_agent.tree import CgroupError, CgroupFile, read_cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from walras_agent.daemon.report import ReconcileReport
    from walras_agent.observe import PodSource
    from walras_agent.tree import Cgroups

# The time at which a counter was created is of no use here, and would add a line for each.
disable_created_metrics()  # type: ignore[no-untyped-call]

_POD_LABELS = ("namespace", "pod")
_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_STALLED = re.compile(r"^some .*\btotal=(\d+)$", re.MULTILINE)
_RESOURCES: tuple[Literal["cpu", "memory"], ...] = ("cpu", "memory")


class AgentMetrics:
    """A listener that counts what reconcile passes find and do.

    Args:
        cgroups: Cgroups of this node.
        pods: Finds the pods among them.

    Attributes:
        registry: Prometheus registry with all of the agent's metrics.
    """

    def __init__(self, cgroups: Cgroups, pods: PodSource) -> None:
        self.registry = CollectorRegistry()
        self._cgroups, self._pods = cgroups, pods
        self._last: ReconcileReport | None = None
        self._writes = Counter(
            "walras_agent_writes",
            "Writes to cgroup files, by controller.",
            ["controller"],
            registry=self.registry,
        )
        self._failures = Counter(
            "walras_agent_failures",
            "Cgroups that were not in the desired state after a reconcile pass, by kind of error.",
            ["kind"],
            registry=self.registry,
        )
        self._repairs = Counter(
            "walras_agent_drift_repairs",
            "Containers and pods whose CPU settings another process had changed.",
            registry=self.registry,
        )
        self._delay = Histogram(
            "walras_agent_plan_enforced_seconds",
            "Time from accepting a plan until all of it was enforced.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._duration = Histogram(
            "walras_agent_reconcile_seconds",
            "Duration of a reconcile pass over the node, including writes.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._refused = Gauge(
            "walras_agent_refused",
            "1 if the agent must not write on this node, otherwise 0.",
            registry=self.registry,
        )
        self._epoch = Gauge(
            "walras_agent_epoch", "Epoch of the plan in force.", registry=self.registry
        )
        self._when = Gauge(
            "walras_agent_last_reconcile_timestamp_seconds",
            "Unix time of the last reconcile pass.",
            registry=self.registry,
        )
        self.registry.register(self)

    def notify(self, report: ReconcileReport) -> None:
        """Count what a reconcile pass found and did."""
        node = report.node
        if node.mode == "enforce":
            for setting, _ in node.writes:
                self._writes.labels(setting.controller).inc()
        for failure in node.failures:
            self._failures.labels(failure.kind).inc()
        self._repairs.inc(len(node.repaired))
        self._duration.observe(report.seconds)
        if report.delay is not None:
            self._delay.observe(report.delay)
        self._refused.set(bool(node.refused))
        if node.epoch is not None:
            self._epoch.set(node.epoch)
        self._when.set_to_current_time()
        self._last = report

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the present state (``prometheus_client.registry.Collector``)."""
        if self._last is not None:
            yield from _pod_metrics(self._last)
        yield self._cpu_time()
        yield from self._stalls()

    def _cpu_time(self) -> Metric:
        used = CounterMetricFamily(
            "walras_agent_pod_cpu_seconds",
            "CPU time that a pod with a grant has used, in seconds.",
            labels=_POD_LABELS,
        )
        granted = {each.pod: each.title for each in self._last.node.pods} if self._last else {}
        for pod in self._pods.scan(self._cgroups):
            if pod.uid in granted:
                with suppress(CgroupError):  # it ends meanwhile
                    seconds = read_cpu_seconds(self._cgroups, pod.group)
                    used.add_metric(_labels(granted[pod.uid]), seconds)
        return used

    def _stalls(self) -> Iterator[Metric]:
        node = CounterMetricFamily(
            "walras_agent_node_stall_seconds",
            "Time during which at least one task on the node waited for the resource (PSI).",
            labels=["resource"],
        )
        for resource, seconds in _node_stalls():
            node.add_metric([resource], seconds)
        yield node
        pods = CounterMetricFamily(
            "walras_agent_pod_stall_seconds",
            "Time during which at least one task of a pod with a grant waited for the resource "
            "(PSI, cgroup v2 only).",
            labels=[*_POD_LABELS, "resource"],
        )
        granted = {each.pod: each.title for each in self._last.node.pods} if self._last else {}
        for stall in _pod_stalls(self._cgroups, self._pods):
            if stall.pod in granted:
                pods.add_metric([*_labels(granted[stall.pod]), stall.resource], stall.seconds)
        yield pods


def _pod_metrics(report: ReconcileReport) -> Iterator[Metric]:
    node = report.node
    cpus = GaugeMetricFamily(
        "walras_agent_pod_cpus", "CPUs that the pod may use.", labels=_POD_LABELS
    )
    own = GaugeMetricFamily(
        "walras_agent_pod_own_cpus", "CPUs that only this pod may use.", labels=_POD_LABELS
    )
    granted = GaugeMetricFamily(
        "walras_agent_pod_granted_cores",
        "Cores that the grant of the pod gives.",
        labels=_POD_LABELS,
    )
    memory = GaugeMetricFamily(
        "walras_agent_pod_memory_bytes",
        "Memory limit that the agent enforces on the pod, in bytes.",
        labels=_POD_LABELS,
    )
    for pod in node.pods:
        labels = _labels(pod.title)
        granted.add_metric(labels, pod.millicores / 1000)
        if pod.cpus is not None:
            cpus.add_metric(labels, len(pod.cpus))
            own.add_metric(labels, len(pod.exclusive))
        if pod.memory is not None:
            memory.add_metric(labels, pod.memory)
    states = GaugeMetricFamily(
        "walras_agent_pods", "Grants, by state of enforcement.", labels=["state"]
    )
    for state in ("Enforced", "Pending", "Failed", "Absent"):
        states.add_metric([state], sum(pod.state == state for pod in node.pods))
    shared = GaugeMetricFamily(
        "walras_agent_shared_cpus",
        "CPUs shared by all pods that have no CPUs of their own.",
        value=len(node.shared),
    )
    yield from (cpus, own, granted, memory, states, shared)


def _labels(title: str) -> list[str]:
    namespace, _, name = title.partition("/")
    return [namespace, name]


class _PodStall(NamedTuple):
    """Time that a pod waited for a resource.

    Attributes:
        pod: UID of the pod.
        resource: ``cpu`` or ``memory``.
        seconds: Waiting time since the pod started.
    """

    pod: str
    resource: str
    seconds: float


def _node_stalls() -> Iterator[tuple[str, float]]:
    """Yield resource and seconds since boot; nothing if the kernel does not measure pressure."""
    for resource in _RESOURCES:
        try:
            text = (Path("/proc/pressure") / resource).read_text(encoding="ascii")
        except OSError:
            continue
        if stalled := _STALLED.search(text):
            yield resource, int(stalled[1]) / 1e6


def _pod_stalls(cgroups: Cgroups, pods: PodSource) -> Iterator[_PodStall]:
    """Yield the stalls of every pod on the node; a pod that ends meanwhile is left out."""
    if cgroups.version == 1:
        return
    for pod in pods.scan(cgroups):
        for resource in _RESOURCES:
            try:
                text = cgroups.read(CgroupFile(resource, pod.group, f"{resource}.pressure"))
            except CgroupError:
                continue
            if stalled := _STALLED.search(text):
                yield _PodStall(pod.uid, resource, int(stalled[1]) / 1e6)
