"""Agents of nodes that do not exist, which answer to NodeAllocations and renew their Leases.

Other tests test what an agent does on its node; these test how others react to its answers.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from walras_service.api import MERGE
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES, OURS

if TYPE_CHECKING:
    from operator_cluster import OperatorCluster

Manner = Literal["obeys", "remembers", "tries", "refuses", "dead"]
"""Manners of an agent, in this order: it reports its plans as enforced; it reports a later epoch
that it has had before; it reports a plan as pending; it refuses a plan; or it has left a Lease but
does not run."""

Document = dict[str, Any]
DURATION = 3
PAUSE = 0.2
REMEMBERED = 9_000_000_000_000
"""Epoch of a plan that an agent has had before, so that it accepts no plan of an earlier epoch."""


class PlayedAgent:
    """A node's agent that is only played: it writes a Lease and statuses.

    Args:
        cluster: Cluster in whose namespace the agent's Lease is.
        node: Name of the agent's node.
        manner: Manner in which the agent behaves.
    """

    def __init__(self, cluster: OperatorCluster, node: str, manner: Manner = "obeys") -> None:
        self.cluster, self.node, self.manner = cluster, node, manner
        self._path = LEASES.path(cluster.name)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        cluster.make(self._path, self._lease())
        if manner != "dead":
            self._thread.start()

    def end(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(PAUSE):
            try:
                self._renew()
                self._answer()
            except ApiError as error:
                if not error.transient and error.reason not in {"missing", "conflict"}:
                    raise

    def _lease(self) -> Document:
        metadata = {"name": f"walras-agent-{self.node}", "labels": {"walras.dev/lease": "agent"}}
        spec = {
            "holderIdentity": self.node,
            "leaseDurationSeconds": DURATION,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        head = {"apiVersion": LEASES.api_version, "kind": "Lease"}
        return {**head, "metadata": metadata, "spec": spec}

    def _renew(self) -> None:
        path = f"{self._path}/walras-agent-{self.node}"
        self.cluster.api.request("PATCH", path, self._lease(), content_type=MERGE)

    def _answer(self) -> None:
        path = OURS["NodeAllocation"].path(name=self.node)
        epoch = self.cluster.api.request("GET", path)["spec"]["epoch"]
        if self.manner == "remembers":
            epoch = max(epoch, REMEMBERED)
        status: Document = {"epoch": epoch, "mode": "enforce", "acceptsNewFields": True}
        if self.manner in {"obeys", "remembers"}:
            status["enforcedEpoch"] = epoch
        else:
            reason = "Refused" if self.manner == "refuses" else "Pending"
            status["conditions"] = [_condition(reason)]
        body = {"status": status}
        self.cluster.api.request("PATCH", f"{path}/status", body, content_type=MERGE)


def _condition(reason: str) -> Document:
    return {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "message": f"as a test has it: {reason}",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
