"""A node that the API server knows and whose pods are cgroups of this machine, with a job on it."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from real_cluster import KUBECONFIG
from walras_service.api import MERGE, Api, settings
from walras_service.api_errors import ApiError
from walras_service.kinds import NAMESPACES, NODES, OURS, PODS, Kind

if TYPE_CHECKING:
    from typing import Self

    from real_pods import RealPods

Document = dict[str, Any]

HEAD = {"apiVersion": "walras.dev/v1alpha1"}
BEAT = 10.0
"""Seconds between two signs of life; without them Kubernetes takes the node for lost after 40."""


class ChartNode:
    """A node of one core, with one pod.

    Args:
        name: Name of the node, of its pod's namespace, and of the entitlement.
        pods: Pods of this machine, to which those of the node are added.
    """

    def __init__(self, name: str, pods: RealPods) -> None:
        self.name, self.pods = name, pods
        self.api = Api(settings(KUBECONFIG), "tests")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        labels = {"kubernetes.io/os": "linux"}
        self._make(NODES, {"metadata": {"name": self.name, "labels": labels}})
        self._thread.start()
        self._make(NAMESPACES, {"metadata": {"name": self.name}})
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for path in (
            OURS["NodeAllocation"].path(name=self.name),
            OURS["Entitlement"].path(name=self.name),
            PODS.path(self.name, "train") + "?gracePeriodSeconds=0",
            NAMESPACES.path(name=self.name),
            NODES.path(name=self.name),
        ):
            self._delete(path)

    def run_job(self) -> int:
        """Create a job with a pod that runs on this machine, and return the PID of its process."""
        pod = self._make(PODS, self._pod(), self.name)
        process = self.pods.start(pod["metadata"]["uid"])
        path = PODS.path(self.name, "train", "status")
        self.api.request("PATCH", path, {"status": {"phase": "Running"}}, content_type=MERGE)
        claim = {"shares": 1, "namespaces": [self.name]}
        self._ours("Entitlement", self.name, claim)
        job = {
            "entitlement": self.name,
            "selector": {"matchLabels": {"app": "train"}},
            "parallelFraction": "0.95",
        }
        self._ours("MarketJob", "train", job, self.name)
        return process

    def _pod(self) -> Document:
        spec = {
            "nodeName": self.name,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "none"}],
        }
        return {"metadata": {"name": "train", "labels": {"app": "train"}}, "spec": spec}

    def _ours(self, kind: str, name: str, spec: Document, namespace: str = "") -> None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        document = {**HEAD, "kind": kind, "metadata": metadata, "spec": spec}
        self._make(OURS[kind], document, namespace)

    def _make(self, kind: Kind, document: Document, namespace: str = "") -> Document:
        return self.api.request("POST", kind.path(namespace), document)

    def _delete(self, path: str) -> None:
        answer: Any = self.api._client.call_api("DELETE", f"{self.api.host}{path}", {})
        answer.read()

    def _beat(self) -> None:
        while True:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
            status = {"allocatable": {"cpu": "1", "memory": "1Gi"}, "conditions": [ready]}
            path = NODES.path(name=self.name, subresource="status")
            with suppress(ApiError):  # the next one will do
                self.api.request("PATCH", path, {"status": status}, content_type=MERGE)
            if self._ended.wait(BEAT):
                return
