"""Facts: check that all parts of Walras exist and are alive.

A part is alive if its Lease is renewed during the check. Clocks need not agree, and the Lease of a
part that has just died does not count.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_api.contract import AGENT_LEASES, MODE_LABEL
from walras_operator.decide.conditions import conditions_of
from walras_operator.lifecycle.definitions import unestablished
from walras_operator.lifecycle.requests import list_all, retry_transient
from walras_service.kinds import LEASES, NODES, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from walras_service.api import Api, Document

_PAUSE = 2.0  # seconds between two attempts
_NAMED = 10  # most nodes that a line names


@dataclass(slots=True)
class RenewalObserver:
    """Observes which Leases are renewed.

    Attributes:
        renewing: Holders of Leases that were renewed, by name of the Lease.
    """

    renewing: dict[str, str] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)

    def see(self, lease: Document) -> None:
        """Record the current state of a Lease."""
        name, spec = lease["metadata"]["name"], lease.get("spec") or {}
        renewed, holder = spec.get("renewTime") or "", spec.get("holderIdentity") or ""
        if holder and self._first.setdefault(name, renewed) != renewed:
            self.renewing[name] = holder


@dataclass(slots=True)
class Check:
    """Checks until nothing is missing.

    Attributes:
        api: Connection to the API server.
        namespace: Namespace of all Leases.
        lease: Name of the operator's Lease.
        nodes: Label selector of the nodes that must have an agent; empty for all.
        echo: Prints a line about each transient error.
    """

    api: Api
    namespace: str
    lease: str
    nodes: str
    echo: Callable[[str], None]
    _renewals: RenewalObserver = field(default_factory=RenewalObserver)

    def run(self, until: float) -> list[str]:
        """Return a line about each thing that is missing; empty as soon as nothing is.

        Args:
            until: When to give up, by `time.monotonic`.

        Raises:
            ApiError: The API server is unreachable or refuses the request.
        """
        while True:
            missing = retry_transient(until, self._look, self.echo)
            if not missing or time.monotonic() >= until:
                return missing
            time.sleep(_PAUSE)

    def _look(self) -> list[str]:
        for lease in self._leases():
            self._renewals.see(lease)
        nodes = {
            each["metadata"]["name"]
            for each in list_all(self.api, NODES.path(), {"labelSelector": self.nodes})
            if _needs_agent(each)
        }
        missing = unestablished(self.api)
        allocations = [] if missing else list_all(self.api, OURS["NodeAllocation"].path())
        agents = (*self._agentless(nodes), *refusals(allocations, nodes))
        return [*missing, *self._leaderless(), *agents]

    def _leases(self) -> Iterator[Document]:
        path = LEASES.path(self.namespace)
        yield from list_all(self.api, path, {"labelSelector": AGENT_LEASES})
        yield from list_all(self.api, path, {"fieldSelector": f"metadata.name={self.lease}"})

    def _leaderless(self) -> Iterator[str]:
        if self.lease not in self._renewals.renewing:
            yield (
                f"no operator renews the Lease {self.namespace}/{self.lease}; see the operator's "
                f"log: kubectl logs -n {self.namespace} -l app.kubernetes.io/component=operator"
            )

    def _agentless(self, nodes: Collection[str]) -> Iterator[str]:
        alive = {node for name, node in self._renewals.renewing.items() if name != self.lease}
        silent = sorted(set(nodes) - alive)
        if silent:
            more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
            yield (
                f"{len(silent)} of {len(nodes)} nodes have no agent that renews its Lease: "
                f"{', '.join(silent[:_NAMED])}{more}; see kubectl get pods -n {self.namespace} "
                "-o wide -l app.kubernetes.io/component=agent"
            )


def _needs_agent(node: Document) -> bool:
    off = (node["metadata"].get("labels") or {}).get(MODE_LABEL) == "off"
    return not (off or node["spec"].get("unschedulable"))


def refusals(allocations: Iterable[Document], nodes: Collection[str]) -> Iterator[str]:
    """Yield a line about each cause for which agents refuse to write on some of these nodes."""
    causes: defaultdict[str, list[str]] = defaultdict(list)
    for each in allocations:
        ready = conditions_of(each.get("status") or {}).get("Ready", {})
        if each["metadata"]["name"] in nodes and ready.get("reason") == "Refused":
            causes[str(ready.get("message"))].append(each["metadata"]["name"])
    for cause, refusing in sorted(causes.items()):
        more = f" and {len(refusing) - _NAMED} more" if len(refusing) > _NAMED else ""
        yield (
            f"agents of {len(refusing)} of {len(nodes)} nodes enforce nothing: "
            f"{', '.join(sorted(refusing)[:_NAMED])}{more}: {cause}"
        )
