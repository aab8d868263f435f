"""The agents of many nodes in one process, which only talk to the API server.

Each answers every plan of its node by reporting that it enforces it, as `walras_agent.daemon` does
if there is no problem, and each has its Lease. One watch sees all plans, where a real agent sees
only its own.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from large_cluster import SYSTEM, now
from walras_service.api import MERGE, Api
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES, OURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubernetes.client import Configuration

    from walras_service.api import Query

Document = dict[str, Any]

_PLANS = OURS["NodeAllocation"]
_THREADS = 2
_LONG = 3600  # seconds
_CPUS = 48


class Plan(NamedTuple):
    """A plan that a node was given.

    Attributes:
        epoch: Epoch of the plan.
        rest: Other fields of the NodeAllocation's spec.
    """

    epoch: int
    rest: Document

    @classmethod
    def read(cls, spec: Document) -> Plan:
        """Return the plan in the spec of a NodeAllocation."""
        return cls(spec["epoch"], {key: spec[key] for key in spec if key != "epoch"})

    @property
    def pods(self) -> set[str]:
        """Names of the pods with a grant."""
        return {each["name"] for each in self.rest.get("grants") or ()}


class SimulatedAgents:
    """Agents of all nodes of a cluster.

    Args:
        found: Address of the API server, and credentials.

    Attributes:
        plans: Plans of each node in the order in which they came, by node.
        seen: Time at which the last plan was seen, by `time.monotonic`; 0 before the first.
        problem: Reason why the agents have ended; empty as long as they run.
    """

    def __init__(self, found: Configuration) -> None:
        self.plans: defaultdict[str, list[Plan]] = defaultdict(list)
        self.seen = 0.0
        self.problem = ""
        self._api = Api(found, "walras-agent", _THREADS + 1)
        self._pool = ThreadPoolExecutor(_THREADS)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to follow plans, of which there is none yet."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering plans."""
        self._closed.set()
        self._pool.shutdown(cancel_futures=True)

    def live(self, nodes: Iterable[str], seconds: int = _LONG) -> None:
        """Renew the Leases of nodes' agents for a number of seconds."""
        list(self._pool.map(lambda node: self._beat(node, seconds), nodes))

    def _beat(self, node: str, seconds: int) -> None:
        name = f"walras-agent-{node}"
        spec = {"holderIdentity": node, "leaseDurationSeconds": seconds, "renewTime": now()}
        try:
            self._api.request(
                "PATCH", LEASES.path(SYSTEM, name), {"spec": spec}, content_type=MERGE
            )
        except ApiError as error:
            if error.reason != "missing":
                raise
            metadata = {"name": name, "labels": {"walras.dev/lease": "agent"}}
            self._api.request("POST", LEASES.path(SYSTEM), {"metadata": metadata, "spec": spec})

    def _run(self) -> None:
        try:
            while not self._closed.is_set():  # the server ends watches that it is not read from
                listed = self._api.request("GET", _PLANS.path(), timeout=30)
                for document in listed["items"]:
                    self._take(document)
                for event in self._events(listed["metadata"]["resourceVersion"]):
                    if event["type"] == "ERROR":
                        break
                    if event["type"] != "DELETED":
                        self._take(event["object"])
        except Exception as error:  # noqa: BLE001 - whoever waits for the agents is to know
            self.problem = "" if self._closed.is_set() else repr(error)

    def _events(self, version: str) -> Iterator[Document]:
        query: Query = {"watch": True, "resourceVersion": version, "timeoutSeconds": _LONG}
        answer = self._api.opened(_PLANS.path(), query=query, timeout=(5, _LONG))
        for line in answer:
            yield json.loads(line)

    def _take(self, document: Document) -> None:
        """Answer a plan, unless its epoch is the one that was answered last."""
        node, spec = document["metadata"]["name"], document["spec"]
        plans = self.plans[node]
        if spec["epoch"] and (not plans or plans[-1].epoch != spec["epoch"]):
            plans.append(Plan.read(spec))
            self.seen = time.monotonic()
            self._pool.submit(self._answer, node, spec)

    def _answer(self, node: str, spec: Document) -> None:
        with suppress(ApiError):  # the node may be gone, or the server
            status = {"status": _status(spec)}
            self._api.request(
                "PATCH", _PLANS.path(name=node, subresource="status"), status, content_type=MERGE
            )


def _status(spec: Document) -> Document:
    grants = spec.get("grants") or ()
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Enforced",
        "message": f"{len(grants)} grants enforced",
        "lastTransitionTime": now(),
    }
    return {
        "epoch": spec["epoch"],
        "enforcedEpoch": spec["epoch"],
        "mode": spec["mode"],
        "acceptsNewFields": True,
        "topology": {
            "cpus": f"0-{_CPUS - 1}",
            "cores": _CPUS,
            "threads": _CPUS,
            "sockets": 1,
            "numaNodes": 1,
            "memory": str(64 * 1024**3),
        },
        "pods": [
            {key: grant[key] for key in ("podUID", "namespace", "name")} | {"state": "Enforced"}
            for grant in grants
        ],
        "conditions": [condition],
    }
