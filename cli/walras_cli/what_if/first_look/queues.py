"""Pure: who may use how many CPUs, as a cluster says it: by ResourceQuotas, or Kueue's queues."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras_api.quotas import QUEUE_LABEL, ClusterQueue, CpuQuota, LocalQueue, read_quota

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class Queues:
    """Quotas of CPUs.

    Attributes:
        quotas: CPUs by namespace, of ResourceQuotas on ``requests.cpu``; the least of several.
        nominal: CPUs by ClusterQueue, its nominal quotas of all flavors.
        local: ClusterQueue by namespace and name of a LocalQueue.
        only: ClusterQueue by namespace, where its LocalQueues lead to a single one.
    """

    quotas: Mapping[str, float]
    nominal: Mapping[str, float]
    local: Mapping[tuple[str, str], str]
    only: Mapping[str, str]

    @classmethod
    def of(cls, documents: Sequence[Mapping[str, Any]]) -> Queues:
        """Find the quotas among documents of any kind."""
        quotas: dict[str, float] = {}
        nominal: dict[str, float] = {}
        local: dict[tuple[str, str], str] = {}
        for document in documents:
            match read_quota(document):
                case CpuQuota(namespace, _, cpus):
                    cores = cpus / _THOUSAND
                    quotas[namespace] = min(cores, quotas.get(namespace, cores))
                case ClusterQueue(name, cpus):
                    nominal[name] = cpus / _THOUSAND
                case LocalQueue(namespace, name, queue):
                    local[namespace, name] = queue
        here: defaultdict[str, set[str]] = defaultdict(set)
        for (place, _), queue in local.items():
            here[place].add(queue)
        only = {place: min(names) for place, names in here.items() if len(names) == 1}
        return cls(quotas, {name: each for name, each in nominal.items() if each}, local, only)

    def queue_of(self, namespace: str, labels: Mapping[str, str]) -> str:
        """Return the ClusterQueue of a pod, or its LocalQueue if that is unknown; empty for none.

        A pod without the label of a queue is of its namespace's only ClusterQueue.
        """
        named = labels.get(QUEUE_LABEL)
        if named:
            return self.local.get((namespace, named), named)
        return self.only.get(namespace, "")
