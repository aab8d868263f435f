"""A real API server for tests of the operator's runtime, and operators on it as processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from installing import install
from operator_process import LABEL
from real_cluster import KUBECONFIG
from waiting import eventually
from walras_service.api import MERGE, Api, settings
from walras_service.kinds import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Document = dict[str, Any]

CRDS = sorted((Path(__file__).parents[2] / "crds").glob("walras.dev_*.yaml"))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS_PATH = "/apis/walras.dev/v1alpha1"
PROGRAM = Path(__file__).with_name("operator_process.py")


class Process:
    """A running operator, for use in a test.

    Attributes:
        identity: Identity with which the operator holds its Lease.
    """

    def __init__(self, cluster: OperatorCluster, identity: str, kubeconfig: str) -> None:
        self.identity = identity
        self.log = cluster.folder / f"{identity}.log"
        arguments = [kubeconfig, cluster.name, identity, "0"]
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments], stderr=out, stdout=out
            )
        assert eventually(self._address, 60), self.log.read_text()

    def _address(self) -> str:
        found = re.search(r"listening on (\S+)", self.log.read_text())
        return found[1] if found else ""

    def get(self, page: str) -> tuple[int, str]:
        """Return the status and text of a page; the status is 0 if nobody answers."""
        try:
            with urllib.request.urlopen(f"{self._address()}{page}", timeout=10) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str) -> float:
        """Return the value of one of the operator's own metrics without labels; 0 if unknown."""
        found = re.search(rf"^walras_operator_{name} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0.0

    def leads(self) -> bool:
        return self.metric("leader") == 1

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def kill(self) -> None:
        """Kill the operator, as a crash of its machine would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """End the operator as the kubelet does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


class OperatorCluster:
    """A namespace of its own for one test, nodes and other objects made for it.

    Attributes:
        name: Name of the namespace, with which all other names begin.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.api = Api(settings(KUBECONFIG), "walras-test")
        self._made: list[str] = []
        self._processes: list[Process] = []
        for path in CRDS:
            self.install(path)
        self.make("/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        assert eventually(lambda: self.read(account))

    def install(self, path: Path) -> None:
        install(self.api, yaml.safe_load(path.read_text()))

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for path in reversed(self._made):
            if re.fullmatch(r"/api/v1/namespaces/[^/]+", path):
                # Not every server has a controller that empties namespaces.
                for kind in ("MarketJob", "SpeedupProfile"):
                    self.delete(OURS[kind].path(path.rpartition("/")[2]))
            self.delete(path)

    def operator(self, identity: str, kubeconfig: str = KUBECONFIG) -> Process:
        process = Process(self, identity, kubeconfig)
        self._processes.append(process)
        return process

    def make(self, path: str, document: Document) -> Document:
        made = self.api.request("POST", path, document)
        self._made.append(f"{path}/{document['metadata']['name']}")
        return made

    def read(self, path: str) -> Document | None:
        return self.api.find(path)

    def delete(self, path: str) -> None:
        """Delete an object, without any grace; it may be gone already."""
        self._call("DELETE", f"{path}?gracePeriodSeconds=0")

    def _call(self, method: str, path: str) -> str:
        """Send a request that the operator itself never sends."""
        headers: dict[str, str] = {}
        client = self.api._client
        client.update_params_for_auth(headers, [], ["BearerToken"], path, method, None)
        answer: Any = client.call_api(method, f"{self.api.configuration.host}{path}", headers)
        text: str = answer.read().decode()
        return text

    def node(self, number: int = 1) -> str:
        """Create a node, and return its name."""
        name = f"{self.name}-{number}"
        self.make("/api/v1/nodes", {"metadata": {"name": name, "labels": {LABEL: ""}}})
        self._made.append(OURS["NodeAllocation"].path(name=name))
        return name

    def pod(self, name: str, node: str) -> str:
        """Create a pod, and return its path."""
        path = f"/api/v1/namespaces/{self.name}/pods"
        spec = {
            "nodeName": node,
            "automountServiceAccountToken": False,  # it may not have one yet
            "containers": [{"name": "c", "image": "none"}],
        }
        self.make(path, {"metadata": {"name": name}, "spec": spec})
        return f"{path}/{name}"

    def entitlement(self, shares: int = 1, suffix: str = "") -> str:
        """Create an Entitlement, and return its path."""
        name = f"{self.name}{suffix}"
        path = f"{OURS_PATH}/entitlements"
        head = {"apiVersion": "walras.dev/v1alpha1", "kind": "Entitlement"}
        metadata = {"name": name, "labels": {LABEL: ""}}
        self.make(
            path, {**head, "metadata": metadata, "spec": {"shares": shares, "namespaces": ["x"]}}
        )
        return f"{path}/{name}"

    def market(self, epoch_seconds: int) -> None:
        head = {"apiVersion": "walras.dev/v1alpha1", "kind": "Market"}
        spec = {"mode": "enforce", "epochSeconds": epoch_seconds}
        self.make(f"{OURS_PATH}/markets", {**head, "metadata": {"name": self.name}, "spec": spec})

    def change(self, path: str, patch: Document) -> None:
        self.api.request("PATCH", path, patch, content_type=MERGE)

    def allocation(self, node: str) -> Document | None:
        return self.read(OURS["NodeAllocation"].path(name=node))

    def epoch(self, node: str) -> int:
        """Return the epoch of a node's NodeAllocation; 0 if there is none."""
        found = self.allocation(node)
        return int(found["spec"]["epoch"]) if found else 0

    def grants(self, node: str) -> int:
        found = self.allocation(node)
        return len(found["spec"].get("grants", ())) if found else -1

    def events(self) -> list[str]:
        """Return the reasons of the Events about the test's own Entitlement."""
        found = self.read("/api/v1/namespaces/default/events") or {"items": ()}
        about = [(each["involvedObject"]["name"], each["reason"]) for each in found["items"]]
        return [reason for name, reason in about if name == self.name]

    def lease(self) -> Document:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.name}/leases/walras-operator"
        found = self.read(path)
        return found["spec"] if found else {}

    def writes(self) -> float:
        """Return the number of requests to change an object of Walras, since the server began."""
        return sum(_counted(line) for line in self._call("GET", "/metrics").splitlines())

    def everything(self) -> Iterator[Mapping[str, Any]]:
        """Yield the metadata of all objects that an operator watches."""
        for kind in OURS.values():
            yield from self.api.names(kind, {})
        for path in ("/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces"):
            for item in self.api.request("GET", path)["items"]:
                yield item["metadata"]


def _counted(line: str) -> float:
    if not line.startswith("apiserver_request_total{"):
        return 0
    labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
    changes = labels["verb"] in {"POST", "PUT", "PATCH", "APPLY"}
    return float(line.rpartition(" ")[2]) if labels["group"] == "walras.dev" and changes else 0
