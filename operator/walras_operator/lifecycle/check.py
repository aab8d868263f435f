"""Facts: whether everything that Walras consists of is there and lives.

Who lives is seen by a Lease that is renewed while one looks: clocks need not agree, and a Lease of
somebody who died just now convinces nobody.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walras_operator.lifecycle.definitions import unestablished
from walras_operator.lifecycle.pages import everything
from walras_operator.lifecycle.patience import patiently
from walras_operator.runtime.kinds import AGENT_LABEL
from walras_service.kinds import LEASES, NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walras_service.api import Api, Document

_PAUSE = 2.0  # seconds between two looks
_NAMED = 10  # nodes of a line


@dataclass(slots=True)
class Pulses:
    """Leases, of which some are seen to be renewed.

    Attributes:
        beating: Their holders, by the Lease's name.
    """

    beating: dict[str, str] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)

    def see(self, lease: Document) -> None:
        """Take a Lease as it is now."""
        name, spec = lease["metadata"]["name"], lease.get("spec") or {}
        renewed, holder = spec.get("renewTime") or "", spec.get("holderIdentity") or ""
        if holder and self._first.setdefault(name, renewed) != renewed:
            self.beating[name] = holder


@dataclass(slots=True)
class Check:
    """Looks until nothing is missing.

    Attributes:
        api: To the API server.
        namespace: Of all Leases.
        lease: Name of the operator's.
        nodes: Selector of the nodes that are to have an agent; empty for all.
        tell: Is given lines about what is in the way of looking.
    """

    api: Api
    namespace: str
    lease: str
    nodes: str
    tell: Callable[[str], None]
    _pulses: Pulses = field(default_factory=Pulses)

    def run(self, until: float) -> list[str]:
        """What is missing, a line each; nothing as soon as nothing is.

        Args:
            until: When to give up, by `time.monotonic`.

        Raises:
            ApiError: That is not known.
        """
        while True:
            missing = patiently(until, self._look, self.tell)
            if not missing or time.monotonic() >= until:
                return missing
            time.sleep(_PAUSE)

    def _look(self) -> list[str]:
        for lease in self._leases():
            self._pulses.see(lease)
        return [*unestablished(self.api), *self._leaderless(), *self._agentless()]

    def _leases(self) -> Iterator[Document]:
        path = LEASES.path(self.namespace)
        yield from everything(self.api, path, {"labelSelector": AGENT_LABEL})
        yield from everything(self.api, path, {"fieldSelector": f"metadata.name={self.lease}"})

    def _leaderless(self) -> Iterator[str]:
        if self.lease not in self._pulses.beating:
            yield (
                f"no operator renews the Lease {self.namespace}/{self.lease}; see the operator's "
                f"log: kubectl logs -n {self.namespace} -l app.kubernetes.io/component=operator"
            )

    def _agentless(self) -> Iterator[str]:
        alive = {node for name, node in self._pulses.beating.items() if name != self.lease}
        wanted = {
            each["metadata"]["name"]
            for each in everything(self.api, NODES.path(), {"labelSelector": self.nodes})
            if not each["spec"].get("unschedulable")
        }
        silent = sorted(wanted - alive)
        if silent:
            more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
            yield (
                f"{len(silent)} of {len(wanted)} nodes have no agent that renews its Lease: "
                f"{', '.join(silent[:_NAMED])}{more}; see kubectl get pods -n {self.namespace} "
                "-o wide -l app.kubernetes.io/component=agent"
            )
