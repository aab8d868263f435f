"""Pure: the quotas of a cluster as a value, and what follows from them alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from walras_api.quotas import ClusterQueue, Cohort, CpuQuota, LocalQueue, QueuedWorkload
from walras_api.status import WaitingWorkloads
from walras_api.supply import MILLI
from walras_operator.decide.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walras_api.market import QuotaSource
    from walras_api.quotas import Quota
    from walras_operator.decide.conditions import Problem


@dataclass(frozen=True, slots=True)
class Waiting:
    """Workloads that wait to be admitted.

    Attributes:
        workloads: Number of Workloads.
        cpus: Thousandths of CPUs that they request.
    """

    workloads: int = 0
    cpus: int = 0

    def __add__(self, other: Waiting) -> Waiting:
        return Waiting(self.workloads + other.workloads, self.cpus + other.cpus)

    def report(self) -> WaitingWorkloads | None:
        """Return what a status says of them; None if there are none."""
        if not self.workloads:
            return None
        return WaitingWorkloads(workloads=self.workloads, cpus=figure(self.cpus / MILLI))


@dataclass(frozen=True)
class Quotas:
    """The quotas that Entitlements follow, as far as they are known.

    Attributes:
        source: What says them.
        problem: Why they are not all known as they are now; None if they are.
        quotas: All of them, in any order.
        left_out: Number of objects that were left out, since there are too many.
    """

    source: QuotaSource
    problem: Problem | None = None
    quotas: Sequence[Quota] = ()
    left_out: int = 0

    @cached_property
    def cluster_queues(self) -> Mapping[str, ClusterQueue]:
        """ClusterQueues by name."""
        return {each.name: each for each in self.quotas if isinstance(each, ClusterQueue)}

    @cached_property
    def cohorts(self) -> Mapping[str, Cohort]:
        """Cohorts that exist as objects, by name."""
        return {each.name: each for each in self.quotas if isinstance(each, Cohort)}

    @cached_property
    def by_namespace(self) -> Mapping[str, int]:
        """Thousandths of CPUs by namespace, of ResourceQuotas; the least of several."""
        least: dict[str, int] = {}
        for each in self.quotas:
            if isinstance(each, CpuQuota):
                least[each.namespace] = min(each.cpus, least.get(each.namespace, each.cpus))
        return least

    @cached_property
    def namespaces(self) -> Mapping[str, frozenset[str]]:
        """Namespaces with a LocalQueue to it, by ClusterQueue."""
        by_queue: defaultdict[str, set[str]] = defaultdict(set)
        for (namespace, _), queue in self._local.items():
            by_queue[queue].add(namespace)
        return {queue: frozenset(each) for queue, each in by_queue.items()}

    @cached_property
    def set_aside(self) -> Mapping[str, int]:
        """Thousandths of CPUs that are set aside for admitted Workloads, by ClusterQueue."""
        cpus: Counter[str] = Counter()
        for each in self._workloads:
            if each.admitted_by:
                cpus[each.admitted_by] += each.cpus
        return cpus

    @cached_property
    def waiting(self) -> Mapping[str, Waiting]:
        """Workloads that wait, by ClusterQueue."""
        number: Counter[str] = Counter()
        cpus: Counter[str] = Counter()
        for each in self._workloads:
            if each.is_waiting and (queue := self._queue_of(each)) in self.cluster_queues:
                number[queue] += 1
                cpus[queue] += each.cpus
        return {queue: Waiting(number[queue], cpus[queue]) for queue in number}

    @cached_property
    def queue_of_owner(self) -> Mapping[tuple[str, str], str]:
        """ClusterQueue by namespace and UID of the object that a Workload stands for."""
        return {
            (each.namespace, uid): queue
            for each in self._workloads
            if (queue := self._queue_of(each)) in self.cluster_queues
            for uid in each.owners
        }

    @cached_property
    def _workloads(self) -> Sequence[QueuedWorkload]:
        return [each for each in self.quotas if isinstance(each, QueuedWorkload)]

    @cached_property
    def _local(self) -> Mapping[tuple[str, str], str]:
        return {
            (each.namespace, each.name): each.cluster_queue
            for each in self.quotas
            if isinstance(each, LocalQueue)
        }

    def _queue_of(self, workload: QueuedWorkload) -> str:
        here = workload.namespace, workload.local_queue
        return workload.admitted_by or self._local.get(here, "")
