"""Pure: who may use how many CPUs, as a cluster says it: by ResourceQuotas, or Kueue's queues."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walras_api.api_object import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_KUEUE = "kueue.x-k8s.io"
_QUEUE_LABEL = f"{_KUEUE}/queue-name"


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
            metadata, spec = document.get("metadata"), document.get("spec")
            if not isinstance(metadata, dict) or not isinstance(spec, dict):
                continue
            namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name"))
            group = str(document.get("apiVersion")).partition("/")[0]
            kind = document.get("kind")
            if (group, kind) == ("v1", "ResourceQuota"):
                hard = spec.get("hard") or {}
                cpus = _cpus(hard.get("requests.cpu", hard.get("cpu")))
                if cpus and not spec.get("scopes") and not spec.get("scopeSelector"):
                    quotas[namespace] = min(cpus, quotas.get(namespace, cpus))
            elif (group, kind) == (_KUEUE, "ClusterQueue"):
                nominal[name] = sum(_nominal(spec))
            elif (group, kind) == (_KUEUE, "LocalQueue"):
                local[namespace, name] = str(spec.get("clusterQueue"))
        here: defaultdict[str, set[str]] = defaultdict(set)
        for (place, _), queue in local.items():
            here[place].add(queue)
        only = {place: min(found) for place, found in here.items() if len(found) == 1}
        return cls(quotas, {name: each for name, each in nominal.items() if each}, local, only)

    def queue_of(self, namespace: str, labels: Mapping[str, str]) -> str:
        """Return the ClusterQueue of a pod, or its LocalQueue if that is unknown; empty for none.

        A pod without the label of a queue is of its namespace's only ClusterQueue.
        """
        named = labels.get(_QUEUE_LABEL)
        if named:
            return self.local.get((namespace, named), named)
        return self.only.get(namespace, "")


def _nominal(spec: Mapping[str, Any]) -> Iterator[float]:
    """Yield the nominal quotas of CPUs in the spec of a ClusterQueue."""
    for group in _dicts(spec.get("resourceGroups")):
        for flavor in _dicts(group.get("flavors")):
            for resource in _dicts(flavor.get("resources")):
                if resource.get("name") == "cpu":
                    yield _cpus(resource.get("nominalQuota"))


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _cpus(amount: Any) -> float:
    """Return a quantity of CPUs; 0 if it is none."""
    try:
        return 0.0 if amount is None else float(quantity(amount))
    except ValueError:
        return 0.0
