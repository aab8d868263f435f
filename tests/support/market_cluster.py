"""A market on a real API server: objects, the real operator as a process, and agents that answer.

No kubelet is needed: Nodes and Pods are made through the API, and what an agent would write (its
Lease, its node's status) is written here, as `walras_agent.daemon` does. All of it is removed in
the end. There is one Market, so that only one such cluster can be on a server.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from installing import install
from waiting import eventually
from walras_service import kinds
from walras_service.api import MERGE, Api, settings
from walras_service.api_errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

Document = dict[str, Any]

CRDS = sorted((Path(__file__).parents[2] / "crds").glob("walras.dev_*.yaml"))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS = "/apis/walras.dev/v1alpha1"
SYSTEM = "walras-system"
LEASES = kinds.LEASES.path(SYSTEM)
PATHS = {
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
    "Namespace": ("/api/v1", "namespaces"),
    "Entitlement": (OURS, "entitlements"),
    "MarketJob": (OURS, "marketjobs"),
    "SpeedupProfile": (OURS, "speedupprofiles"),
    "Market": (OURS, "markets"),
}


def path_of(document: Document) -> str:
    """Return the API path of a document's kind and namespace."""
    group, plural = PATHS[document["kind"]]
    namespace = document["metadata"].get("namespace")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


class MarketCluster:
    """A market on the cluster of a kubeconfig, which exists as long as a test needs it."""

    def __init__(self, kubeconfig: str, folder: Path) -> None:
        self.kubeconfig, self.folder = kubeconfig, folder
        self.api = Api(settings(kubeconfig), "test")
        self._made: list[str] = []
        self._operator: subprocess.Popen[bytes] | None = None
        self._nodes: list[str] = []
        self._closed = threading.Event()
        self._kubelets = threading.Thread(target=self._beat, daemon=True)
        self._kubelets.start()
        for path in CRDS:
            install(self.api, yaml.safe_load(path.read_text()))
        self.namespace(SYSTEM)

    def close(self) -> None:
        self.stop_operator()
        self._closed.set()
        self._kubelets.join()
        for path in reversed(self._made):
            with suppress(ApiError):
                self.api.request("DELETE", path, query={"gracePeriodSeconds": 0})

    def _beat(self) -> None:
        """Report nodes as ready, as kubelets do: after 40 s without a report they are not ready."""
        while not self._closed.wait(10):
            for node in tuple(self._nodes):
                beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": _now()}
                with suppress(ApiError):
                    self.change(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [beat]}})

    def read(self, path: str) -> Document | None:
        """Return an object or a list; None if it does not exist, or its kind is not yet served."""
        try:
            return self.api.find(path)
        except ApiError as error:
            if "(re)initializing" in str(error):  # as a definition that is a moment old
                return None
            raise

    def namespace(self, name: str) -> None:
        """Create a namespace, once one of that name from an earlier test is gone."""
        path = f"/api/v1/namespaces/{name}"
        assert eventually(lambda: "deletionTimestamp" not in self._metadata(path), 60)
        with suppress(ApiError):
            self.make({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        assert eventually(lambda: self.read(account))

    def _metadata(self, path: str) -> Document:
        found: Document = (self.read(path) or {}).get("metadata", {})
        return found

    def make(self, *documents: Document) -> None:
        """Create objects, as `worlds` builds them."""
        for document in documents:
            self._make(document)

    def _make(self, document: Document) -> None:
        metadata = {**document["metadata"]}
        metadata.pop("uid", None)
        metadata.pop("generation", None)
        metadata = {key: value for key, value in metadata.items() if value is not None}
        asked = {**document, "metadata": metadata}
        status = asked.pop("status", None)
        if document["kind"] == "Pod":
            asked["spec"] = _runnable(asked["spec"])
        path = path_of(document)
        self.api.request("POST", path, asked)
        self._made.append(f"{path}/{metadata['name']}")
        if document["kind"] in {"Node", "Pod"} and status is not None:
            self.api.request(
                "PATCH",
                f"{path}/{metadata['name']}/status",
                {"status": status},
                content_type=MERGE,
            )
        if document["kind"] == "Node":
            self._made.append(f"{OURS}/nodeallocations/{metadata['name']}")
            self._nodes.append(metadata["name"])

    def change(self, path: str, patch: Document) -> None:
        self.api.request("PATCH", path, patch, content_type=MERGE)

    def delete(self, path: str) -> None:
        self.api.request("DELETE", path, query={"gracePeriodSeconds": 0})

    def agents_live(self, nodes: Iterable[str], seconds: int = 3600) -> None:
        """Renew the Leases of nodes' agents for a number of seconds."""
        for node in nodes:
            name = f"walras-agent-{node}"
            spec = {
                "holderIdentity": node,
                "leaseDurationSeconds": seconds,
                "renewTime": _now(),
            }
            if self.read(f"{LEASES}/{name}") is None:
                metadata = {"name": name, "labels": {"walras.dev/lease": "agent"}}
                self.api.request("POST", LEASES, {"metadata": metadata, "spec": spec})
                self._made.append(f"{LEASES}/{name}")
            else:
                self.change(f"{LEASES}/{name}", {"spec": spec})

    def agents_answer(self, cpus: int = 16) -> None:
        """Write for every agent that it enforces its node's plan."""
        for each in self.api.request("GET", f"{OURS}/nodeallocations")["items"]:
            grants = each["spec"].get("grants") or []
            epoch = each["spec"]["epoch"]
            condition = {
                "type": "Ready",
                "status": "True",
                "reason": "Enforced",
                "message": f"{len(grants)} grants enforced",
                "lastTransitionTime": _now(),
            }
            status = {
                "epoch": epoch,
                "enforcedEpoch": epoch,
                "mode": "enforce",
                "topology": _topology(cpus),
                "pods": [
                    {key: grant[key] for key in ("podUID", "namespace", "name")}
                    | {"state": "Enforced"}
                    for grant in grants
                ],
                "conditions": [condition],
            }
            self.change(
                f"{OURS}/nodeallocations/{each['metadata']['name']}/status", {"status": status}
            )

    def start_operator(self, *options: str) -> None:
        """Start the real operator, and wait until it has cleared the market."""
        log = self.folder / "operator.log"
        command = [sys.executable, "-m", "walras_operator", "run", "--kubeconfig", self.kubeconfig]
        with log.open("w") as out:
            self._operator = subprocess.Popen(
                [*command, "--listen", "off", "--log-format", "text", *options],
                stderr=out,
                stdout=out,
            )
        self._made.append(f"{LEASES}/walras-operator")
        assert eventually(self.cleared, 240), log.read_text()

    def forget_operators(self) -> None:
        """Remove the Leases of all operators, also of those of earlier tests."""
        query = {"fieldSelector": "metadata.name=walras-operator"}
        for each in self.api.request("GET", kinds.LEASES.path(), query=query)["items"]:
            metadata = each["metadata"]
            self.delete(kinds.LEASES.path(metadata["namespace"], metadata["name"]))

    def cleared(self) -> bool:
        """Return whether the Market's status has an epoch, and every job's status conditions.

        An API server that is busy, as it is with new definitions, has not said so yet.
        """
        try:
            market = self.read(f"{OURS}/markets/default") or {}
            jobs = self.api.request("GET", f"{OURS}/marketjobs")["items"]
        except ApiError as error:
            if not error.transient:
                raise
            return False
        return "epoch" in market.get("status", {}) and all(
            each.get("status", {}).get("conditions") for each in jobs
        )

    def enforced(self) -> bool:
        """Return whether jobs' statuses count all pods with a grant as enforced."""
        jobs = self.api.request("GET", f"{OURS}/marketjobs")["items"]
        counts = [each.get("status", {}).get("counts", {}) for each in jobs]
        return all(each.get("granted") == each.get("enforced") for each in counts)

    def stop_operator(self, *, kill: bool = False) -> None:
        """End the operator, as the kubelet does or as a crash of its machine would."""
        if self._operator is not None:
            if kill:
                self._operator.kill()
            else:
                self._operator.terminate()
            self._operator.wait(30)
            self._operator = None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _topology(cpus: int) -> Document:
    return {
        "cpus": f"0-{cpus - 1}",
        "cores": cpus,
        "threads": cpus,
        "sockets": 1,
        "numaNodes": 1,
        "memory": str(64 * 1024**3),
    }


def _runnable(spec: Document) -> Document:
    """Return a pod's spec with the fields that the API server demands, without those of None."""
    containers = [{"image": "none", **each} for each in spec["containers"]]
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        **{key: value for key, value in spec.items() if value is not None},
        "containers": containers,
    }
