"""A large cluster made through a real API server, and all of it removed again.

Nobody runs its pods. They stay `Pending` on their nodes, which is enough for a market: it counts
all pods that have a node and have not ended. Of kubelets there are the Leases by which the control
plane sees that nodes live.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from large_worlds import cluster
from waiting import eventually
from walras_service.api import MERGE, Api, settings
from walras_service.api_errors import ApiError
from walras_service.kinds import LEASES, NAMESPACES, NODES, OURS, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from walras_service.kinds import Kind

Document = dict[str, Any]

SYSTEM = "walras-system"
JOBS = "lab"
THREADS = 8

_CRDS = sorted((Path(__file__).parents[2] / "crds").glob("walras.dev_*.yaml"))
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS: dict[str, Kind] = {**OURS, "Node": NODES, "Pod": PODS}
_HEARTBEATS = "kube-node-lease"
_BEAT = 15.0  # seconds; after 40 without one a node is not ready
_PARTS = 30


def now() -> str:
    """Return the current time in the format of Leases."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LargeCluster:
    """Nodes, pods and what Walras needs to divide them.

    Args:
        kubeconfig: Kubeconfig of a control plane that has no nodes.
        nodes: Number of nodes to create.
        pods: Number of pods to create.
        memory: Memory of a node; by default enough for all, so that nothing moves by itself.
        controllers: Process of the control plane's controller manager. It stands still from the
            creation of the nodes until all are removed: then no node is ever found dead, nodes need
            no Leases, and no kubelet need be simulated.

    Attributes:
        api: Client that reads and changes the cluster.
        nodes: Names of the nodes.
    """

    def __init__(
        self,
        kubeconfig: str,
        nodes: int,
        pods: int,
        memory: str = "64Gi",
        controllers: int | None = None,
    ) -> None:
        self.api = Api(settings(kubeconfig), "walras-large-cluster", 2 * THREADS)
        self.documents = cluster(nodes, pods, memory)
        self.nodes = [each["metadata"]["name"] for each in self.documents if each["kind"] == "Node"]
        self._pool = ThreadPoolExecutor(THREADS)
        self._hearts = ThreadPoolExecutor(THREADS // 2)
        self._closed = threading.Event()
        self._kubelets = threading.Thread(target=self._beats, daemon=True)
        self._mine = False
        self._controllers = controllers

    def fill(self) -> None:
        """Create all nodes, pods and objects of Walras.

        Raises:
            RuntimeError: This cluster has nodes of its own, which are to be left alone.
        """
        if any(True for _ in self.api.names(NODES, {})):
            raise RuntimeError(f"{self.api.host} has nodes; give a control plane that has none")
        self._mine = True
        for path in _CRDS:
            self._define(yaml.safe_load(path.read_text()))
        for namespace in (SYSTEM, JOBS, _HEARTBEATS):
            self._namespace(namespace)
        if self._controllers is None:
            self.all(self._live, self.nodes)
        for kind, same in groupby(self.documents, lambda each: str(each["kind"])):
            self.all(self._make, same)
            if kind == "Node":
                if self._controllers is None:
                    self._kubelets.start()
                else:
                    os.kill(self._controllers, signal.SIGSTOP)
                self.all(self._untaint, self.nodes)

    def close(self) -> None:
        """Remove all that was created except namespaces and definitions."""
        self._closed.set()
        if self._kubelets.is_alive():
            self._kubelets.join()
        try:
            if self._mine:
                self._remove()
        finally:
            if self._controllers is not None:
                os.kill(self._controllers, signal.SIGCONT)
        self._pool.shutdown()
        self._hearts.shutdown()

    def _remove(self) -> None:
        plans = OURS["NodeAllocation"]
        self.all(self.delete, [_path(each) for each in self.documents if each["kind"] != "Node"])
        self.all(self.delete, [LEASES.path(SYSTEM, f"walras-agent-{each}") for each in self.nodes])
        if self._controllers is None:
            self.all(self.delete, [LEASES.path(_HEARTBEATS, node) for node in self.nodes])
        self.all(self.delete, [NODES.path(name=node) for node in self.nodes])
        self.all(self.delete, [plans.path(name=node) for node in self.nodes])

    def all(self, do: Callable[[Any], object], each: Iterable[Any]) -> None:
        """Call a function with each of many arguments, several at a time."""
        list(self._pool.map(do, each))

    def change(self, path: str, patch: Document) -> Document:
        return self.api.request("PATCH", path, patch, content_type=MERGE)

    def read(self, path: str) -> Document | None:
        return self.api.find(path)

    def delete(self, path: str) -> None:
        """Delete an object, without any grace; it may be gone already."""
        with suppress(ApiError):
            self.api.request("DELETE", path, query={"gracePeriodSeconds": 0})

    def told(self, path: str) -> bool:
        """Return whether an object's condition Ready is about its current generation."""
        found = self.api.request("GET", path, timeout=30)
        conditions = found.get("status", {}).get("conditions", ())
        ready = [each for each in conditions if each["type"] == "Ready"]
        generation = found["metadata"]["generation"]
        return any(each.get("observedGeneration") == generation for each in ready)

    def unready(self) -> set[str]:
        """Return the nodes that are not ready, as far as the control plane knows."""
        found = self.api.request("GET", NODES.path(), query={"resourceVersion": 0}, timeout=30)
        ready = {
            node["metadata"]["name"]
            for node in found["items"]
            for condition in node["status"]["conditions"]
            if condition["type"] == "Ready" and condition["status"] == "True"
        }
        return set(self.nodes) - ready

    def _define(self, definition: Document) -> None:
        name, plural = definition["metadata"]["name"], definition["spec"]["names"]["plural"]
        if self.read(f"{_DEFINITIONS}/{name}") is None:
            self.api.request("POST", _DEFINITIONS, definition)
        kind = next(each for each in OURS.values() if each.plural == plural)
        assert eventually(lambda: self.read(kind.path()) is not None)

    def _namespace(self, name: str) -> None:
        with suppress(ApiError):
            self.api.request("POST", NAMESPACES.path(), {"metadata": {"name": name}})
        account = f"{NAMESPACES.path(name=name)}/serviceaccounts/default"
        assert eventually(lambda: self.read(account) is not None)

    def _make(self, document: Document) -> None:
        metadata = {**document["metadata"]}
        for given in ("uid", "generation"):
            del metadata[given]
        asked = {**document, "metadata": metadata}
        if document["kind"] == "Pod":
            asked["spec"] = _runnable(asked["spec"])
        path = _KINDS[document["kind"]].path(metadata.get("namespace", ""))
        self.api.request("POST", path, asked)

    def _untaint(self, node: str) -> None:
        """Remove the taint of new nodes at once: the control plane takes a minute for a thousand.

        Meanwhile the nodes' changes would make the operator decide again and again.
        """
        self.change(NODES.path(name=node), {"spec": {"taints": None}})

    def _live(self, node: str) -> None:
        metadata = {"name": node}
        spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now()}
        document = {"metadata": metadata, "spec": spec}
        self.api.request("POST", LEASES.path(_HEARTBEATS), document)

    def _beats(self) -> None:
        """Renew the nodes' Leases, a part of them at a time."""
        parts = [self.nodes[first::_PARTS] for first in range(_PARTS)]
        while True:
            for part in parts:
                if self._closed.wait(_BEAT / _PARTS):
                    return
                list(self._hearts.map(self._beat, part))

    def _beat(self, node: str) -> None:
        with suppress(ApiError):
            self.change(LEASES.path(_HEARTBEATS, node), {"spec": {"renewTime": now()}})


def _path(document: Document) -> str:
    metadata = document["metadata"]
    return _KINDS[document["kind"]].path(metadata.get("namespace", ""), metadata["name"])


def _runnable(spec: Document) -> Document:
    """Add the fields that the API server demands of a pod."""
    return {
        **spec,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"image": "none", **each} for each in spec["containers"]],
    }
